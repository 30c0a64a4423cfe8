"""Live, a bad decision is not discarded whole: what breaks a rule is refused with what depends on it.

A refused job keeps what it holds, so that grants which counted on its devices break a rule in turn and are
refused as well, until the rest is sound.  A victim whose devices only refused grants wanted keeps them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import NamedTuple

from rota.model.grants import Grant
from rota.scheduler.decision import Decision
from rota.scheduler.guard.check import Breach, check
from rota.table.state import State


class SoundPart(NamedTuple):
    """The sound part of a decision, and the rest."""

    decision: Decision
    """The sound part."""
    breaches: list[Breach]
    """Why the rest was refused, in the order of the checks."""


Check = Callable[[State, Decision], list[Breach]]
"""The rules: breaches of a decision, none if it is sound."""


def sound_part(state: State, decision: Decision, check: Check = check) -> SoundPart:
    """What can be carried out of `decision`, found by refusing offenders round by round."""
    refused_for: list[Breach] = []
    left = decision
    while breaches := check(state, left):
        refused_for += breaches
        jobs = {breach.job for breach in breaches if breach.rule != "reservation"}
        owners = {breach.job for breach in breaches if breach.rule in ("reservation", "lever")}
        left = _without(left, jobs, owners)
    refused = {breach.job for breach in refused_for}
    wanted = _devices(grant for grant in decision.grants if grant.job in refused)
    return SoundPart(_sparing(state, left, wanted, check), refused_for)


def _devices(grants: Iterable[Grant]) -> set[int]:
    return {device for grant in grants for device in grant.devices}


def _sparing(state: State, decision: Decision, wanted: set[int], check: Check) -> Decision:
    """The decision without victims that would make room for refused grants only."""
    taken = _devices(decision.grants)
    for victim in decision.preempt:
        devices = set(state.grants[victim].devices)
        if devices & wanted and not devices & taken:
            trial = replace(decision, preempt=[row for row in decision.preempt if row != victim])
            if not check(state, trial):
                decision = trial
    return decision


def _without(decision: Decision, jobs: Collection[int], owners: Collection[int]) -> Decision:
    """The decision without anything about `jobs` and without the reservations for `owners`."""
    kept = decision.reservations
    if kept is not None:
        kept = [reservation for reservation in kept if reservation.job not in owners]
    return replace(
        decision,
        grants=[grant for grant in decision.grants if grant.job not in jobs],
        preempt=[row for row in decision.preempt if row not in jobs],
        reject={row: why for row, why in decision.reject.items() if row not in jobs},
        offers={row: offer for row, offer in decision.offers.items() if row not in jobs},
        cancel={row: why for row, why in decision.cancel.items() if row not in jobs},
        reservations=kept,
    )
