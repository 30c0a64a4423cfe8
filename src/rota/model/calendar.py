"""Calendar dates of a trace: the moment of its second 0 as files store it, and moments counted from it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

_STAMP = "%Y-%m-%d %H:%M:%S"
_FIRST, _LAST = datetime(2, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)
"""A year inside the range of the standard library, so that months and marks around a date exist too."""


def stamp_of(moment: datetime) -> str:
    """The text in which `epoch` is written."""
    return moment.strftime(_STAMP)


def epoch_of(calendar: Mapping[str, object]) -> datetime | None:
    """The `epoch` of a trace's calendar, labelled UTC so that no zone's rules are applied to it again.

    None if it has none.  Raises ValueError for what is not a moment.
    """
    stamp = calendar.get("epoch")
    if stamp is None:
        return None
    if not isinstance(stamp, str):
        raise ValueError(f"epoch {stamp!r}")
    return datetime.strptime(stamp, _STAMP).replace(tzinfo=UTC)


def moment_of(epoch: datetime, seconds: float) -> datetime:
    """The moment `seconds` after `epoch`; an end of the calendar if it lies beyond."""
    try:
        return min(max(epoch + timedelta(seconds=seconds), _FIRST), _LAST)
    except OverflowError:
        return _LAST if seconds > 0.0 else _FIRST
