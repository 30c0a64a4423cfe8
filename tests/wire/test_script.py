"""Scripts: what they may be, and the program that runs them."""

from __future__ import annotations

import pytest

from rota.wire.script import MOST_BYTES, check_script, interpreter


@pytest.mark.parametrize(
    ("head", "words"),
    [
        ("#!/bin/bash", ["/bin/bash"]),
        ("#! /bin/bash -l ", ["/bin/bash", "-l"]),
        (
            "#!/usr/bin/env -S python3 -u",
            ["/usr/bin/env", "-S python3 -u"],
        ),  # one argument, as the kernel has it
        ("#!\t/usr/bin/perl\t-w", ["/usr/bin/perl", "-w"]),
    ],
)
def test_the_first_line_is_read_as_the_kernel_does(head: str, words: list[str]) -> None:
    assert interpreter(f"{head}\nbody") == words


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("echo", "does not say what runs it"),
        ("#! \necho", "names no program in line 1"),
        ("#!/bin/sh\na\r\n", "ends line 2 as Windows does"),
        ("#!/bin/sh\n\0", "contains a NUL character"),
        ("#!/bin/sh\n" + "ä" * (MOST_BYTES // 2), "has 1,048,586 bytes; expected at most 1,048,576"),
    ],
    ids=["no line", "no program", "Windows", "NUL", "too large"],
)
def test_what_is_no_script(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        check_script(text)
