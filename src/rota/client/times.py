"""Moments as users type them, in Rota's and in Slurm's formats, as Unix seconds."""

from __future__ import annotations

import re
import time
from datetime import datetime, timedelta

from rota.errors import InputError
from rota.model.units import parse_duration

EXPECTED = "+2h, 2026-11-22T10:00, 10:00 (the next one) or Unix seconds"
FIRST_UNIX_S = 1e9
"""Smallest bare number that counts as a moment; a smaller one is probably a duration without its unit."""
_UNIX = re.compile(r"\d+(?:\.\d+)?")
_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?")
_SLURM_NUMBERS = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")
_SLURM_AFTER = re.compile(r"now(?:\s*\+\s*(\d+)\s*(second|minute|hour|day|week)?s?)?")
_SLURM_DATE = re.compile(r"(\d\d?)[/.](\d\d?)(?:[/.](\d\d))?(?:-(.+))?")
_SLURM_WORDS = {
    "midnight": "0:00",
    "elevenses": "11:00",
    "noon": "12:00",
    "fika": "15:00",
    "teatime": "16:00",
}
_SLURM_UNITS_S = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}


def parse_moment(text: str, field: str = "moment", now_s: float | None = None) -> float:
    """Unix seconds of `+2h`, `now`, `2026-11-22`, `2026-11-22T10:00`, `10:00`, `1795341600`.

    A time of day is the next one; without a zone, times are local.  Raises InputError.
    """
    now_s = time.time() if now_s is None else now_s
    text = text.strip()
    if text == "now":
        return now_s
    if text.startswith("+"):
        return now_s + parse_duration(text[1:], field)
    if _UNIX.fullmatch(text) and float(text) >= FIRST_UNIX_S:
        return float(text)
    moment = _next_clock(text, now_s) or _iso(text)
    if moment is None:
        raise InputError.at(f"{text!r} is not a moment", field=field, expected=EXPECTED)
    return moment


def parse_since(text: str, field: str = "--since", now_s: float | None = None) -> float:
    """Unix seconds of a moment in the past: `7d` is seven days ago; other texts as in `parse_moment`."""
    now_s = time.time() if now_s is None else now_s
    try:
        return now_s - parse_duration(text.strip().removeprefix("-"), field)
    except InputError:
        clock = _CLOCK.fullmatch(text.strip())
    if clock:
        return _on_day(datetime.fromtimestamp(now_s), clock)
    try:
        return parse_moment(text, field, now_s)
    except InputError:
        expected = "7d (ago), 2026-11-22T10:00, 10:00 (today) or Unix seconds"
        raise InputError.at(f"{text!r} is not a moment", field=field, expected=expected) from None


def parse_slurm_duration(text: str, field: str = "--time") -> float | None:
    """Seconds of Slurm's `MINUTES`, `M:S`, `H:M:S`, `D-H`, `D-H:M`, `D-H:M:S`.

    None means no limit: `UNLIMITED`, and zero in any form.
    """
    text = text.strip()
    if text.upper() in ("UNLIMITED", "INFINITE", "-1"):
        return None
    match = _SLURM_NUMBERS.fullmatch(text)
    if match is None:
        expected = "MINUTES, MINUTES:SECONDS, HOURS:MINUTES:SECONDS or DAYS-HOURS[:MINUTES[:SECONDS]]"
        raise InputError.at(f"{text!r} is not a duration of sbatch", field=field, expected=expected)
    days, first, second, third = match.groups()
    if days is not None:
        hours, minutes, seconds = int(first), int(second or 0), int(third or 0)
    elif third is not None:
        hours, minutes, seconds = int(first), int(second or 0), int(third)
    else:
        hours, minutes, seconds = 0, int(first), int(second or 0)
    return int(days or 0) * 86400.0 + hours * 3600 + minutes * 60 + seconds or None


def parse_slurm_moment(text: str, field: str = "--begin", now_s: float | None = None) -> float:
    """Unix seconds of `now+1hour`, `now+60`, `16:00`, `noon`, `tomorrow`, `11/22`, `11/22/26-10:00`, ISO."""
    now_s = time.time() if now_s is None else now_s
    text = text.strip().lower()
    if after := _SLURM_AFTER.fullmatch(text):
        return now_s + int(after[1] or 0) * _SLURM_UNITS_S[after[2] or "second"]
    today = datetime.fromtimestamp(now_s).replace(hour=0, minute=0, second=0, microsecond=0)
    if text in ("today", "tomorrow"):
        return (today + timedelta(days=1)).timestamp() if text == "tomorrow" else now_s
    if (date := _SLURM_DATE.fullmatch(text)) is not None:
        return _slurm_date(date, today, text, field)
    moment = _next_clock(_SLURM_WORDS.get(text, text), now_s) or _iso(text.upper())
    if moment is None:
        expected = "now+1hour, 16:00, tomorrow, 11/22/26-10:00 or 2026-11-22T10:00"
        raise InputError.at(f"{text!r} is not a moment of sbatch", field=field, expected=expected)
    return moment


def _slurm_date(date: re.Match[str], today: datetime, text: str, field: str) -> float:
    """`MM/DD[/YY][-HH:MM[:SS]]`; the next such day if no year is given."""
    month, day, year, clock_text = date.groups()
    clock = _CLOCK.fullmatch(_SLURM_WORDS.get(clock_text, clock_text)) if clock_text else None
    try:
        whole = today.replace(month=int(month), day=int(day), year=2000 + int(year) if year else today.year)
        if not year and whole < today:
            whole = whole.replace(year=today.year + 1)
    except ValueError:
        whole = None
    if whole is None or (clock_text and clock is None):
        raise InputError.at(f"{text!r} is not a moment of sbatch", field=field, expected="MM/DD[/YY][-HH:MM]")
    return _on_day(whole, clock) if clock else whole.timestamp()


def _next_clock(text: str, now_s: float) -> float | None:
    """The next moment at which clocks show `text`, or None if it is not a time of day."""
    clock = _CLOCK.fullmatch(text)
    if clock is None:
        return None
    now = datetime.fromtimestamp(now_s)
    today_s = _on_day(now, clock)
    return today_s if today_s > now_s else _on_day(now + timedelta(days=1), clock)


def _on_day(day: datetime, clock: re.Match[str]) -> float:
    hour, minute, second = int(clock[1]), int(clock[2]), int(clock[3] or 0)
    return day.replace(hour=hour, minute=minute, second=second, microsecond=0).timestamp()


def _iso(text: str) -> float | None:
    if not re.match(r"\d{4}-\d\d-\d\d", text):
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None
