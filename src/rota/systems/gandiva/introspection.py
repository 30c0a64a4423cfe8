"""Introspective mode: what Gandiva improves while jobs run, and undoes where the measured rate says so.

Packing, migration and grow-shrink, in the order of the paper.  The rules of migration work on homes, change
them, and return their moves as (job, from, to).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Sized
from functools import partial
from itertools import combinations
from typing import Any

from rota.knowledge.needs import Knowledge
from rota.model.columns import Cells, Floats, cells
from rota.model.gpu_counts import feasible_counts
from rota.model.grants import Role
from rota.scheduler.snapshot import Snapshot
from rota.stages.grounds import device_memory_gib, holds
from rota.systems.gandiva.parameters import GandivaParameters
from rota.systems.gandiva.servers import EPSILON, ServerGroup, ServerGroups, members

_ALONE = int(Role.ALONE)

# -- packing -----------------------------------------------------------------------------------------

Pair = tuple[int, int]


def gain(rates: Iterable[float], alone: Iterable[float]) -> float:
    """Work of jobs that share their devices, relative to their work in turns: 1.0 means no gain."""
    return sum(rate / solo for rate, solo in zip(rates, alone, strict=True))


def next_pair(
    rows: Iterable[int], utilisation: Callable[[int], float], may_share: Callable[[Pair], bool]
) -> Pair | None:
    """The pair to try next: least utilised first, then the least utilised partner; ties by row."""
    order: Sequence[int] = sorted(rows, key=lambda row: (utilisation(row), row))
    return next((pair for pair in combinations(order, 2) if may_share(pair)), None)


class PairTrials:
    """The pairs of a cluster: on trial, kept, parted; one trial at a time in each home.

    Nothing is predicted: a pair stays if its rates, each relative to the job's own rate alone, sum to more
    than `pack_gain`.  A busier device proves nothing.

    `alone` (rate of each job when it last ran alone) and `bad` (per job, the jobs it was parted from) are
    plain values, changed in place, so that a policy can keep them in its memory.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        homes: ServerGroups,
        alone: dict[int, float],
        bad: dict[int, list[int]],
        parameters: GandivaParameters,
    ) -> None:
        self.snapshot = snapshot
        self.homes = homes
        self.alone = alone
        self.bad = bad
        self.p = parameters
        self._is_steady: bool = snapshot.is_steady
        """True if every job has only ever run at full speed: a rate that is known is that."""
        self._use: Floats | None = None
        self._cells: Cells[float] | None = None

    def runs_alone(self, row: int) -> bool:
        """True if it has run for some time alone on its devices, on as many GPUs as it asked for."""
        grant = self.snapshot.grants.get(row)
        if grant is None or grant[3] != _ALONE or len(grant[1]) != self.snapshot.gpus_of[row]:
            return False
        since: float = self.snapshot.by_row.since_of[row]
        return since < self.snapshot.now

    def note_rate(self, row: int) -> None:
        """Keep the rate of `row` if it runs alone."""
        if not (self._is_steady and row in self.alone) and self.runs_alone(row):
            self.alone[row] = self.snapshot.rate(row)

    def review(self, home: ServerGroup) -> None:
        """Judge all pairs, part the pairs that need not share, and try the next one."""
        for first in list(home["pairs"]):
            self._judge(home, first)
        self.part_needless(home)
        if self.homes.room_with_pairs(home) < -EPSILON and home["trial"] < 0:
            pair = self.next_of(home)
            if pair is not None:
                self.homes.pair(home, pair)
                home["trial"] = pair[0]

    def part_needless(self, home: ServerGroup) -> None:
        """Part pairs in which both jobs would have GPUs of their own."""
        for first, second in list(home["pairs"].items()):
            if self.homes.room_with_pairs(home) >= self.homes.demand_of(second) - EPSILON:
                self.homes.part(home, first)

    def _judge(self, home: ServerGroup, first: int) -> None:
        """Part a pair that does no more than in turns, kept or on trial; a pair that did not run stays."""
        pair = (first, home["pairs"][first])
        held, jobs = self.snapshot.grants, self.snapshot.jobs
        ran = [
            row in held and held[row].role is Role.PACKED and jobs.since_s[row] < self.snapshot.now
            for row in pair
        ]
        if not all(ran):
            return
        if home["trial"] == first:
            home["trial"] = -1
        if not all(row in self.alone for row in pair):
            return  # they shared before this policy took over: there is nothing to compare with
        if gain((jobs.rate(row) for row in pair), (self.alone[row] for row in pair)) <= self.p.pack_gain:
            self.homes.part(home, first)
            self.bad.setdefault(first, []).append(pair[1])

    def may_try(self, home: ServerGroup) -> bool:
        """True if two jobs of the home keep their GPUs less than fully busy."""
        if self._cells is None:
            self._cells = cells(self._utilisation())
        use_of, leave_some = self._cells, 0
        row: Any
        for row in home["circle"]:
            use: float = use_of[row]
            if use < 1.0:
                leave_some += 1
                if leave_some == 2:
                    return True
        return False

    def _utilisation(self) -> Floats:
        """The part of its GPUs that each job alone keeps busy, looked up once in a decision."""
        if self._use is None:
            self._use = self.snapshot.know(Knowledge.UTILISATION)
        return self._use

    def next_of(self, home: ServerGroup) -> Pair | None:
        """The pair to try next: both ran alone and leave a GPU partly idle, least utilised first; or None."""
        use = self._utilisation()
        rows = [
            row
            for row in home["circle"]
            if row not in home["pairs"] and self.alone.get(row, 0.0) > 0.0 and use[row] < 1.0
        ]
        return next_pair(rows, use.item, lambda pair: self._may_share(home, pair))

    def _may_share(self, home: ServerGroup, pair: Pair) -> bool:
        """True for equal gangs of whole GPUs whose memory fits, not yet parted.

        The head of the circle keeps its turn: it is one of the two, or fits beside them.
        """
        first, second = pair
        sizes = self.snapshot.gpus_of
        if sizes[first] != sizes[second]:
            return False
        if second in self.bad.get(first, ()) or first in self.bad.get(second, ()):
            return False
        head, demand_of = home["circle"][0], self.homes.demand_of
        if head not in pair and demand_of(head) + demand_of(first) > home["gpus"] + EPSILON:
            return False
        jobs, memory_of = self.snapshot.jobs.table, partial(device_memory_gib, self.snapshot.cluster)
        if not bool((jobs.gpu_share[[first, second]] == 1.0).all()):
            return False
        memory_gib = float(jobs.gpu_memory_gib[[first, second]].sum())
        return all(holds(memory_of(node), memory_gib * (1.0 + self.p.head_room)) for node in home["nodes"])


