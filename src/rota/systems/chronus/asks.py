"""What each live job asks for: how long it is estimated to take, how much of that is left, until when."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rota.knowledge.needs import Knowledge
from rota.model.columns import Bools, Floats, Ints
from rota.model.grants import Can
from rota.scheduler.snapshot import Snapshot
from rota.stages.requests import request_kinds
from rota.stages.sizes import on_closed
from rota.systems.chronus.parameters import ChronusParameters

STRICT_VALUE = 10.0
"""Value of keeping the deadline of a job that has only one."""
_UNITS = 20
"""Estimates are rounded down to this number of parts of a lease: whole minutes of 20."""
_MOST_S = 1e9
_STOPS = Can.SUSPEND | Can.CHECKPOINT | Can.RESIZE


class LeaseAsk(NamedTuple):
    """One live job; times are seconds."""

    row: int
    gpus: float
    """GPUs that it takes."""
    planned: int
    """GPUs in its plan, a number into which nodes can be divided; 0 while it runs on a drained node,
    where it goes on beside the plan."""
    left_s: float
    """Seconds left of its estimate; 0 or less if it has outrun it."""
    least_s: float
    """Seconds left of its run time alone, without the stops and the margin of the estimate."""
    dues: tuple[tuple[float, float], ...]
    """Its deadlines with what each is worth, the earliest first; none for best effort."""
    submit_s: float
    work: float
    """Work that it has done."""
    runs: bool
    bears_stops: bool

    @property
    def beside_drained(self) -> float:
        """Its GPUs on nodes that are not drained; not rounded up, as only planning does that."""
        return self.gpus if self.planned else 0.0

    @property
    def service(self) -> float:
        """GPU-seconds left."""
        return max(self.left_s, 0.0) * self.gpus

    @property
    def due_s(self) -> float:
        """Its last deadline."""
        return self.dues[-1][0]

    def need(self, lease_s: float) -> int:
        """Leases that it takes to its end."""
        return max(0, math.ceil(self.left_s / lease_s - 1e-9))


def overhead_s(gpus: float, parameters: ChronusParameters) -> float:
    """Seconds of saving and loading a job."""
    return (1.0 + math.log2(max(gpus, 1.0))) * parameters.overhead_s


def estimate_s(duration_s: float, gpus: float, parameters: ChronusParameters) -> float:
    """Run time to plan with: one stop in each lease, and a margin."""
    unit = parameters.lease_s / _UNITS
    factor = 1.0 + overhead_s(gpus, parameters) / parameters.lease_s
    return math.floor(duration_s * factor * parameters.safety / unit + 1e-9) * unit


def planned_gpus(gpus: float, capacity: int) -> int:
    """GPUs to plan with: 3 count as 4, and 5 to 7 as 8, as what they leave of a node is hard to use."""
    whole = math.ceil(gpus - 1e-9)
    if whole > 8:
        return whole
    rounded: int = 1 << max(whole - 1, 0).bit_length()
    return rounded if rounded <= capacity else whole


class Requested:
    """Data that stays the same as long as no request changes: for every row, also future ones."""

    def __init__(self, snapshot: Snapshot, capacity: int, parameters: ChronusParameters) -> None:
        self.jobs, self.cluster, self.capacity = snapshot.jobs.table, snapshot.cluster, capacity
        jobs = self.jobs
        self.claims: Floats = jobs.gpus * jobs.gpu_share
        """GPUs that each row takes."""
        sizes, place = np.unique(self.claims, return_inverse=True)
        factors = [1.0 + overhead_s(gpus, parameters) / parameters.lease_s for gpus in sizes.tolist()]
        self.factor: Floats = np.array(factors)[place]
        """Factor by which one stop in each lease makes the others longer."""
        self.planned: Ints = np.array([planned_gpus(gpus, capacity) for gpus in sizes.tolist()])[place]
        self.kinds: Ints = request_kinds(jobs, self.cluster)
        """Kinds of request: where one finds no place, others of its kind do not either."""
        self.is_due: Bools = ~np.isnan(jobs.deadline_s)
        """Jobs that have a deadline, and GPUs to keep it with."""
        self.is_due[[row for row, dues in jobs.deadlines.items() if dues]] = True
        self.is_due &= self.claims != 0.0

    def holds_for(self, snapshot: Snapshot, capacity: int) -> bool:
        """True if this is what `snapshot` has, for a cluster of `capacity` GPUs."""
        is_same = self.jobs is snapshot.jobs.table and self.cluster is snapshot.cluster
        return is_same and self.capacity == capacity


class LiveAsks:
    """What the live jobs ask for, as columns; one of them as a `LeaseAsk` once it is looked at."""

    def __init__(self, snapshot: Snapshot, requested: Requested, parameters: ChronusParameters) -> None:
        self._snapshot, self.requested = snapshot, requested
        jobs, running = snapshot.jobs, snapshot.running
        self.rows: Ints = np.sort(np.concatenate((snapshot.waiting, running)))
        self.runs: Bools = np.zeros(len(self.rows), dtype=bool)
        self.runs[self.places(running)] = True
        durations = np.minimum(
            np.nan_to_num(snapshot.know(Knowledge.DURATION)[self.rows], nan=_MOST_S), _MOST_S
        )
        factor = requested.factor[self.rows]
        done = jobs.ran_s(self.rows) if parameters.by_run_time else jobs.work_s(self.rows)
        self.least_s: Floats = durations - done
        if not parameters.by_run_time:  # a second of work takes slightly more of the estimate
            done = done * factor
        unit = parameters.lease_s / _UNITS
        estimates = np.floor(durations * factor * parameters.safety / unit + 1e-9) * unit
        self.left_s: Floats = np.where(estimates == 0.0, unit, estimates) - done
        self.claims: Floats = requested.claims[self.rows]
        self.submit_s: Floats = jobs.submit_s[self.rows]
        self.bears_stops: Bools = (jobs.can(self.rows) & _STOPS) != 0
        self._apart = set(on_closed(snapshot))
        self._seen: dict[int, LeaseAsk] = {}

    def __contains__(self, row: int) -> bool:
        return row in self._snapshot.grants or self._snapshot.waits(row)

    def is_held(self, row: int) -> bool:
        """True if `row` is out of sight for now: it pauses after a failure, or its user holds it."""
        return row in self._snapshot.held

    def __getitem__(self, row: int) -> LeaseAsk:
        ask = self._seen.get(row)
        if ask is None:
            ask = self._seen[row] = self._ask(row, int(self.rows.searchsorted(row)))
        return ask

    def _ask(self, row: int, place: int) -> LeaseAsk:
        gpus, jobs = self.claims.item(place), self._snapshot.jobs
        planned = 0 if row in self._apart else self.requested.planned.item(row)
        return LeaseAsk(
            row, gpus, planned, self.left_s.item(place), self.least_s.item(place),
            self._dues(row) if gpus else (), self.submit_s.item(place), jobs.work_done(row),
            row in self._snapshot.grants, self.bears_stops.item(place),
        )  # fmt: skip

    def _dues(self, row: int) -> tuple[tuple[float, float], ...]:
        jobs = self._snapshot.jobs
        dues = tuple((one.at_s, one.value) for one in jobs.deadlines(row))
        deadline_s = jobs.deadline_s.item(row)
        return dues if dues or math.isnan(deadline_s) else ((deadline_s, STRICT_VALUE),)

    def places(self, rows: Ints | Sequence[int]) -> Ints:
        """The places of live `rows` in the columns."""
        places: Ints = self.rows.searchsorted(rows)
        return places

    def with_deadlines(self) -> list[LeaseAsk]:
        """The asks of the jobs that have a deadline."""
        return [self[row] for row in self.rows[self.requested.is_due[self.rows]].tolist()]

    def service(self) -> Floats:
        """GPU-seconds left, [live job]."""
        service: Floats = np.maximum(self.left_s, 0.0) * self.claims
        return service
