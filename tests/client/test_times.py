"""Moments: what people type, what sbatch takes, and what is no moment."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.client.times import parse_moment, parse_since, parse_slurm_duration, parse_slurm_moment
from rota.errors import InputError

NOW = datetime(2026, 11, 22, 10, 30, 15)
NOW_S = NOW.timestamp()


def at(year: int, month: int, day: int, hour: int = 0, minute: int = 0, second: int = 0) -> float:
    return datetime(year, month, day, hour, minute, second).timestamp()


@pytest.mark.parametrize(
    ("text", "moment_s"),
    [
        ("now", NOW_S),
        ("+2h", NOW_S + 7200),
        (" +1h30m ", NOW_S + 5400),
        ("+1-12:00:00", NOW_S + 129600),
        ("1795341600", 1795341600.0),
        ("1795341600.5", 1795341600.5),
        ("2026-11-23", at(2026, 11, 23)),
        ("2026-11-23T10:00", at(2026, 11, 23, 10)),
        ("2026-11-23 10:00:05", at(2026, 11, 23, 10, 0, 5)),
        ("2026-11-23T10:00:00Z", 1795428000.0),
        ("2026-11-23T10:00:00+01:00", 1795424400.0),
        ("11:00", at(2026, 11, 22, 11)),
        ("10:30:15", at(2026, 11, 23, 10, 30, 15)),  # just now is tomorrow
        ("9:15", at(2026, 11, 23, 9, 15)),
    ],
)
def test_moment(text: str, moment_s: float) -> None:
    assert parse_moment(text, "--begin", NOW_S) == moment_s


@pytest.mark.parametrize(
    "text", ["", "2h", "120", "tomorrow", "25:00", "2026-13-01", "2026-11-22T99:00", "+", "+90"]
)
def test_no_moment(text: str) -> None:
    """A bare number is neither a moment nor a duration; the sentence names the option and what would do."""
    with pytest.raises(InputError, match=r"^--begin: ") as caught:
        parse_moment(text, "--begin", NOW_S)
    assert "expected" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "moment_s"),
    [
        ("7d", NOW_S - 7 * 86400),
        ("-90m", NOW_S - 5400),
        ("9:00", at(2026, 11, 22, 9)),
        ("2026-11-01", at(2026, 11, 1)),
        ("1795341600", 1795341600.0),
    ],
)
def test_since(text: str, moment_s: float) -> None:
    assert parse_since(text, now_s=NOW_S) == moment_s


def test_since_says_what_it_takes() -> None:
    with pytest.raises(InputError, match=r"--since: 'yesterday' is not a moment; expected 7d \(ago\)"):
        parse_since("yesterday", now_s=NOW_S)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 5400),  # minutes: in a script for sbatch there is no doubt
        ("1:30", 90),
        ("02:00:00", 7200),
        ("1-12", 129600),
        ("1-12:30", 131400),
        ("1-12:30:15", 131415),
        ("UNLIMITED", None),
        ("0", None),
    ],
)
def test_slurm_duration(text: str, seconds: float | None) -> None:
    assert parse_slurm_duration(text) == seconds


@pytest.mark.parametrize("text", ["2h", "1:2:3:4", "", "a-1", "-5"])
def test_no_slurm_duration(text: str) -> None:
    with pytest.raises(InputError, match="is not a duration of sbatch"):
        parse_slurm_duration(text)


@pytest.mark.parametrize(
    ("text", "moment_s"),
    [
        ("now", NOW_S),
        ("now+60", NOW_S + 60),
        ("now+1hour", NOW_S + 3600),
        ("now+ 3days", NOW_S + 3 * 86400),
        ("16:00", at(2026, 11, 22, 16)),
        ("noon", at(2026, 11, 22, 12)),
        ("midnight", at(2026, 11, 23)),
        ("today", NOW_S),
        ("tomorrow", at(2026, 11, 23)),
        ("11/30", at(2026, 11, 30)),
        ("01/02", at(2027, 1, 2)),
        ("11/30/27", at(2027, 11, 30)),
        ("11/30/26-08:30", at(2026, 11, 30, 8, 30)),
        ("2026-12-01T08:00:00", at(2026, 12, 1, 8)),
    ],
)
def test_slurm_moment(text: str, moment_s: float) -> None:
    assert parse_slurm_moment(text, now_s=NOW_S) == moment_s


@pytest.mark.parametrize("text", ["soon", "13/40", "02/30", "11/30-late", "now+1fortnight", "now-60"])
def test_no_slurm_moment(text: str) -> None:
    with pytest.raises(InputError, match="is not a moment of sbatch"):
        parse_slurm_moment(text, now_s=NOW_S)


@given(st.integers(0, 23), st.integers(0, 59))
def test_a_time_of_day_is_the_next_one(hour: int, minute: int) -> None:
    found = datetime.fromtimestamp(parse_moment(f"{hour}:{minute:02d}", now_s=NOW_S))
    assert (found.hour, found.minute, found.second) == (hour, minute, 0)
    assert timedelta(0) < found - NOW <= timedelta(days=1, hours=1)  # an hour for a change of the clocks
