"""Reports for the controller: the last one of every part, and which of them it has not received yet.

A change of status is sent at once; progress and usage wait for other news. The end of a part is repeated
until the controller answers `forget`, all else from time to time: the controller may have lost a report
before it was recorded.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rota.engines.shared.ledger import Key
from rota.wire.sync import DeviceInfo, PartStatus, Piece, Report

SOON_S = 0.05
"""Seconds that the report of a start waits for other news: for a short part it carries the end as well."""
LAZY_S = 2.0
"""Seconds between two reports of news that is not urgent."""
REPEAT_END_S = 3.0
REPEAT_S = 30.0
MOST_REPORTS = 200
MOST_PIECES_BYTES = 1 << 19
"""Most bytes of pieces in one parcel, unless a single piece is larger."""
OVER = frozenset({PartStatus.ENDED, PartStatus.LOST})
BEGINNING = frozenset({PartStatus.WAITING, PartStatus.STARTING, PartStatus.RUNNING})


@dataclass
class Parcel:
    """The news for one message."""

    reports: list[Report] = field(default_factory=list)
    devices: list[DeviceInfo] | None = None
    trouble: str = ""
    """Sent with `devices`: why nothing can start on the machine."""
    pieces: list[Piece] = field(default_factory=list)

    @property
    def empty(self) -> bool:
        """Whether there is no news."""
        return not (self.reports or self.pieces) and self.devices is None


class Board:
    """Passes reports from the thread that makes them to the threads that send them; thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._current: dict[Key, Report] = {}
        self._due: dict[Key, float] = {}
        """When each report has to be sent, or sent again."""
        self._devices: list[DeviceInfo] | None = None
        """Devices as last posted."""
        self._trouble = ""
        self._devices_due = False
        self._pieces: list[Piece] = []
        self._closed = False

    def post(self, reports: Sequence[Report]) -> None:
        """Replace all reports; parts that are not among them are forgotten."""
        now = self._clock()
        with self._changed:
            keys, first = set(), min(self._due.values(), default=float("inf"))
            for report in reports:
                key = (report.row, report.attempt)
                keys.add(key)
                before = self._current.get(key)
                self._current[key] = report
                if before != report:
                    due = now + _patience_s(before, report)
                    self._due[key] = min(self._due.get(key, due), due)
            for key in [key for key in self._current if key not in keys]:
                del self._current[key]
                self._due.pop(key, None)
            if min(self._due.values(), default=float("inf")) < first or first <= now:
                self._changed.notify_all()

    def devices(self, devices: list[DeviceInfo], trouble: str = "") -> None:
        """Post the devices after a change of their health or of the whole machine's trouble."""
        with self._changed:
            self._devices, self._devices_due, self._trouble = devices, True, trouble
            self._changed.notify_all()

    def pieces(self, pieces: Sequence[Piece]) -> None:
        """Post pieces of logs that a reader waits for."""
        with self._changed:
            self._pieces.extend(pieces)
            self._changed.notify_all()

    def all(self) -> Parcel:
        """All reports, for a controller that knows none; they count as sent.

        The devices' health is included even if it was sent before: a controller may have been killed before
        it recorded it.
        """
        with self._changed:
            self._devices_due = self._devices is not None
            return self._take(list(self._current))

    def wait(self) -> Parcel:
        """News that has to be sent now; sleeps until there is some. Empty once the board is closed."""
        with self._changed:
            while not self._closed:
                now = self._clock()
                due = [key for key, at in self._due.items() if at <= now]
                if due or self._pieces or self._devices_due:
                    soon = [key for key, at in self._due.items() if now < at <= now + LAZY_S]
                    return self._take((due + soon)[:MOST_REPORTS])  # news that is not urgent goes along
                first = min(self._due.values(), default=None)
                self._changed.wait(None if first is None else max(0.001, first - now))
            return Parcel()

    def untold(self, parcel: Parcel) -> None:
        """Take back a parcel that did not arrive: what is not superseded is sent again."""
        now = self._clock()
        with self._changed:
            for report in parcel.reports:
                key = (report.row, report.attempt)
                if key in self._current:
                    self._due[key] = now
            self._devices_due |= parcel.devices is not None
            self._pieces[:0] = parcel.pieces

    def close(self) -> None:
        """Wake all waiting threads for the last time."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _take(self, keys: Sequence[Key]) -> Parcel:
        now = self._clock()
        for key in keys:
            over = self._current[key].status in OVER
            self._due[key] = now + (REPEAT_END_S if over else REPEAT_S)
        devices = self._devices if self._devices_due else None
        parcel = Parcel([self._current[key] for key in keys], devices, self._trouble)
        self._devices_due, room = False, MOST_PIECES_BYTES
        while self._pieces and (not parcel.pieces or len(self._pieces[0].text) <= room):
            room -= len(self._pieces[0].text)
            parcel.pieces.append(self._pieces.pop(0))
        return parcel


def _patience_s(before: Report | None, report: Report) -> float:
    """Seconds that news may wait for other news."""
    if before is not None and _headline(before) == _headline(report):
        return LAZY_S
    begins = report.status in BEGINNING and (before is None or before.status in BEGINNING)
    return SOON_S if begins else 0.0


def _headline(report: Report) -> tuple[object, ...]:
    """The fields whose changes are urgent."""
    return (
        report.status,
        report.started_s,
        report.port,
        report.pids,
        report.end,
        report.why,
        report.capability,
    )
