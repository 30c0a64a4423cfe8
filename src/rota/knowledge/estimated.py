"""Throughput by GPU type, measured while jobs run and estimated where they have not run yet.

Jobs of one workload, batch and number of GPUs are a class; a job without a workload is one by itself.  What
a class did on a type counts by a moving average.  On types where it never ran it is taken to be as the class
that was seen on all of them and is most like it (`rota.knowledge.matrix_completion`); as long as there is
none, as fast as it is where it ran.

Estimates alone teach nothing: where a class was not seen, its estimate is raised by `CURIOSITY`, so that
policies give it a first run there; and each class that was seen nowhere is estimated to be faster on one
type, a different one in turn, so that first runs spread over the types.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from rota.knowledge.given import Provides
from rota.knowledge.matrix_completion import estimated
from rota.knowledge.measured import speed_seen
from rota.knowledge.needs import Knowledge, Observation, Provenance, Provider
from rota.knowledge.registry import Setup, provides
from rota.knowledge.seen import NEWS, is_alone
from rota.model.cluster import Cluster
from rota.model.columns import Floats, Ints
from rota.model.jobs import JobTable
from rota.table.state import State

FRESH = 0.5
"""Weight of the newest measurement (Gavel's)."""
CURIOSITY = 1.25
"""Factor by which an estimate is raised until there is a measurement."""


class EstimatedThroughput(Provides):
    """Rates of jobs by type, as far as they were seen; a change of less than `NEWS` is not published."""

    learns = True
    listens = True

    def __init__(self, jobs: JobTable, cluster: Cluster) -> None:
        self.jobs = jobs
        self.cluster = cluster
        self._types = max(1, len(cluster.type_names))
        self._class = np.full(len(jobs), -1, dtype=np.int64)
        self._classes: dict[Hashable, int] = {}
        self._seen = np.zeros((0, self._types))
        """Rate of each class on each type, NaN where it was not seen."""
        self._told = self._seen
        """The value of `_seen` when estimates were last made."""
        self._rates = np.ones((len(jobs), self._types))
        self._allowed = np.ones((len(jobs), self._types), dtype=bool)
        """Types that each job accepts."""
        self._table: State | None = None
        super().__init__(Knowledge.THROUGHPUT, Provenance.MEASURED, self._rates)

    def attach(self, state: State) -> None:
        self._table = state
        for row in range(state.submitted):
            self.submitted(row)

    def _grow(self) -> None:
        """A node of a new type has joined, on which no class has been seen."""
        cluster = self._table.cluster if self._table is not None else self.cluster
        if cluster is self.cluster:
            return
        self.cluster = cluster
        more = max(1, len(cluster.type_names)) - self._types
        if more > 0:
            self._types += more
            self._seen, self._told = (
                np.pad(known, ((0, 0), (0, more)), constant_values=np.nan)
                for known in (self._seen, self._told)
            )
            self._rates = np.ones((len(self.jobs), self._types))
            self._allowed = np.ones((len(self.jobs), self._types), dtype=bool)
            for row in np.flatnonzero(self._class >= 0).tolist():
                self.submitted(row)

    def submitted(self, row: int) -> None:
        number = self._classes.setdefault(self._key(row), len(self._classes))
        if number == len(self._seen):
            self._seen = np.vstack((self._seen, np.full(self._types, np.nan)))
            self._told = np.vstack((self._told, np.full(self._types, np.nan)))
        self._class[row] = number
        wanted = self.jobs.gpu_types.item(row)
        names = self.jobs.types_in(wanted)
        self._allowed[row] = [not wanted or name in names for name in self.cluster.type_names] or True
        self._rates = self._rates.copy()
        self._tell(np.array([row]), number)

    def _key(self, row: int) -> Hashable:
        workload, batch = self.jobs.name_of("workload", row), self.jobs.batch_size.item(row)
        return (workload, batch if batch > 0.0 else 0.0, self.jobs.gpus.item(row)) if workload else row

    def observed(self, seen: Sequence[Observation]) -> None:
        self._grow()
        for one in seen:
            speed = speed_seen(one)
            if speed > 0.0 and is_alone(one.grant) and len(one.grant.devices) == self.jobs.gpus.item(one.row):
                place = self._class.item(one.row), self.cluster.device_type.item(one.grant.devices[0])
                old = self._seen[place]
                self._seen[place] = speed if np.isnan(old) else old + FRESH * (speed - old)
        if self._is_news():
            self._told = self._seen.copy()
            self._rates = self._rates.copy()
            for number in range(len(self._seen)):
                self._tell(np.flatnonzero(self._class == number), number)

    def _is_news(self) -> bool:
        """True if something was seen for the first time, or has changed by a part that counts."""
        known = ~np.isnan(self._seen)
        change = np.abs(self._seen - np.nan_to_num(self._told)) >= NEWS * np.nan_to_num(self._seen)
        return bool((known & change).any())

    def _tell(self, rows: Ints, number: int) -> None:
        """Rows of a class get its rates on the types that they accept."""
        self._rates[rows] = self._of_class(number) * self._allowed[rows]

    def _of_class(self, number: int) -> Floats:
        mine = self._told[number]
        known = ~np.isnan(mine)
        if not known.any():
            first = np.ones(self._types)
            first[number % self._types] = CURIOSITY
            return first
        whole = self._told[~np.isnan(self._told).any(axis=1)]
        guess = estimated(mine, whole) if len(whole) else np.where(known, mine, np.nanmax(mine))
        return np.where(known, mine, CURIOSITY * guess)

    def known(self) -> Floats:
        self._grow()
        return self._rates


@provides(
    Knowledge.THROUGHPUT,
    Provenance.MEASURED,
    "measured rates on types on which jobs ran; on others, of the most similar class seen on all types",
)
def measured_throughput(setup: Setup) -> Provider:
    return EstimatedThroughput(setup.jobs, setup.cluster)
