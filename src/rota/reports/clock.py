"""Calendar dates of a trace that has them: the moment of its second 0, and the zone of its clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from rota.model.calendar import epoch_of, moment_of
from rota.model.record import Record
from rota.model.units import format_duration


@dataclass(frozen=True)
class WallClock:
    """The wall clock of a trace.  `epoch` is in UTC only so that no zone's rules are applied to it again."""

    epoch: datetime
    zone: str

    def at(self, seconds: float) -> datetime:
        return moment_of(self.epoch, seconds)

    def day(self, seconds: float) -> str:
        """`9 Oct 2017`."""
        moment = self.at(seconds)
        return f"{moment.day} {moment:%b %Y}"


def clock_of(record: Record) -> WallClock | None:
    """None where the trace counts its seconds from nowhere in particular."""
    return clock_named(record.provenance)


def clock_named(calendar: Mapping[str, object]) -> WallClock | None:
    """The clock of a trace's `calendar`; None if that says nothing."""
    epoch = epoch_of(calendar)
    return None if epoch is None else WallClock(epoch, str(calendar.get("time_zone", "")))


def time_label(clock: WallClock | None, start_s: float, end_s: float) -> str:
    """What stands below an axis of time."""
    if clock is None:
        return f"time since the first submission, {format_duration(end_s - start_s)} in all"
    zone = f" ({clock.zone})" if clock.zone else ""
    return f"date, {clock.day(start_s)} to {clock.day(end_s)}{zone}"
