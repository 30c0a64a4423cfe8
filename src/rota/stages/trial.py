"""Order, place and lease together: which jobs run when it matters where they run.

The general form of `fill`: types, shares, CPU and memory, quotas, reservations and placements that may
refuse.  A job fits if its placement succeeds on a scratch copy.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Final, Protocol

from rota.model.columns import Row
from rota.model.grants import Grant
from rota.scheduler.snapshot import Snapshot
from rota.stages.fit import Fitter, Room, placed
from rota.stages.order import Front, Item, JobOrder
from rota.table.free import Free
from rota.table.occupancy import Occupancy

Fit = Callable[[Occupancy, int], Grant | None]
"""Tries to place a job on the scratch occupancy; returns the grant without entering it."""

Blocks = Callable[[int], bool]
"""True for a job behind which no other may start; with `Fitter.ever`, a job that has a place some day."""


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


def admit_in_order(
    order: Fronts,
    snapshot: Snapshot,
    fit: Fitter,
    blocks: Blocks | None = None,
    rooms: dict[int, Room] | None = None,
) -> list[Grant]:
    """Grants as from `admit_placed`, for jobs in lists of equal requests: one misfit stands for its list.

    With `rooms`, which keeps what `fit` says of each kind of request, counting comes before placing.  Until a
    second job is tried there is nothing to try it beside: the first one needs no scratch.
    """
    grants: list[Grant] = []
    fronts, passed = order.fronts(), dict[int, int]()
    occupancy = snapshot.occupancy
    entered = 0
    while fronts:
        (_, row), kind = fronts[0]
        if entered < len(grants):
            if not entered:
                occupancy = fit.scratch(snapshot)
            occupancy.hold(grants[entered])
            entered += 1
        if rooms is None:
            grant = fit(occupancy, row)
        else:
            grant = placed(fit, occupancy, row, _room_of(rooms, kind, fit, row))
        if grant is not None:
            grants.append(grant)
            _advance(order, fronts, passed)
        elif blocks and blocks(row):
            break
        else:
            heappop(fronts)
    return grants


def _advance(order: Fronts, fronts: list[Front], passed: dict[int, int]) -> None:
    """Call `order.advance`, by a direct call where `order` is the usual one."""
    if isinstance(order, JobOrder):
        order.advance(fronts, passed)
    else:
        order.advance(fronts, passed)


def _room_of(rooms: dict[int, Room], kind: int, fit: Fitter, row: int) -> Room:
    """The `room_wanted` of the kind of request that `row` has."""
    room = rooms.get(kind)
    if room is None:
        room = rooms[kind] = fit.room_wanted(row)
    return room


def running_set_placed(
    order: Fronts,
    running: list[Item],
    snapshot: Snapshot,
    fit: Fitter,
    alike: Sequence[bool] = (),
    ahead: float | None = None,
    begin: int = 0,
    rooms: dict[int, Room] | None = None,
) -> tuple[list[Grant], list[int], bool]:
    """New grants and rows to preempt when the running set is rebuilt along the order of the key.

    Also whether some job found no place although all of `running` had to go for it: a job that is not in that
    list, because it holds only the last ones, might have had to go as well.

    `order` holds the waiting jobs by kind, `running[begin:]` those that run in order; `ahead` as in
    `running_set`.  A running job keeps its devices unless a job before it needs them; victims are taken from
    the end of the order, and what a failed attempt evicted stays where it was.  Where a row is `alike`, no
    other of its kind is tried once it found no place: what is free, or may be freed, only shrinks.  `rooms`
    keeps what `fit` says of each kind of request.
    """
    rebuild = _Rebuild(running, begin, snapshot, fit, ahead)
    fronts, passed = order.fronts(), dict[int, int]()
    if rooms is None:
        rooms = {}
    while fronts:
        item, kind = fronts[0]
        if kind == _EVICTED:
            heappop(fronts)
            rebuild.settle(item[1])
            continue
        evicted = rebuild.place(item, _room_of(rooms, kind, fit, item[1]))
        if evicted is None and alike and alike[item[1]]:
            heappop(fronts)
            if rebuild.is_exhausted and _all_want_gpus(fronts, rooms, fit):
                break
            continue
        _advance(order, fronts, passed)
        if evicted:
            for victim in evicted:
                heappush(fronts, (victim, _EVICTED))
    losers = [item[1] for item, kind in sorted(fronts) if kind == _EVICTED]  # none, unless all are exhausted
    return rebuild.moved, rebuild.losers + losers, rebuild.reached


def _all_want_gpus(fronts: list[Front], rooms: dict[int, Room], fit: Fitter) -> bool:
    """True if no job left in `fronts` finds a place where no device is free."""
    return all(
        fit.room_wanted(row) if kind == _EVICTED else _room_of(rooms, kind, fit, row)
        for (_, row), kind in fronts
    )


_EVICTED: Final = -1
"""Stands in place of a kind: a running job that lost its devices earlier in the walk."""


class _Rebuild:
    """The devices that jobs hold so far, on the walk along the order."""

    def __init__(
        self, running: list[Item], begin: int, snapshot: Snapshot, fit: Fitter, ahead: float | None
    ) -> None:
        self.running, self.begin, self.snapshot, self.fit, self.ahead = running, begin, snapshot, fit, ahead
        self.present = snapshot.grants
        self.end = len(running)
        """`running[begin:end]` still hold their devices."""
        self.moved: list[Grant] = []
        self.losers: list[int] = []
        self.occupancy = snapshot.occupancy
        """The claims in force until something is tried, then the scratch."""
        self.reached = False
        """True once a job has found no place although every running job was behind it."""
        self.is_exhausted = False
        """True once nothing is free, and no running job is behind the next one: it then stays so."""
        self._is_scratch = False
        self._last: Grant | None = None
        """Granted, and not held on the scratch yet."""
        self._cut = 0
        """`running[_cut:end]` go for the job that is placed now."""
        self._held = HeldFromEnd(running, snapshot.grants, self.occupancy.free.node_of)

    def place(self, item: Item, wanted: Room) -> list[Item] | None:
        """Grant the waiting job its devices; the jobs that lost theirs to it, or None if it finds no place.

        Victims go one by one from the end until it fits; if it never does they keep what they have.
        """
        row, grant = item[1], self._on_free(item[1], wanted)
        if grant is not None:
            self._enter(grant)
            return []
        limit = item if self.ahead is None else (item[0] + self.ahead, row)
        cut = first = self.end  # jobs from `first` on are behind it
        if cut > self.begin and self.running[cut - 1] > limit:
            first = bisect_right(self.running, limit, self.begin, cut)
        if first == cut:
            self.is_exhausted = self.is_exhausted or (bool(wanted) and not self._free_total())
        else:
            grant = self._from_others(row, wanted, first)
        if grant is None:
            self.reached = self.reached or first == self.begin
            return None
        victims, self.end = self.running[self._cut : cut], self._cut
        self._enter(grant)
        return [(key if self.ahead is None else key - self.ahead, victim) for key, victim in victims]

    def _on_free(self, row: Row, wanted: Room) -> Grant | None:
        """The grant of `row` if no job has to go."""
        if wanted and not self._free_total():
            return None
        self._hold_last()
        return placed(self.fit, self.occupancy, row, wanted)

    def _from_others(self, row: Row, wanted: Room, first: int) -> Grant | None:
        """The grant of `row`, for which nothing free will do, once `running[_cut:end]` are gone.

        None, and nothing changed, if it would not do that all of `running[first:end]` were gone.
        """
        self._hold_last()
        present, cut = self.present, self.end
        grant: Grant | None = None
        if wanted:
            least = self._held.least(self.occupancy.free, wanted, first, cut)
            if least < 0:
                return None
            for _ in range(least):
                cut -= 1
                self._scratch().release(present[self.running[cut][1]])
            if least:
                grant = placed(self.fit, self.occupancy, row, wanted)
        while grant is None and cut > first:
            cut -= 1
            self._scratch().release(present[self.running[cut][1]])
            grant = placed(self.fit, self.occupancy, row, wanted)
        if grant is None:
            for place in range(self.end - 1, cut - 1, -1):
                self._scratch().hold(present[self.running[place][1]])
        self._cut = cut
        return grant

    def settle(self, row: int) -> None:
        """The turn of a job that lost its devices: it keeps them if they are free again, or finds others."""
        self._hold_last()
        old = self.present[row]
        is_back = _is_free(self.occupancy, old) and self.fit.admits(self.occupancy, old)
        grant = old if is_back else placed(self.fit, self.occupancy, row, self.fit.room_wanted(row))
        if grant is None:
            self.losers.append(row)
        else:
            self._enter(grant)

    def _enter(self, grant: Grant) -> None:
        self._hold_last()
        self._last = grant
        old = self.present.get(grant[0])
        if old is None or old != grant:
            self.moved.append(grant)

    def _hold_last(self) -> None:
        """Enter the last grant on the scratch, which is put off until another job is tried beside it."""
        if self._last is not None:
            self._scratch().hold(self._last)
            self._last = None

    def _free_total(self) -> int:
        """Free devices, less the whole devices of the last grant."""
        last, total = self._last, self.occupancy.free.total
        return total if last is None or last[2] != 1.0 else total - len(last[1])

    def _scratch(self) -> Occupancy:
        """The scratch, which is about to change."""
        self._held.changed()
        if not self._is_scratch:
            self.occupancy, self._is_scratch = self.fit.scratch(self.snapshot), True
        return self.occupancy


class HeldFromEnd:
    """GPUs on some nodes that the last running jobs hold: summed up only as far as needed."""

    def __init__(self, running: list[Item], present: Mapping[int, Grant], node_of: list[int]) -> None:
        self.running = running
        self.present = present
        self.node_of = node_of
        self._sums: dict[int, list[int]] = {}
        """By mask of nodes: GPUs held by the last job, by the last two and so on."""
        self._free: dict[int, int] = {}
        """By mask of nodes: free devices."""

    def changed(self) -> None:
        """Other devices are free than before."""
        self._free.clear()

    def least(self, free: Free, wanted: Room, first: int, end: int) -> int:
        """How many of the jobs `running[first:end]`, from the end, have to go before there may be room.

        That is when free GPUs and theirs are enough on some nodes that are wanted; -1 if they never are.
        """
        last, best = len(self.running), -1
        for nodes, gpus in wanted:
            room = self._free.get(nodes)
            if room is None:
                room = self._free[nodes] = free.within(nodes)
            lacking = gpus - room
            if lacking <= 0:
                return 0
            if first == end:
                continue
            sums = self._sums.setdefault(nodes, [0])
            self._extend(sums, nodes, last - end, -1)
            lacking += sums[last - end]
            self._extend(sums, nodes, last - first, lacking)
            count = bisect_left(sums, lacking, last - end) - (last - end)
            if count <= end - first and (best < 0 or count < best):
                best = count
        return best

    def _extend(self, sums: list[int], nodes: int, count: int, enough: int) -> None:
        """Sum up what the last `count` jobs hold on `nodes`, or as many of them as hold `enough`."""
        last = len(self.running)
        while len(sums) <= count and not 0 <= enough <= sums[-1]:
            row = self.running[last - len(sums)][1]
            sums.append(sums[-1] + self._on(nodes, self.present[row].devices))

    def _on(self, nodes: int, devices: tuple[int, ...]) -> int:
        """How many of `devices` lie on `nodes`."""
        node_of = self.node_of
        if not devices:
            return 0
        node = node_of[devices[0]]
        if node == node_of[devices[-1]]:  # they ascend: all lie on one node
            return len(devices) if nodes >> node & 1 else 0
        return sum([nodes >> node_of[device] & 1 for device in devices])


def _is_free(scratch: Occupancy, grant: Grant) -> bool:
    """True if no other job holds what a job held before."""
    free = scratch.free
    return len(grant[1]) > 0 and all(free.is_free(device) for device in grant[1])