# -- migration ---------------------------------------------------------------------------------------

Move = tuple[int, int, int]
MayMove = Callable[[int, int], bool]
"""Whether a job may go to a home: it can run there, and was not sent back from there."""
JoinEmpty = Callable[[int], int]
"""The home that empty servers become for a job larger than a server; -1 if there are too few."""
Usable = Mapping[int, int]
"""How many GPUs of each server a job could use, of the servers of one type."""


def relieve(
    homes: ServerGroups, sizes: Sequence[int], may_move: MayMove, join_empty: JoinEmpty
) -> list[Move]:
    """Send jobs that take turns to homes with room, from the most loaded home, next in turn first."""
    moves: list[Move] = []
    index = homes.index
    most_room = index.most_room()
    if most_room <= EPSILON:
        return moves
    for source in sorted(index.crowded, key=lambda key: (-_load(homes.homes[key]), key)):
        if most_room <= EPSILON:
            break
        for row in members(homes.homes[source]):
            if homes.room(homes.homes[source]) >= -EPSILON:
                break
            demand, target = homes.demand_of(row), -1
            if demand <= most_room + EPSILON:
                target = index.fullest(demand, lambda key, row=row: may_move(row, key))  # type: ignore[misc]
            if target < 0:
                target = join_empty(row)
            if target >= 0:
                moves.append(_move(homes, row, target, sizes))
                most_room = index.most_room()
    return moves


def defragment(homes: ServerGroups, sizes: Sequence[int], may_move: MayMove, threshold: float) -> list[Move]:
    """Empty servers with at least `threshold` of their GPUs free, the one with most free first.

    A job goes to the server with the fewest free GPUs on which it fits, and never to one with as many free
    as its own: two servers would swap jobs for ever.
    """
    moves: list[Move] = []
    settled: set[int] = set()
    while (source := homes.index.emptiest(threshold, settled)) >= 0:
        before = len(moves)
        for row in members(homes.homes[source]):
            room, demand = homes.room(homes.homes[source]), homes.demand_of(row)
            target = homes.index.fullest(demand, lambda key, row=row: may_move(row, key), room)  # type: ignore[misc]
            if target >= 0:
                moves.append(_move(homes, row, target, sizes))
        if len(moves) == before:
            settled.add(source)
    return moves


