"""Durations as people type them, and numbers as people read them."""

from __future__ import annotations

import math
import re

from rota.errors import InputError

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|min|s|m|h|d|w)")
_CLOCK = re.compile(r"(?:(\d+)-)?(\d+):(\d\d):(\d\d(?:\.\d+)?)")


def parse_duration(text: str, field: str = "duration") -> float:
    """Seconds of `90s`, `2h`, `1h30m`, `0.5d` or `1-12:00:00`.

    A bare number is refused: Slurm reads it as minutes, most other tools as seconds.
    """
    text = text.strip()
    if clock := _CLOCK.fullmatch(text):
        days, hours, minutes, seconds = clock.groups(default="0")
        return int(days) * 86400 + int(hours) * 3600 + int(minutes) * 60 + float(seconds)
    parts = _PART.findall(text)
    if parts and "".join(number + unit for number, unit in parts) == text:
        return sum(float(number) * _SECONDS[unit] for number, unit in parts)
    hint = "a unit, since a bare number is minutes to some tools and seconds to others: "
    raise InputError.at(
        f"{text!r} is not a duration", field=field, expected=hint + "90s, 30m, 2h, 1h30m or 1-12:00:00"
    )


def format_duration(seconds: float) -> str:
    """`seconds` in the two largest units that matter: 42s, 3m 20s, 5h 12m, 2d 4h."""
    if not math.isfinite(seconds):
        return "-"
    sign, left = ("-", -seconds) if seconds < 0 else ("", seconds)
    if left < 60:
        return f"{sign}{left:.0f}s" if left >= 10 or left == int(left) else f"{sign}{left:.1f}s"
    whole = round(left)
    for unit, size, small, small_size in (("d", 86400, "h", 3600), ("h", 3600, "m", 60), ("m", 60, "s", 1)):
        if whole >= size:
            rest = (whole % size) // small_size
            return f"{sign}{whole // size}{unit}" + (f" {rest}{small}" if rest else "")
    return f"{sign}{whole}s"
