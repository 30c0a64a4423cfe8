"""Records a simulated run: collects intervals, endings, and statements about jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from mypy_extensions import mypyc_attr

from rota.model.columns import Row
from rota.model.grants import Constraint, Grant
from rota.model.promises import Offer, Promise
from rota.scheduler.decision import Decision
from rota.scheduler.reasons.first import first_reason
from rota.scheduler.snapshot import Snapshot
from rota.scheduler.world import How, Lost
from rota.table.state import Phase
from rota.worlds.simulated.interval_columns import IntervalBook

_NOTHING: Final = Lost()
MOST_AS_TOLD: Final = 1 << 15
"""Intervals kept as they were reported; further ones become columns."""


@mypyc_attr(allow_interpreted_subclasses=True)
class RunRecorder:
    """Keeps every interval of holding, every ending, and the reason of each job's first wait."""

    def __init__(self, done: Callable[[int, float], float] | None = None) -> None:
        """`done` gives the work that a row has done at a moment; None where it is not recorded."""
        self._done = done
        self.done: list[float] = []
        """Work that each interval's job had done at its end."""
        self.intervals: list[Any] = []
        """Each an `Interval`."""
        self.book = IntervalBook()
        """Earlier intervals of a long run."""
        self.ends: list[Any] = []
        """Rows that have ended, each with the moment."""
        self.whys: dict[int, str] = {}
        """The policy's reasons for jobs that it refused or ended."""
        self.reasons: dict[Row, Constraint] = {}
        self.offers: dict[int, list[Offer]] = {}
        self.promises: dict[int, Promise] = {}
        """The last state of each job's promise."""

    def interval(self, grant: Grant, start_s: Any, end_s: Any, how: How, lost: Lost) -> None:
        self.intervals.append((grant, start_s, end_s, how, lost))
        if self._done is not None:
            self.done.append(self._done(grant.job, end_s))
        if len(self.intervals) >= MOST_AS_TOLD:
            self.book.fold(self.intervals)

    def waits(self, snapshot: Snapshot, decision: Decision, row: Row) -> None:
        self.reasons[row] = first_reason(snapshot, decision, row)

    def awaits_round(self, row: Row, reason: Constraint) -> None:
        self.reasons[row] = reason

    def offered(self, row: int, offer: Offer) -> None:
        self.offers.setdefault(row, []).append(offer)

    def promised(self, row: int, promise: Promise) -> None:
        self.promises[row] = promise

    def left(self, row: Row, phase: Phase, now: Any, why: str = "") -> None:
        self.ends.append((row, now))
        if why:
            self.whys[row] = why