def give_back(
    homes: ServerGroups,
    sizes: Sequence[int],
    size: int,
    usable: Sequence[Usable],
    may_move: MayMove,
    *,
    on_one: bool,
) -> list[Move]:
    """Send gangs to other homes of their size, where that empties servers for a `size` job without a home.

    The job needs one server, or as many as it takes.  No gang moves if the job could not begin then (ours).
    """
    for gpus in usable:
        given = _enough(homes, sizes, size, gpus, may_move, on_one=on_one)
        if given:
            rows = [row for key in given for row in members(homes.homes[key])]
            return [_move(homes, row, _alike(homes, row, sizes, may_move, given), sizes) for row in rows]
    return []


def _enough(
    homes: ServerGroups, sizes: Sequence[int], size: int, gpus: Usable, may_move: MayMove, *, on_one: bool
) -> list[int]:
    """Groups of servers, the smallest first, that with all empty servers suffice; none if there are too few.

    Each of their jobs has a home of its size elsewhere.
    """
    empty = [] if on_one else homes.index.empty()
    total = sum([gpus.get(node, 0) for key in empty for node in homes.homes[key]["nodes"]])
    given: list[int] = []
    for key in sorted(homes.index.groups, key=lambda key: (homes.homes[key]["gpus"], key)):
        offered = [gpus.get(node, 0) for node in homes.homes[key]["nodes"]]
        more = sum(offered) if not on_one else max(offered) if max(offered) >= size else 0
        if more and _can_leave(homes, sizes, [*given, key], may_move):
            given.append(key)
            total += more
            if total >= size:
                return given
    return []


def _can_leave(homes: ServerGroups, sizes: Sequence[int], keys: list[int], may_move: MayMove) -> bool:
    """True if each job of these homes has a home of its size among the others."""
    return all(
        _alike(homes, row, sizes, may_move, keys) >= 0 for key in keys for row in members(homes.homes[key])
    )


def _alike(
    homes: ServerGroups, row: int, sizes: Sequence[int], may_move: MayMove, but: Collection[int]
) -> int:
    """The least loaded home for jobs of the size of `row`, none of `but`; -1 if there is none."""
    size = sizes[row]
    return homes.index.least_loaded(size, lambda key: key not in but and may_move(row, key), size)


def _move(homes: ServerGroups, row: int, target: int, sizes: Sequence[int]) -> Move:
    source = homes.remove(row)
    homes.add(row, target, sizes[row])
    return row, source, target


def _load(home: ServerGroup) -> float:
    return home["demand"] / home["gpus"]


# -- grow-shrink -------------------------------------------------------------------------------------


class Growth:
    """Growth of a home's elastic jobs into its idle GPUs, until other jobs need them."""

    def __init__(self, snapshot: Snapshot, parameters: GandivaParameters, homeless: Sized) -> None:
        """`homeless` are the jobs that wait for a home: while there are some, no job grows."""
        self.snapshot = snapshot
        self.p = parameters
        self.homeless = homeless
        self.jobs = snapshot.jobs.table
        self.asked = snapshot.gpus_of

    def is_due(self, home: ServerGroup) -> bool:
        """True if GPUs of the home have been idle for long enough and no job waits for a home."""
        return self.snapshot.now >= home["idle_since_s"] + self.p.grow_after and not self.homeless

    def sizes(self, home: ServerGroup, rows: list[int], room: float) -> dict[int, int]:
        """GPUs of each job: elastic ones keep what is idle, and get more if that was idle for long.

        `room` is the GPUs that no job of the home asks for.  Notes in the home since when a job could use
        them.
        """
        sizes = {row: self.asked[row] for row in rows}
        elastic, is_due, can_grow = self._elastic(home, rows), self.is_due(home), False
        for row in elastic:
            grant = self.snapshot.grants.get(row)
            have = len(grant.devices) if grant is not None else 0
            sizes[row] = self._most(row, min(have, sizes[row] + int(max(room, 0.0))))
            room -= sizes[row] - self.asked[row]
        for row in elastic:  # what no job keeps
            most = self._most(row, sizes[row] + int(max(room, 0.0)))
            if is_due:
                room -= most - sizes[row]
                sizes[row] = most
            can_grow |= most > sizes[row]
        home["idle_since_s"] = self.snapshot.now if can_grow else math.inf
        return sizes

    def _elastic(self, home: ServerGroup, rows: list[int]) -> list[int]:
        """Jobs that could use more GPUs; none where they take turns, or where quotas count every GPU."""
        if not self.p.grow or home["turn_ends_s"] < math.inf or self.snapshot.cluster.tenants:
            return []
        most = self.jobs.gpus_max
        return [row for row in rows if most.item(row) > self.asked[row] and row not in home["pairs"]]

    def _most(self, row: int, limit: int) -> int:
        """The most GPUs, up to `limit`, that the job can use; at least those it asked for."""
        most = min(limit, self.jobs.gpus_max.item(row))
        return max(feasible_counts(self.jobs, row, most)[-1], self.asked[row])
