"""The guard: no decision breaks a rule of the cluster, whatever policy made it.

It recomputes every claim from the grants themselves and trusts nothing of the policy's own accounting. Rules
stand in `rules`; here the checks are put in sequence: which jobs are named, then each grant by itself, then
all of them together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rota.model.columns import Row
from rota.model.grants import Grant, is_packed
from rota.model.whole import is_plainly_whole
from rota.scheduler.decision import Decision
from rota.scheduler.guard.claims import are_plainly_kept, check_claims, check_offers, check_reservations
from rota.scheduler.guard.rules import RULES, Breach, breach
from rota.scheduler.guard.shapes import check_shape
from rota.table.occupancy import EPSILON, Occupancy
from rota.table.state import State

__all__ = ["RULES", "Breach", "check", "is_plainly_sound"]

Devices = tuple[int, ...]
Freed = dict[int, Devices]
"""Whole devices that become free once other jobs have left them, by the first of each job's."""


def check(state: State, decision: Decision) -> list[Breach]:
    """All breaches of `decision` in the state in which it would be carried out; empty if it is sound."""
    breaches = _check_names(state, decision)
    breaches += check_reservations(state, decision)
    breaches += check_offers(state, decision)
    if breaches or not decision.grants:
        return breaches
    for grant in decision.grants:
        breaches += check_shape(state, grant)
    if breaches:
        return breaches
    return check_claims(state, decision)


def is_plainly_sound(state: State, decision: Decision) -> bool:
    """All rules in one pass, for the common case: waiting gangs start on whole devices that are free.

    Or on parts of devices that others hold parts of; or jobs with whole devices move to others.  Says True
    only if nothing else is involved; anything unusual gets the full `check`.
    """
    if decision.reject or decision.cancel or decision.offers or not state.is_open:
        return False
    kept = state.reservations if decision.reservations is None else decision.reservations
    if kept and not are_plainly_kept(state, decision.grants, kept):
        return False
    sharers, held = state.occupancy.sharers, state.grants
    freed: Freed = {}
    row: Row
    for row in decision.preempt:
        old = held.get(row)
        if old is None or not _frees(old[1], freed, sharers):
            return False
    for grant in decision.grants:
        fields: tuple[Any, ...] = grant  # each stays the object that it is
        old = held.get(fields[0])
        if old is None:
            continue
        if not is_plainly_whole(old) or not is_plainly_whole(grant) or not _frees(old[1], freed, sharers):
            return False
    return _are_fresh(state, decision.grants, freed)


def _frees(devices: Devices, freed: Freed, sharers: Mapping[int, list[int]]) -> bool:
    """True if one job held `devices` alone and is not one of those that freed others; frees them.

    No job shares a device here, so two jobs that hold the first one are one job, named twice.
    """
    if not devices:
        return False
    numbers: tuple[Any, ...] = devices
    first = numbers[0]
    if first in freed or (sharers and not sharers.keys().isdisjoint(devices)):
        return False
    freed[first] = devices
    return True


def _are_fresh(state: State, grants: Sequence[Grant], freed: Freed) -> bool:
    """True if each grant is sound by itself and to a different job.

    The job waits or holds what is `freed`; it runs as it asked to, on devices that are free or freed.
    """
    held, waiting, gpus_of, takes_any = state.grants, state.waiting, state.gpus_of, state.takes_any
    jobs: set[Row] = set()
    others = list[Grant]()
    for grant in grants:
        fields: tuple[Any, ...] = grant
        row: Row = fields[0]
        devices: Any = fields[1]
        if not (row in waiting or row in held) or len(devices) != gpus_of[grant[0]]:
            return False
        if not state.asks_only_gpus(row) or not (takes_any[row] or state.accepts(row, devices)):
            return False
        jobs.add(row)
        first = devices[0] if devices else -1
        if freed.get(first) is devices and is_plainly_whole(grant):
            del freed[first]  # freed no longer: the next grant finds it claimed
        else:
            others.append(grant)
    if len(jobs) != len(grants):
        return False
    return not others or _fit(state.occupancy, others, freed)


def _fit(occupancy: Occupancy, grants: Iterable[Grant], freed: Freed) -> bool:
    """True if `grants`, on whole devices or on a part of each, fit together on what is free or `freed`."""
    left = {device for devices in freed.values() for device in devices}
    taken: set[int] = set()
    for grant in grants:
        part = 1.0
        if not is_plainly_whole(grant):
            part = grant.share
            if not is_packed(grant) or not 0.0 < part < 1.0:
                return False
        if not _have_room(occupancy, grant[1], part, left, taken):
            return False
    return True


def _have_room(
    occupancy: Occupancy, devices: Iterable[int], part: float, freed: set[int], taken: set[int]
) -> bool:
    """True if none of `devices` is `taken` in this decision, and each has `part` of it left; takes them."""
    claimed, sharers = occupancy.claimed, occupancy.sharers
    last = len(claimed) - 1
    for device in devices:
        if device in taken or not 0 <= device <= last:
            return False
        if sharers and device in sharers:
            if claimed[device] + part > 1.0 + EPSILON or part == 1.0:
                return False
        elif claimed[device] and device not in freed:
            return False
        taken.add(device)
    return True


def _check_names(state: State, decision: Decision) -> list[Breach]:
    waits, runs = state.waiting, state.running
    granted = [grant.job for grant in decision.grants]
    dead = [row for row in (*granted, *decision.cancel) if row not in waits and row not in runs]
    broken = [breach(state, "not-live", row, "neither waits nor runs") for row in dead]
    idle = [row for row in decision.preempt if row not in runs]
    broken += [breach(state, "not-running", row, "does not run") for row in idle]
    busy = [row for row in (*decision.reject, *decision.offers) if row not in waits]
    broken += [breach(state, "not-waiting", row, "does not wait") for row in busy]
    named = (*granted, *decision.preempt, *decision.reject, *decision.offers, *decision.cancel)
    return broken + _named_twice(state, named) if len(named) > 1 else broken


def _named_twice(state: State, named: Sequence[int]) -> list[Breach]:
    if len(set(named)) == len(named):
        return []
    twice = {row for row in named if named.count(row) > 1}
    return [breach(state, "named-twice", row, "is named twice in one decision") for row in sorted(twice)]
