"""Pack by trial: put two jobs on the same devices, measure, and part them if that did not pay.

Nothing is predicted.  Two jobs that share a device are worth it if they do more together than they would
in turns, that is if their rates, each relative to the job's own rate alone, sum to more than 1.  That the
device is busier proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import combinations
from typing import Any

from rota.knowledge.needs import Knowledge
from rota.model.columns import Cells, Floats, cells
from rota.model.grants import Role
from rota.scheduler.snapshot import Snapshot
from rota.stages.grounds import device_memory_gib, holds
from rota.systems.gandiva.parameters import GandivaParameters
from rota.systems.gandiva.server_group import EPSILON, ServerGroup
from rota.systems.gandiva.server_groups import ServerGroups

_ALONE = int(Role.ALONE)

Pair = tuple[int, int]


def gain(rates: Iterable[float], alone: Iterable[float]) -> float:
    """What jobs do together, relative to what they do in turns: 1.0 is no gain."""
    return sum(rate / solo for rate, solo in zip(rates, alone, strict=True))


def next_pair(
    rows: Iterable[int], utilisation: Callable[[int], float], may_share: Callable[[Pair], bool]
) -> Pair | None:
    """The pair to try next: least utilised first, then the least utilised partner; ties by row."""
    order: Sequence[int] = sorted(rows, key=lambda row: (utilisation(row), row))
    return next((pair for pair in combinations(order, 2) if may_share(pair)), None)


class PairTrials:
    """The pairs of a cluster: on trial, kept, parted; one trial at a time in each home.

    `alone` (rate of each job when it last ran alone) and `bad` (per job, those it was parted from) are
    plain values, changed in place, so that a policy may keep them in its memory.
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
        """True if it runs, for some time now, with nobody beside it on as many GPUs as it asked for."""
        grant = self.snapshot.grants.get(row)
        if grant is None or grant[3] != _ALONE or len(grant[1]) != self.snapshot.gpus_of[row]:
            return False
        since: float = self.snapshot.by_row.since_of[row]
        return since < self.snapshot.now

    def note_rate(self, row: int) -> None:
        """Keep the rate of `row` if it runs alone."""
        if not (self._is_steady and row in self.alone) and self.runs_alone(row):
            self.alone[row] = self.snapshot.rate(row)

    def use_of_all(self) -> Floats:
        """What each job alone leaves busy of its GPUs, looked up at the first question of a decision."""
        if self._use is None:
            self._use = self.snapshot.know(Knowledge.UTILISATION)
        return self._use

    def review(self, home: ServerGroup) -> None:
        """Judge all pairs, part those that need not share, and try the next one."""
        for first in list(home["pairs"]):
            self._judge(home, first)
        self.part_needless(home)
        if self.homes.room_with_pairs(home) < -EPSILON and home["trial"] < 0:
            self._try_next(home)

    def part_needless(self, home: ServerGroup) -> None:
        """Part pairs of which both would have GPUs of their own."""
        for first, second in list(home["pairs"].items()):
            if self.homes.room_with_pairs(home) >= self.homes.demand_of(second) - EPSILON:
                self.homes.part(home, first)

    def _judge(self, home: ServerGroup, first: int) -> None:
        """Part a pair that does no more than in turns, be it on trial or kept; one that did not run stays."""
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
        """True if two jobs of the home leave something of their GPUs."""
        if self._cells is None:
            self._cells = cells(self.use_of_all())
        use_of, leave_some = self._cells, 0
        row: Any
        for row in home["circle"]:
            use: float = use_of[row]
            if use < 1.0:
                leave_some += 1
                if leave_some == 2:
                    return True
        return False

    def _try_next(self, home: ServerGroup) -> None:
        pair = self.next_of(home)
        if pair is not None:
            self.homes.pair(home, pair)
            home["trial"] = pair[0]

    def next_of(self, home: ServerGroup) -> Pair | None:
        """Whom to try next: two that ran alone and leave some of a GPU, least utilised first; or None."""
        use = self.use_of_all()
        rows = [
            row
            for row in home["circle"]
            if row not in home["pairs"] and self.alone.get(row, 0.0) > 0.0 and use[row] < 1.0
        ]
        return next_pair(rows, use.item, lambda pair: self._may_share(home, pair))

    def _may_share(self, home: ServerGroup, pair: Pair) -> bool:
        """True for equal gangs of whole GPUs whose memory fits, not yet parted.

        Whoever is next keeps its turn: it is one of the two, or fits beside them.
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
