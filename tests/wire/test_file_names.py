"""Names of output files: which marks there are, and what becomes of them."""

from __future__ import annotations

import pytest

from rota.wire.file_names import LETTERS, check_file_name, filled

JOB = {"j": "17_3", "A": "17", "a": "3", "x": "a/b%", "u": "alice"}
RANK = {"t": "0", "N": "rack/n1", "n": "1", "s": "batch"}


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        ("logs/%x-%j.out", "logs/a_b%-17_3.out"),
        ("%A_%4a", "17_0003"),
        ("%99a", "0000000003"),
        ("%3j", "17_3"),  # no number: as it is
        ("%N.%n.%2t.%s", "rack_n1.1.00.batch"),
        ("100%%", "100%"),
        ("%%j", "%j"),
        ("plain", "plain"),
    ],
)
def test_controller_and_agent_fill_in_what_they_know(name: str, whole: str) -> None:
    check_file_name(name)
    assert filled(filled(name, JOB), RANK, last=True) == whole


@pytest.mark.parametrize("name", ["%Q", "a%", "%4", "%5%", "%%%", "%-3j", "%é"])
def test_a_mark_without_a_meaning_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"has '%.*', which has no meaning here; expected %j job"):
        check_file_name(name)


def test_every_letter_is_accepted() -> None:
    for letter in LETTERS:
        check_file_name(f"%{letter}")
