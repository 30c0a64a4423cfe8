"""Durations, memory and numbers as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.errors import InputError
from rota.model.units import format_duration, parse_duration, parse_memory_gib, plural


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("1.5h", 5400),
        ("1h30m", 5400),
        ("5h 12m", 18720),  # as format_duration writes it
        (" 2min ", 120),
        ("250ms", 0.25),
        ("1w2d", 777600),
        ("12:00:00", 43200),
        ("1-12:00:00", 129600),
        ("0:00:01.5", 1.5),
        ("0", 0),  # of any unit
    ],
)
def test_durations_with_units(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "90", "1h30", "h", "-5s", "5 s", "1:99:00", "0:00:61", "1x", "nan"])
def test_what_is_not_a_duration_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is not a duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (9.94, "9.9s"),
        (9.96, "10s"),
        (42, "42s"),
        (59.6, "1m"),  # never "60s"
        (200, "3m 20s"),
        (3599.6, "1h"),
        (187_200, "2d 4h"),
        (-90, "-1m 30s"),
        (float("nan"), "-"),
        (float("inf"), "-"),
    ],
)
def test_durations_as_read(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 jobs"),
        (1, "1 job"),
        (1.0, "1 job"),
        (0.9999999, "1 job"),  # as it is read
        (0.5, "0.5 jobs"),
        (2, "2 jobs"),
        (1_250_000, "1,250,000 jobs"),
        (float("inf"), "inf jobs"),
        (float("nan"), "- jobs"),
    ],
)
def test_one_and_many(value: float, text: str) -> None:
    assert plural(value, "job") == text


@given(st.floats(min_value=10, max_value=1e8))
def test_what_is_written_can_be_read_back(seconds: float) -> None:
    """The second unit is at least 1/24 of the first, so at most that much is cut off."""
    assert parse_duration(format_duration(seconds)) == pytest.approx(seconds, rel=0.06)


@given(st.integers(0, 1_000_000), st.sampled_from(["ms", "s", "m", "min", "h", "d", "w"]))
def test_whole_units_are_exact(count: int, unit: str) -> None:
    assert parse_duration(f"{count}{unit}") == count * parse_duration(f"1{unit}")


@pytest.mark.parametrize(
    ("text", "gib"),
    [("16GiB", 16), ("16 GB", 14.901161), ("512MiB", 0.5), ("1.5TiB", 1536), ("1048576KiB", 1)],
)
def test_memory(text: str, gib: float) -> None:
    assert parse_memory_gib(text) == pytest.approx(gib)


@pytest.mark.parametrize("text", ["16", "16G", "GB", "-1GB", "16gb", ""])
def test_what_is_not_memory_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is not an amount of memory"):
        parse_memory_gib(text)
