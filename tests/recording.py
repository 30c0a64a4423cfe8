"""A world in which happens what a script says, and which remembers what it was told."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rota.knowledge.needs import Observation
from rota.model.cluster import Cluster
from rota.model.grants import Leave
from rota.model.jobs import JobTable
from rota.model.promises import Offer
from rota.scheduler.decision import Event
from rota.scheduler.guard.host_memory import Resident
from rota.scheduler.world import Batch, Change, How, Lost, Refusal
from rota.table.progress import Progress
from rota.table.state import State


class Stop(NamedTuple):
    """An attempt that the loop declared over."""

    at_s: float
    row: int
    how: How


class RecordingWorld:
    """Plays batches in order of time; jobs do no work of their own and end when the script says so."""

    def __init__(self, cluster: Cluster, jobs: JobTable, script: Iterable[Batch] = ()) -> None:
        self.cluster = cluster
        self.jobs = jobs
        self.progress = Progress(len(jobs))
        self.script = sorted(script, key=lambda batch: batch.now)
        self.applied: list[tuple[float, Change]] = []
        """Every change with its moment."""
        self.stops: list[Stop] = []
        self.offers: dict[int, Offer] = {}

    def attach(self, state: State) -> None:
        self.state = state

    def next(self, until_s: float) -> Batch | None:
        if self.script and self.script[0].now <= until_s:
            batch = self.script.pop(0)
            if batch.now == until_s:
                batch.cause |= Event.TIMER
            return batch
        return None if until_s == math.inf else Batch(until_s, int(Event.TIMER))

    def apply(self, changes: Sequence[Change]) -> Sequence[Refusal]:
        self.applied += [(self.state.now, change) for change in changes]
        return ()

    def offer(self, offers: Mapping[int, Offer]) -> None:
        self.offers |= offers

    def stopped(self, row: int, how: How) -> Lost:
        self.stops.append(Stop(self.state.now, row, how))
        return Lost()

    def observed(self) -> Sequence[Observation]:
        return ()

    def suspended(self) -> Iterable[Resident]:
        return ()

    def would_keep(self, row: int, leave: Leave) -> Resident | None:
        return None
