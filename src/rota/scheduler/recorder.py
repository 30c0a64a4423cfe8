"""The interface of a recorder, to which the loop reports what it does."""

from __future__ import annotations

from typing import Protocol

from rota.model.grants import Grant
from rota.model.promises import Offer, Promise
from rota.model.reasons import Constraint
from rota.scheduler.decision import Decision
from rota.scheduler.snapshot import Snapshot
from rota.scheduler.world import How, Lost
from rota.table.state import Phase


class Recorder(Protocol):
    """Listens to what the loop does; observing changes no decision."""

    def interval(self, grant: Grant, start_s: float, end_s: float, how: How, lost: Lost) -> None:
        """An interval in which a job held the same devices is over."""
        ...

    def waits(self, snapshot: Snapshot, decision: Decision, row: int) -> None:
        """`row` was left waiting by the first decision that saw it wait."""
        ...

    def awaits_round(self, row: int, reason: Constraint) -> None:
        """`row` has waited only for a round: no decision has seen it wait and left it waiting."""
        ...

    def offered(self, row: int, offer: Offer) -> None:
        """`row` is held until its user has answered `offer`."""
        ...

    def promised(self, row: int, promise: Promise) -> None:
        """A deadline has been promised to `row`, or its expected end has changed."""
        ...

    def left(self, row: int, phase: Phase, now: float, why: str = "") -> None:
        """`row` has ended; `why` if the policy ended it."""
        ...
