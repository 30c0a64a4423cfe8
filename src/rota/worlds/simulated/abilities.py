"""What the programs of a simulation can do without losing work, and what is lost where they cannot.

As on a live cluster: a program that saves nothing but can be suspended is suspended when it is preempted, and
goes on where it was; one that saves, but cannot resume on another number of devices, starts over there.  A
late program says what it can do only after its first start; until then no policy counts on it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from heapq import heappop, heappush

import numpy as np

from rota.errors import InputError
from rota.model.grants import Can, Grant
from rota.model.jobs import JobTable
from rota.scheduler.decision import Event
from rota.scheduler.world import How
from rota.table.occupancy import Occupancy
from rota.table.progress import Progress

Place = tuple[int, frozenset[int]]
"""Number of devices, and the nodes they are on."""

LATE = Can(16)
"""Flag: abilities are unknown until the first start has finished, suspension excepted."""
WORDS: Mapping[str, Can] = {
    "all": Can.ALL,
    "nothing": Can.NOTHING,
    "suspend": Can.SUSPEND,
    "checkpoint": Can.CHECKPOINT,
    "resize": Can.RESIZE,
    "batch": Can.BATCH,
    "late": LATE,
}
"""Abilities by their names on the command line."""


class Abilities:
    """Abilities of the jobs of a trace: written into `progress`, and heeded when they stop and start."""

    def __init__(self, jobs: JobTable, progress: Progress, can: Mapping[str, Can]) -> None:
        """`can` is by workload, `*` for all others; workloads not named have every ability."""
        unknown = next((name for name in can if name not in ("*", *jobs.workload_names)), None)
        if unknown is not None:
            few = ", ".join(jobs.workload_names[:5])
            raise InputError.at(
                f"{unknown} is a workload that no job runs",
                field="--can",
                expected=f"among {few}" if few else "no names: the trace has no workloads",
            )
        rest = can.get("*", Can.ALL)
        of_workload = np.array([*(int(can.get(name, rest)) for name in jobs.workload_names), int(rest)])
        bears = of_workload[jobs.workload]
        progress.can[:] = np.where(bears & LATE, bears & Can.SUSPEND, bears)
        self.progress = progress
        self.lacking = bool((progress.can != int(Can.ALL)).any())
        """True if some job lacks an ability, as far as is known."""
        self.late = {row: int(bears[row] & Can.ALL) for row in np.flatnonzero(bears & LATE).tolist()}
        """Abilities, by row, of jobs whose programs have not reported them yet."""
        self._speaks: dict[int, float] = {}
        """When programs that are starting will report their abilities."""
        self._order: list[tuple[float, int]] = []
        """`_speaks` as a heap; entries that are not in `_speaks` are void."""
        self.forgone: dict[int, float] = {}
        """Work that a job lost by starting on devices to which it could not bring its work."""
        self._left: dict[int, Place] = {}
        """What waiting jobs held when they were stopped; no node if what they left there is gone."""

    # -- jobs that say what they can do only when they have started --------------------------------

    @property
    def next_s(self) -> float:
        """When the next program reports its abilities; infinite if none is about to."""
        while self._order and self._speaks.get(self._order[0][1]) != self._order[0][0]:
            heappop(self._order)
        return self._order[0][0] if self._order else math.inf

    def begin(self, row: int, ready_s: float) -> None:
        """`row` starts up until `ready_s`."""
        if row in self.late:
            self._speaks[row] = ready_s
            heappush(self._order, (ready_s, row))

    def speak(self, now: float) -> Event:
        """The programs that are ready by `now` report their abilities."""
        cause = Event.NONE
        while self.next_s <= now:
            row = heappop(self._order)[1]
            del self._speaks[row]
            self.progress.can[row] = self.late.pop(row)
            cause = Event.SAID
        return cause

    # -- what is lost ------------------------------------------------------------------------------

    def leave(self, row: int, how: How, grant: Grant, occupancy: Occupancy) -> float:
        """Work that `row` loses by giving up `grant`; a row that loses it only elsewhere is remembered."""
        self._speaks.pop(row, None)
        can = self.progress.can.item(row)
        done = self.progress.base.item(row)
        if how is How.MIGRATED:
            return 0.0 if can & Can.CHECKPOINT else done
        if how is How.RESIZED:
            return 0.0 if can & Can.CHECKPOINT and can & Can.RESIZE else done
        if how is How.PREEMPTED:
            self._left[row] = _place(grant, occupancy)
            return 0.0 if can & (Can.CHECKPOINT | Can.SUSPEND) else done
        if how is How.LOST:  # with its node, and all that was in memory there
            self._left[row] = _place(grant, occupancy)
            return 0.0 if can & Can.CHECKPOINT else done
        return 0.0

    def lose(self, nodes: Set[int]) -> None:
        """`nodes` are lost: a job suspended there goes on where it was only if it has a checkpoint."""
        for row, (gpus, where) in self._left.items():
            if not nodes.isdisjoint(where) and not self.progress.can.item(row) & Can.CHECKPOINT:
                self._left[row] = gpus, frozenset()

    def start(self, row: int, grant: Grant, occupancy: Occupancy) -> None:
        """`row` begins on `grant`: it goes on with its work if that can be moved there."""
        if row not in self._left:
            return
        can, (gpus, nodes), now = self.progress.can.item(row), self._left.pop(row), _place(grant, occupancy)
        is_bound = not can & Can.CHECKPOINT
        if (gpus, nodes) != now if is_bound else gpus != now[0] and not can & Can.RESIZE:
            self.forgone[row] = self.progress.base.item(row)
            self.progress.base[row] = 0.0


def _place(grant: Grant, occupancy: Occupancy) -> Place:
    return len(grant.devices), frozenset(node for node, _ in occupancy.parts(grant))


def parse_can(text: str) -> dict[str, Can]:
    """Abilities by workload: `checkpoint+resize,vgg19=suspend`; an entry without a name is for all others.

    Words are all, nothing, suspend, checkpoint, resize and batch, and late beside them.  InputError names a
    wrong one.
    """
    can: dict[str, Can] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        workload, equals, words = part.rpartition("=")
        name = workload.strip() if equals else "*"
        if name in can:
            raise InputError.at(f"says twice what {name} can", field="--can", expected="each workload once")
        can[name] = Can.NOTHING
        for word in (word.strip() for word in words.split("+")):
            if word not in WORDS:
                raise InputError.at(
                    f"{word!r} is nothing that a job can do", field="--can", expected=", ".join(WORDS)
                )
            can[name] |= WORDS[word]
    return can
