"""The levers of a policy: it does to jobs only what it has declared; worlds and users rely on that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rota.model.grants import Grant
from rota.scheduler.decision import Decision
from rota.scheduler.guard.rules import Breach, breach
from rota.scheduler.policy import Lever
from rota.table.state import State

_PREEMPT: Final = Lever.PREEMPT
_MIGRATE: Final = Lever.MIGRATE


def check_levers(state: State, decision: Decision, levers: frozenset[Lever]) -> list[Breach]:
    """A breach for each job to which `decision` applies a lever that is not in `levers`."""
    may_preempt = not decision.preempt or _PREEMPT in levers
    is_plain = not (decision.reject or decision.offers or decision.reservations)
    if may_preempt and is_plain and _only_starts(state, decision, or_moves=_MIGRATE in levers):
        return []
    return [
        breach(state, "lever", row, f"is {_DONE[lever]}, and the policy does not declare the lever {lever}")
        for lever, rows in _pulled(state, decision)
        if lever not in levers
        for row in rows
    ]


def _only_starts(state: State, decision: Decision, *, or_moves: bool) -> bool:
    """True for the common case: new jobs get the whole GPUs they want; with `or_moves` running ones too."""
    gpus_of, running = state.gpus_of, state.grants
    for grant in decision.grants:
        row, gpus = grant[0], len(grant[1])
        if grant[2] != 1.0 or gpus != gpus_of[row]:
            return False
        if row in running and not (or_moves and len(running[row][1]) == gpus):
            return False
    return True


_DONE = {
    Lever.PREEMPT: "preempted",
    Lever.MIGRATE: "migrated",
    Lever.SHARE: "put beside others on devices that it wants to itself",
    Lever.RESIZE: "given another number of GPUs than it asks for",
    Lever.RESERVE: "waited for with devices kept free",
    Lever.REJECT: "refused",
}


def _pulled(state: State, decision: Decision) -> Iterator[tuple[Lever, list[int]]]:
    """The levers that a decision uses, with the jobs they are used on."""
    if decision.preempt:
        yield Lever.PREEMPT, list(decision.preempt)
    if decision.reject:
        yield Lever.REJECT, list(decision.reject)
    if decision.offers:
        yield Lever.REJECT, list(decision.offers)
    if decision.reservations:
        yield Lever.RESERVE, [reservation.job for reservation in decision.reservations]
    for grant in decision.grants:
        row = grant.job
        old = state.grants.get(row)
        if old is not None and old.devices != grant.devices and len(old.devices) == len(grant.devices):
            yield Lever.MIGRATE, [row]
        if len(grant.devices) != state.gpus_of[row] and (old is None or old.devices != grant.devices):
            yield Lever.RESIZE, [row]
        if _is_newly_shared(state, grant, old):
            yield Lever.SHARE, [row]


def _is_newly_shared(state: State, grant: Grant, old: Grant | None) -> bool:
    """True if the job gets a smaller part of its devices than it asked for, and than it had, if any."""
    if grant.share == 1.0 or grant.share >= state.jobs.gpu_share.item(grant.job):
        return False
    return old is None or old.share > grant.share
