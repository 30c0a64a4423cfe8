"""Order, place and lease together: who runs when it matters where.

The general form of `fill`: types, shares, CPU and memory, quotas, reservations and placements that may
refuse.  A job fits if its placement succeeds on a scratch copy.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Protocol

from rota.model.grants import Grant
from rota.scheduler.stages.fit import Fitter, Room
from rota.scheduler.stages.order import Front, Item, JobOrder
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
    order: JobOrder,
    running: Sequence[Item],
    present: Mapping[int, Grant],
    scratch: Occupancy,
    fit: Fitter,
    alike: Sequence[bool] = (),
    ahead: float | None = None,
) -> tuple[list[Grant], list[int]]:
    """New grants and rows to preempt when the running set is rebuilt along the order of the key.

    `order` holds the waiting jobs by kind, `running` those that run in order, `present` what they hold;
    `ahead` as in `running_set`.  A running job keeps its devices unless a job before it needs them; victims
    are taken from the end of the order, and what a failed attempt evicted stays where it was.  Where a row
    is `alike`, no other of its kind is tried once it found no place: what is free, or may be freed, only
    shrinks.
    """
    rebuild = _Rebuild(running, present, scratch, fit, ahead)
    fronts, passed = order.fronts(), dict[int, int]()
    while fronts:
        item, kind = fronts[0]
        if kind == _EVICTED:
            heappop(fronts)
            rebuild.settle(item[1])
            continue
        evicted = rebuild.place(item)
        if evicted is None and alike and alike[item[1]]:
            heappop(fronts)
            continue
        order.advance(fronts, passed)
        for victim in evicted or ():
            heappush(fronts, (victim, _EVICTED))
    return rebuild.moved, rebuild.losers


_EVICTED = -1
"""In place of a kind: a running job that lost its devices earlier in the walk."""


class _Rebuild:
    """Who holds what so far, on the walk along the order."""

    def __init__(
        self,
        running: Sequence[Item],
        present: Mapping[int, Grant],
        scratch: Occupancy,
        fit: Fitter,
        ahead: float | None,
    ) -> None:
        self.running, self.present, self.scratch, self.fit, self.ahead = running, present, scratch, fit, ahead
        self.end = len(running)
        """`running[:end]` still hold their devices."""
        self.moved: list[Grant] = []
        self.losers: list[int] = []
        self._held = HeldFromEnd([present[row] for _, row in running], scratch)

    def place(self, item: Item) -> list[Item] | None:
        """Grant the waiting job its devices; returns who lost theirs to it, None if it finds no place.

        Victims go one by one from the end until it fits; if it never does they keep what they have.
        """
        row, present = item[1], self.present
        wanted = self.fit.room_wanted(row)
        limit = item if self.ahead is None else (item[0] + self.ahead, row)
        first = bisect_right(self.running, limit, 0, self.end)  # those from here on are behind it
        if wanted and not self._held.may_give(wanted, first, self.end):
            return None
        grant, cut = self._fit(row, wanted), self.end
        while grant is None and cut > first:
            cut -= 1
            self.scratch.release(present[self.running[cut][1]])
            grant = self._fit(row, wanted)
        if grant is None:
            for place in range(self.end - 1, cut - 1, -1):
                self.scratch.hold(present[self.running[place][1]])
            return None
        victims, self.end = self.running[cut : self.end], cut
        self._enter(grant)
        return [(key if self.ahead is None else key - self.ahead, victim) for key, victim in victims]

    def settle(self, row: int) -> None:
        """The turn of a job that lost its devices: it keeps them if they are free again, or finds others."""
        scratch, old = self.scratch, self.present[row]
        is_back = _is_free(scratch, old) and self.fit.admits(scratch, old)
        grant = old if is_back else self._fit(row, self.fit.room_wanted(row))
        if grant is None:
            self.losers.append(row)
        else:
            self._enter(grant)

    def _fit(self, row: int, wanted: Room) -> Grant | None:
        """The grant of `row` on what is free; counting comes first, since it costs less."""
        free = self.scratch.free
        if wanted and not any(free.within(nodes) >= gpus for nodes, gpus in wanted):
            return None
        return self.fit(self.scratch, row)

    def _enter(self, grant: Grant) -> None:
        self.scratch.hold(grant)
        if self.present.get(grant.job) != grant:
            self.moved.append(grant)


class HeldFromEnd:
    """GPUs on some nodes that the last so many running jobs hold: summed up as far as somebody asks."""

    def __init__(self, grants: Sequence[Grant], scratch: Occupancy) -> None:
        self.grants = grants
        self.free = scratch.free
        self._sums: dict[int, list[int]] = {}
        """By nodes: GPUs held by the last job, the last two and so on."""

    def may_give(self, wanted: Room, first: int, end: int) -> bool:
        """True if free GPUs and those of `grants[first:end]` are enough on some nodes that are wanted."""
        last = len(self.grants)
        return any(
            self.free.within(nodes) + self._of(nodes, last - first) - self._of(nodes, last - end) >= gpus
            for nodes, gpus in wanted
        )

    def _of(self, nodes: int, count: int) -> int:
        """GPUs on `nodes` that the last `count` jobs hold."""
        sums = self._sums.setdefault(nodes, [0])
        if len(sums) <= count:
            last = len(self.grants)
            for place in range(last - len(sums), last - count - 1, -1):
                sums.append(sums[-1] + self._on(nodes, self.grants[place].devices))
        return sums[count]

    def _on(self, nodes: int, devices: tuple[int, ...]) -> int:
        """How many of `devices` lie on `nodes`."""
        node_of = self.free.node_of
        if not devices:
            return 0
        node = node_of[devices[0]]
        if node == node_of[devices[-1]]:  # they ascend: all lie on one node
            return len(devices) if nodes >> node & 1 else 0
        return sum([nodes >> node_of[device] & 1 for device in devices])


def _is_free(scratch: Occupancy, grant: Grant) -> bool:
    """True if what a job held before is still nobody else's."""
    return bool(grant.devices) and all(scratch.free.is_free(device) for device in grant.devices)
