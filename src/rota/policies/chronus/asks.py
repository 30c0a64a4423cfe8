"""What each live job asks for: how long it is estimated to take, how much of that is left, until when."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rota.knowledge.needs import Knowledge
from rota.model.grants import Can
from rota.policies.chronus.parameters import ChronusParameters
from rota.scheduler.snapshot import Snapshot
from rota.scheduler.stages.sizes import on_closed

STRICT_VALUE = 10.0
"""What it is worth to keep the deadline of a job that has one only."""
_UNITS = 20
"""Estimates are rounded down to so many parts of a lease: whole minutes of 20."""
_MOST_S = 1e9
_STOPS = Can.SUSPEND | Can.CHECKPOINT | Can.RESIZE


class LeaseAsk(NamedTuple):
    """One live job; times are seconds."""

    row: int
    gpus: float
    """GPUs that it takes."""
    planned: int
    """GPUs that it is planned with: numbers that nodes can be divided into; 0 while it runs on a node that is
    drained, where it goes on beside the plan."""
    left_s: float
    """What is left of its estimate; 0 or less if it has outrun it."""
    dues: tuple[tuple[float, float], ...]
    """Its deadlines with what each is worth, the earliest first; none for best effort."""
    submit_s: float
    work: float
    """Work that it has done."""
    runs: bool
    bears_stops: bool

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


def asks_of(snapshot: Snapshot, capacity: int, parameters: ChronusParameters) -> dict[int, LeaseAsk]:
    """What each live job asks for, by row."""
    jobs = snapshot.jobs
    rows = np.sort(np.concatenate((snapshot.waiting, snapshot.running)))
    claims = (jobs.gpus[rows] * jobs.gpu_share[rows]).tolist()
    durations = np.minimum(np.nan_to_num(snapshot.know(Knowledge.DURATION)[rows], nan=_MOST_S), _MOST_S)
    worked = jobs.ran_s(rows) if parameters.is_artifact else jobs.work_s(rows)
    bears = ((jobs.can(rows) & _STOPS) != 0).tolist()
    columns = zip(
        rows.tolist(), claims, durations.tolist(), worked.tolist(), jobs.submit_s[rows].tolist(),
        jobs.deadline_s[rows].tolist(), jobs.work_done(rows).tolist(), bears, strict=True,
    )  # fmt: skip
    asks, apart = {}, set(on_closed(snapshot))
    for row, gpus, duration_s, done_s, submit_s, deadline_s, work, bears_stops in columns:
        if not parameters.is_artifact:  # a second of work takes a little more of the estimate
            done_s *= 1.0 + overhead_s(gpus, parameters) / parameters.lease_s
        left_s = _estimate(duration_s, gpus, parameters) - done_s
        dues: tuple[tuple[float, float], ...] = tuple((one.at_s, one.value) for one in jobs.deadlines(row))
        if not dues and not math.isnan(deadline_s):
            dues = ((deadline_s, STRICT_VALUE),)
        asks[row] = LeaseAsk(
            row, gpus, 0 if row in apart else planned_gpus(gpus, capacity), left_s, dues if gpus else (),
            submit_s, work, row in snapshot.grants, bears_stops,
        )  # fmt: skip
    return asks


def _estimate(duration_s: float, gpus: float, parameters: ChronusParameters) -> float:
    """As `estimate_s`, and never nothing."""
    return estimate_s(duration_s, gpus, parameters) or parameters.lease_s / _UNITS
