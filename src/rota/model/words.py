"""Durations, moments, sizes and counts as they are printed in lists, with a dash for what is unknown."""

from __future__ import annotations

from datetime import UTC, datetime

from rota.model.units import format_duration

NONE = "-"
STATES = (
    *("PENDING", "OFFERED", "RUNNING", "SUSPENDED", "COMPLETING", "REQUEUED"),
    *("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"),
)
"""States of live jobs, as Slurm spells them: first those that are not over."""

BASES = {
    "given": "told by the job",
    "user": "from time limits",
    "predicted": "from similar jobs",
    "history": "drawn from past jobs",
    "outrun": "longer than all known runs",
    "guess": "guessed",
    "endless": "without end",
}
"""The basis of a duration, as text after the number of jobs."""


def duration(seconds: float | None) -> str:
    """`1h 5m`, or `-`."""
    return NONE if seconds is None else format_duration(seconds)


def ahead(unix_s: float | None, now_s: float) -> str:
    """`in 5m`, `now`, `5m ago`, or `-`."""
    if unix_s is None:
        return NONE
    left_s = unix_s - now_s
    if abs(left_s) < 1:
        return "now"
    return f"in {format_duration(left_s)}" if left_s > 0 else f"{format_duration(-left_s)} ago"


def gib(value: float | None) -> str:
    """`12.5`, or `-` for what is unknown."""
    return NONE if value is None else f"{value:.1f}"


def count(number: float) -> str:
    """`2`, `0.5`: no more digits than needed."""
    return f"{number:.2f}".rstrip("0").rstrip(".")


def hours(number: float) -> str:
    """GPU-hours, to three digits below a hundred; a few seconds of one GPU are `under 0.001`."""
    if 0.0 < number < 0.001:
        return "under 0.001"
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def share(value: float | None) -> str:
    """`93%`, or `-`."""
    return NONE if value is None else f"{value:.0%}"


def utc(unix_s: float) -> str:
    """`2026-11-22 14:05:10 UTC`."""
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
