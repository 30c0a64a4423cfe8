"""A script that runs as a file: the rules for its text, and the program that its first line names."""

from __future__ import annotations

MOST_BYTES = 1 << 20
"""Most bytes of a script, as UTF-8."""


def check_script(text: str) -> None:
    """Raise ValueError unless `text` has a `#!` line and is short enough to travel with its job."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MOST_BYTES:
        raise ValueError(
            f"has {size:,} bytes; expected at most {MOST_BYTES:,}: keep data in a file beside it"
        )
    if "\0" in text:
        raise ValueError("contains a NUL character; expected text")
    if (row := windows_row(text)) is not None:
        raise ValueError(f"ends line {row} as Windows does (\\r\\n); expected \\n: run `dos2unix` on it")
    interpreter(text)


def windows_row(text: str) -> int | None:
    """Number of the first line that ends in CR LF, as on Windows; None if no line does."""
    before, ending, _ = text.partition("\r\n")
    return before.count("\n") + 1 if ending else None


def interpreter(text: str) -> list[str]:
    """The program of the `#!` line, and the rest of that line as one argument, as the kernel reads it.

    Raises ValueError if there is no such line, or no program in it.
    """
    head = text.partition("\n")[0]
    if not head.startswith("#!"):
        raise ValueError("does not say what runs it; expected a first line such as #!/bin/bash")
    program, *argument = head[2:].strip().split(None, 1) or [""]
    if not program:
        raise ValueError("names no program in line 1; expected #!/bin/bash")
    return [program, *argument]
