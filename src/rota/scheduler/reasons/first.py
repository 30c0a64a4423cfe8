"""The first reason of a wait: what a simulation records of each job that waits at its first decision."""

from __future__ import annotations

from typing import Any, Final

from rota.model.columns import Row
from rota.model.reasons import Code, Constraint
from rota.scheduler.decision import Decision
from rota.scheduler.reasons.unsaid import unsaid
from rota.scheduler.snapshot import Snapshot

# These constants are final as in `model.whole`: there is a reason for most jobs of a trace.
_make: Final[Any] = tuple.__new__
_CONSTRAINT: Final[Any] = Constraint
_RESOURCES: Final = Code.RESOURCES
_PRIORITY: Final = Code.PRIORITY
_FRAGMENTATION: Final = Code.FRAGMENTATION
_NAN: Final[Any] = Constraint(Code.RESOURCES).requested


def first_reason(snapshot: Snapshot, decision: Decision, row: Row) -> Constraint:
    """The dominant reason in constant time, for the record of a simulation.

    `PRIORITY` counts all other waiting jobs, whether or not they are ahead, and stands for `EARLIER`, `ORDER`
    and `SHARE` as well.
    """
    if decision.reasons and row in decision.reasons:
        return decision.reasons[row]
    number: int = row
    gpus, free = snapshot.gpus_of[number], snapshot.occupancy.free
    if gpus > free.total:
        return _constraint(_RESOURCES, gpus, free.total)
    largest = free.nonempty.bit_length() - 1
    if gpus > largest and not (decision.ranking is None or decision.ranking.spreads):
        return _constraint(_FRAGMENTATION, gpus, largest, "node")
    if snapshot.waiting_count == 1:
        return unsaid(snapshot, decision)
    return _constraint(_PRIORITY, _NAN, snapshot.waiting_count - 1)


def next_round(begins_s: float, left_s: float) -> Constraint:
    """Why a job waits that no decision has seen: for the round that begins at `begins_s`, in `left_s`.

    Both are infinite where the policy did not say when it was to be called again.
    """
    return Constraint(Code.ROUND, begins_s, left_s)


def _constraint(code: Code, requested: Any, provided: int, detail: str = "") -> Constraint:
    constraint: Constraint = _make(_CONSTRAINT, (code, requested, provided, detail))
    return constraint
