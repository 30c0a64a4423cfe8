"""Durations as people type them, and numbers as people read them."""

from __future__ import annotations

import math
import re

from rota.errors import InputError

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|min|s|m|h|d|w)")
_PARTS = re.compile(rf"(?:{_PART.pattern}\s*)+")
_CLOCK = re.compile(r"(?:(\d+)-)?(\d+):([0-5]\d):([0-5]\d(?:\.\d+)?)")
_BYTES = {
    **{f"{prefix}B": 1000.0**power for power, prefix in enumerate("KMGT", start=1)},
    **{f"{prefix}iB": 1024.0**power for power, prefix in enumerate("KMGT", start=1)},
}
_PER_INCH = {"in": 1.0, "mm": 25.4, "cm": 2.54, "pt": 72.0}
_LENGTH = re.compile(rf"(\d+(?:\.\d+)?|\.\d+)\s*({'|'.join(_PER_INCH)})?")
_MEMORY = re.compile(rf"(\d+(?:\.\d+)?)\s*({'|'.join(_BYTES)})")


def parse_duration(text: str, field: str = "duration") -> float:
    """Seconds of `90s`, `2h`, `1h30m`, `1h 30m`, `0.5d` or `1-12:00:00`.

    A bare number is refused, unless it is 0: Slurm reads it as minutes, most other tools as seconds.
    """
    text = text.strip()
    if text == "0":
        return 0.0
    if clock := _CLOCK.fullmatch(text):
        days, hours, minutes, seconds = clock.groups(default="0")
        return int(days) * 86400 + int(hours) * 3600 + int(minutes) * 60 + float(seconds)
    if _PARTS.fullmatch(text):
        return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
    unit = "a unit, since a bare number is minutes to some tools and seconds to others"
    raise InputError.at(
        f"{text!r} is not a duration",
        field=field,
        expected=f"{'nothing below 0' if text.startswith('-') else unit}: 90s, 30m, 2h, 1h30m or 1-12:00:00",
    )


def parse_memory_gib(text: str, field: str = "memory") -> float:
    """GiB of `16GiB` (16 x 2^30 bytes), `512000MiB` or `16GB` (16 x 10^9 bytes, 14.9 GiB)."""
    if match := _MEMORY.fullmatch(text.strip()):
        return float(match[1]) * _BYTES[match[2]] / 1024**3
    raise InputError.at(
        f"{text!r} is not an amount of memory", field=field, expected="a number with a unit: 16GiB or 16GB"
    )


def parse_length_in(text: str, field: str = "length") -> float:
    """Inches of `84mm`, `8.4cm`, `3.3in` or `240pt`; a bare number is inches."""
    if match := _LENGTH.fullmatch(text.strip()):
        return float(match[1]) / _PER_INCH[match[2] or "in"]
    raise InputError.at(
        f"{text!r} is not a length",
        field=field,
        expected="inches as 3.3, or one such as 84mm, 8.4cm or 240pt",
    )


def number(value: float) -> str:
    """`2`, `2,500`, `0.5`; `-` for none."""
    if math.isnan(value):
        return "-"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:g}"


def plural(value: float, noun: str) -> str:
    """`1 GPU`, `2,500 GPUs`, `0.5 GPUs`."""
    text = number(value)
    return f"{text} {noun}" if text == "1" else f"{text} {noun}s"


def format_duration(seconds: float) -> str:
    """`seconds` in the two largest units that matter: 42s, 3m 20s, 5h 12m, 2d 4h."""
    if not math.isfinite(seconds):
        return "-"
    sign, left = ("-", -seconds) if seconds < 0 else ("", seconds)
    whole = round(left)
    if left >= 0.05 and round(left, 1) < 10 and left != whole:
        return f"{sign}{left:.1f}s"
    for unit, size, small, small_size in (("d", 86400, "h", 3600), ("h", 3600, "m", 60), ("m", 60, "s", 1)):
        if whole >= size:
            rest = (whole % size) // small_size
            return f"{sign}{whole // size}{unit}" + (f" {rest}{small}" if rest else "")
    return f"{sign}{whole}s"
