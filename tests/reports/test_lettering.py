"""Widths of texts, and lines that fit."""

from __future__ import annotations

import pytest

from rota.reports.layout import cut, text_width, wrapped


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("", 0),
        ("100%", 3 * 556 + 889),
        ("30d", 3 * 556),
        ("Queue length", 778 + 556 * 9 + 222 + 278 + 278 - 556),
    ],
)
def test_widths_are_those_of_helvetica(text: str, units: int) -> None:
    assert text_width(text, 1000.0) == pytest.approx(units)


def test_letters_of_any_script_have_a_width() -> None:
    assert text_width("名前", 10.0) == 20.0
    assert text_width("e\u0301", 10.0) == text_width("e", 10.0)
    assert text_width("Ж", 10.0) > 0


def test_lines_are_broken_between_words_and_long_words_cut() -> None:
    text = "GPUs' worth of work, at the sizes asked for by multifactor:age=0.3,fairshare=0.7,size=0.2"
    lines = wrapped(text, 12.0, 100.0)
    assert all(text_width(line, 12.0) <= 100.0 for line in lines)
    assert lines[0].startswith("GPUs' worth")
    assert "…" in lines[-1]
    assert wrapped("short", 12.0, 100.0) == ["short"]


def test_a_name_that_is_cut_keeps_both_ends() -> None:
    short = cut("multifactor:age=0.3,fairshare=0.7,size=0.2", 12.0, 80.0)
    assert short.startswith("multi")
    assert short.endswith("0.2")
    assert text_width(short, 12.0) <= 80.0
