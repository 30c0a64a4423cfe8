"""Which of equally ranked running jobs to stop: the one whose preemption costs least.

Used only live: a simulation keeps the order of submission among equals, as the systems it is compared to do.
Two jobs are equal if the ranking of the decision says so (`RanksAlike`), they belong to one tenant, have
one priority and hold as many devices, cores and memory on the same nodes.  So that the policy does not undo
the exchange at its next call, a waiting job never displaces a running one that is its equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol, runtime_checkable

from rota.model.grants import Grant, Role
from rota.scheduler.decision import Decision
from rota.scheduler.snapshot import Snapshot

Cost = Callable[[int], float]
"""Seconds of work that the preemption of a running job would cost."""


@runtime_checkable
class RanksAlike(Protocol):
    """A ranking that can say that only the order of submission decides between two jobs."""

    def equal(self, snapshot: Snapshot, one: int, other: int) -> bool:
        """True if `one` and `other` have the same rank."""
        ...


def cheaper_victims(snapshot: Snapshot, decision: Decision, cost_of: Cost) -> Decision:
    """`decision` with each victim exchanged for its cheapest equal; grants follow the devices."""
    ranking = decision.ranking
    if not decision.preempt or not isinstance(ranking, RanksAlike):
        return decision
    decision = _without_swaps(snapshot, decision, ranking)
    named = {*decision.preempt, *decision.cancel, *(grant.job for grant in decision.grants)}
    spared = [row for row in snapshot.running.tolist() if row not in named]
    grants, preempt = list(decision.grants), []
    for victim in decision.preempt:
        alike = [row for row in spared if _alike(snapshot, ranking, victim, row)]
        cheapest = min(alike, key=lambda row: (cost_of(row), -row), default=victim)
        if cost_of(cheapest) < cost_of(victim):
            spared.remove(cheapest)
            grants = _moved(grants, snapshot.grants[victim], snapshot.grants[cheapest])
            preempt.append(cheapest)
        else:
            preempt.append(victim)
    return replace(decision, grants=grants, preempt=preempt)


def _without_swaps(snapshot: Snapshot, decision: Decision, ranking: RanksAlike) -> Decision:
    """The decision without waiting jobs that take exactly the place of an equal."""
    starts = {grant.devices: grant for grant in decision.grants if snapshot.waits(grant.job)}
    kept: set[int] = set()
    for victim in decision.preempt:
        heir = starts.get(snapshot.grants[victim].devices)
        if heir is None or _amounts(heir) != _amounts(snapshot.grants[victim]):
            continue
        if _same_request(snapshot, ranking, victim, heir.job):
            kept |= {victim, heir.job}
    if not kept:
        return decision
    return replace(
        decision,
        grants=[grant for grant in decision.grants if grant.job not in kept],
        preempt=[row for row in decision.preempt if row not in kept],
    )


def _same_request(snapshot: Snapshot, ranking: RanksAlike, one: int, other: int) -> bool:
    jobs = snapshot.jobs
    return (
        jobs.tenant[one] == jobs.tenant[other]
        and jobs.priority[one] == jobs.priority[other]
        and ranking.equal(snapshot, one, other)
    )


def _alike(snapshot: Snapshot, ranking: RanksAlike, one: int, other: int) -> bool:
    """True if the policy ranks the two equal and either's place is as good as the other's."""
    here, there = snapshot.grants[one], snapshot.grants[other]
    return (
        here.share == there.share == 1.0
        and here.role == there.role == Role.ALONE
        and _amounts(here) == _amounts(there)
        and _nodes(snapshot, here) == _nodes(snapshot, there)
        and _same_request(snapshot, ranking, one, other)
    )


def _amounts(grant: Grant) -> tuple[float | None, float | None]:
    """Cores and memory that the grant sets; None for what the job asked for."""
    cpus, gib = grant.cpus, grant.memory_gib
    return (None if math.isnan(cpus) else cpus), (None if math.isnan(gib) else gib)


def _nodes(snapshot: Snapshot, grant: Grant) -> list[int]:
    """The node of each device."""
    return sorted(int(node) for node in snapshot.cluster.device_node[list(grant.devices)])


def _moved(grants: Iterable[Grant], old: Grant, new: Grant) -> list[Grant]:
    """The grants with the devices of `new`, node by node, in place of the devices of `old`."""
    instead = dict(zip(old.devices, new.devices, strict=True))
    return [
        grant._replace(devices=tuple(sorted(instead.get(device, device) for device in grant.devices)))
        if not instead.keys().isdisjoint(grant.devices)
        else grant
        for grant in grants
    ]
