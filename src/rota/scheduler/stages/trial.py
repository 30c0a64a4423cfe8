"""Order, place and lease together: who runs when it matters where.

The general form of `fill`: types, shares, CPU and memory, quotas, reservations and placements that may
refuse.  A job fits if its placement succeeds on a scratch copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop
from typing import Protocol

from rota.model.grants import Grant
from rota.scheduler.stages.fit import Fitter
from rota.scheduler.stages.order import Front
from rota.table.occupancy import Occupancy

Fit = Callable[[Occupancy, int], Grant | None]
"""Tries to place a job on the scratch occupancy; returns the grant without entering it."""

Blocks = Callable[[int], bool]
"""True for a job behind which nobody may start; to `Fitter.ever` only those that some day have a place."""


class Fronts(Protocol):
    """Waiting jobs in order, one list for each kind of request (`stages.order.JobOrder`)."""

    def fronts(self) -> list[Front]:
        """The first job of each kind with that kind, as a heap."""
        ...

    def advance(self, fronts: list[Front], passed: dict[int, int]) -> None:
        """The head of `fronts` is dealt with; the next job of its kind takes its place."""
        ...


def admit_placed(
    order: Sequence[int], scratch: Occupancy, fit: Fit, blocks: Blocks | None = None
) -> list[Grant]:
    """Grants for waiting jobs in `order` beside the running ones, up to the first misfit that `blocks`."""
    grants: list[Grant] = []
    for row in order:
        grant = fit(scratch, row)
        if grant is None:
            if blocks and blocks(row):
                break
            continue
        scratch.hold(grant)
        grants.append(grant)
    return grants


def admit_in_order(order: Fronts, scratch: Occupancy, fit: Fit, blocks: Blocks | None = None) -> list[Grant]:
    """As `admit_placed`, on a order of jobs with equal requests: one misfit stands for all like it."""
    grants: list[Grant] = []
    fronts, passed = order.fronts(), dict[int, int]()
    while fronts:
        row = fronts[0][0][1]
        grant = fit(scratch, row)
        if grant is not None:
            scratch.hold(grant)
            grants.append(grant)
            order.advance(fronts, passed)
        elif blocks and blocks(row):
            break
        else:
            heappop(fronts)
    return grants


def running_set_placed(
    order: Sequence[int],
    present: dict[int, Grant],
    scratch: Occupancy,
    fit: Fitter,
    numbers: Sequence[int] = (),
) -> tuple[list[Grant], list[int]]:
    """New grants and rows to preempt when the running set is rebuilt along `order`.

    `order` holds waiting and running jobs; `present` what the running ones hold.  A running job keeps its
    devices unless a job before it needs them; victims are taken from the end of the order, and what a
    failed attempt evicted stays where it was.  With `numbers` (equal for rows that `fit` places alike), who
    asks for the same as one that found no place is not tried: what is free, or may be freed, only shrinks.
    """
    keeping = [row for row in order if row in present]  # still on their devices, in order
    evicted: set[int] = set()
    grants: dict[int, Grant] = {}
    place_of = {row: place for place, row in enumerate(order)}
    hopeless: set[int] = set()
    for place, row in enumerate(order):
        if row in present and row not in evicted:
            continue
        if hopeless and row not in evicted and numbers[row] in hopeless:
            continue
        behind = [r for r in keeping if place_of[r] > place]
        grant, losers = _fit_evicting(row, behind, present, scratch, fit, evicted)
        if grant is None:
            if numbers:
                hopeless.add(numbers[row])
            continue
        scratch.hold(grant)
        grants[row] = grant
        evicted.update(losers)
        gone = set(losers)
        keeping = [r for r in keeping if r not in gone]
    moved = [grant for row, grant in grants.items() if present.get(row) != grant]
    return moved, [row for row in order if row in evicted and row not in grants]


def _fit_evicting(
    row: int,
    behind: list[int],
    present: dict[int, Grant],
    scratch: Occupancy,
    fit: Fitter,
    evicted: set[int],
) -> tuple[Grant | None, list[int]]:
    """Place `row`, evicting from the end of `behind` one by one until it fits; undo if it never does."""
    if row in evicted and _is_free(scratch, present[row]) and fit.admits(scratch, present[row]):
        return present[row], []
    grant = fit(scratch, row)
    losers: list[int] = []
    while grant is None and behind:
        loser = behind.pop()
        scratch.release(present[loser])
        losers.append(loser)
        grant = fit(scratch, row)
    if grant is None:
        for loser in losers:
            scratch.hold(present[loser])
        return None, []
    return grant, losers


def _is_free(scratch: Occupancy, grant: Grant) -> bool:
    """True if what a job held before is still nobody else's."""
    return bool(grant.devices) and all(scratch.free.is_free(device) for device in grant.devices)
