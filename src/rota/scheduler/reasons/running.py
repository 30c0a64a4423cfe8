"""Why a job runs as it does: on fewer devices than it asked for, beside others, or to be measured."""

from __future__ import annotations

import math
from typing import Protocol, runtime_checkable

from rota.model.grants import Grant, Purpose
from rota.model.reasons import Code, Constraint, names_of
from rota.scheduler.decision import Ranking
from rota.scheduler.reasons.waiting import KnowsTurns
from rota.scheduler.snapshot import Snapshot


@runtime_checkable
class KnowsSizes(Protocol):
    """A ranking of a policy that decides numbers of GPUs."""

    def size(self, snapshot: Snapshot, row: int) -> Constraint | None:
        """The value that the number of GPUs of the running `row` has for it, beside others it could have."""
        ...


def explain_running(snapshot: Snapshot, row: int, ranking: Ranking | None = None) -> tuple[Constraint, ...]:
    """What shapes the running `row`; empty if it runs as it asked to, or does not run.

    `ranking` is that of the decision in force, if there is one: where jobs take turns, it knows for how long.
    """
    grant = snapshot.grants.get(row)
    if grant is None:
        return ()
    if grant.purpose is Purpose.PROFILE:
        return (Constraint(Code.PROFILING, provided=len(grant.devices)),)
    constraints = []
    asked, has = snapshot.gpus_of[row], len(grant.devices)
    if has < asked:
        constraints.append(Constraint(Code.SHRUNK, asked, has, _names(snapshot, _heirs(snapshot, row))))
    beside = _beside(snapshot, grant)
    if beside:
        constraints.append(
            Constraint(Code.PACKED, grant.share, _speed(snapshot, row), _names(snapshot, beside))
        )
    size = ranking.size(snapshot, row) if isinstance(ranking, KnowsSizes) else None
    if size is not None:
        constraints.append(size)
    turn = ranking.turn(snapshot, row) if isinstance(ranking, KnowsTurns) else None
    return (*constraints, turn) if turn is not None and turn.code is Code.TURN else tuple(constraints)


def _heirs(snapshot: Snapshot, row: int) -> list[int]:
    """Jobs that began, or got more, at the very moment at which `row` came to what it has now."""
    since_s = snapshot.by_row.since_s
    at_s = since_s.item(row)
    return [int(other) for other in snapshot.running if other != row and since_s.item(int(other)) == at_s]


def _beside(snapshot: Snapshot, grant: Grant) -> list[int]:
    """Others with a claim on the same devices."""
    own = set(grant.devices)
    return sorted(
        row for row, other in snapshot.grants.items() if row != grant.job and own.intersection(other.devices)
    )


def _speed(snapshot: Snapshot, row: int) -> float:
    """Speed as a part of what the same devices would give it alone, as far as the world reports it."""
    size = len(snapshot.grants[row].devices) / max(snapshot.gpus_of[row], 1)
    return snapshot.jobs.speed(row) / size if size else math.nan


def _names(snapshot: Snapshot, rows: list[int]) -> str:
    ids = snapshot.jobs.table.ids
    return names_of([ids[row] for row in rows])
