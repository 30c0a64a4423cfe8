"""Where jobs go whose number of GPUs has changed: small ones first, by one rule for all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from rota.model.gpu_counts import feasible_counts
from rota.model.grants import Grant
from rota.scheduler.snapshot import Snapshot
from rota.stages.feeding import FeedingFitter
from rota.stages.trial import admit_placed
from rota.table.occupancy import Occupancy

Limited = Callable[[Grant], Grant]
"""A grant with the CPUs and the memory that go with its GPUs."""


def _as_asked(grant: Grant) -> Grant:
    return grant


def place_again(
    snapshot: Snapshot, shares: Mapping[int, int], fit: FeedingFitter, limited: Limited = _as_asked
) -> tuple[list[Grant], list[int]]:
    """Grants and preemptions that give each row of `shares` its GPUs, or as many as find a place.

    A job whose number of GPUs, and what goes with it, is unchanged stays; all others give back what they hold
    and are placed again, in order of size.  One that then finds no better place than its old one stays there;
    one that finds none at all waits.
    """
    scratch = fit.scratch(snapshot)
    held = {row: snapshot.grants[row] for row in shares if row in snapshot.grants}
    moving = [row for row, share in shares.items() if _changes(held.get(row), share, limited)]
    for row in moving:
        if row in held:
            scratch.release(held[row])
            fit.touch(held[row])
    grants: list[Grant] = []
    placed: set[int] = set()
    for row in sorted((row for row in moving if shares[row]), key=lambda row: (shares[row], row)):
        grant = _placed(snapshot, fit, scratch, row, shares[row], held.get(row), limited)
        if grant is not None:
            scratch.hold(grant)
            fit.touch(grant)
            placed.add(row)
            if grant is not held.get(row) and grant != held.get(row):
                grants.append(grant)
    waiting = snapshot.waiting
    idle = waiting[snapshot.jobs.gpus[waiting] == 0].tolist()
    preempt = [row for row in moving if row in held and row not in placed]
    return [*grants, *admit_placed(idle, scratch, fit)], preempt


def _changes(old: Grant | None, share: int, limited: Limited) -> bool:
    """True if the job that holds `old` is to have another number of GPUs, or something else with them."""
    if old is None or not share:
        return share != (0 if old is None else len(old.devices))
    return share != len(old.devices) or limited(old) != old


def _placed(
    snapshot: Snapshot,
    fit: FeedingFitter,
    scratch: Occupancy,
    row: int,
    share: int,
    old: Grant | None,
    limited: Limited,
) -> Grant | None:
    """A grant of `share` GPUs, or of the next smaller number that fits; `old` if that is as many."""
    held = 0 if old is None else len(old.devices)
    for gpus in reversed(feasible_counts(snapshot.jobs.table, row, share)):
        if gpus == held and old is not None:
            for kept in (limited(old), old):
                if _is_free(fit, scratch, kept):
                    return kept
        grant = next(_tries(snapshot, fit, scratch, row, gpus), None)
        if grant is not None:
            return grant
    return None


def _is_free(fit: FeedingFitter, scratch: Occupancy, old: Grant) -> bool:
    return all(scratch.free.is_free(device) for device in old.devices) and fit.admits(scratch, old)


def _tries(
    snapshot: Snapshot, fit: FeedingFitter, scratch: Occupancy, row: int, gpus: int
) -> Iterator[Grant]:
    """Grants of this many GPUs, one for each type on which they fit."""
    if gpus <= scratch.free.total or snapshot.jobs.table.gpu_share.item(row) < 1.0:
        for kind in range(len(snapshot.cluster.type_names)):
            grant = fit.on_type(scratch, row, kind, gpus)
            if grant is not None:
                yield grant
