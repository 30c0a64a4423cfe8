"""Earliest deadline first: serve the job that is due next.

Paper     Liu and Layland, "Scheduling Algorithms for Multiprogramming in a Hard-Real-Time Environment", JACM
          1973; the baseline of ElasticFlow, Chronus and the deadline-SLA thesis
Decides   order, preemption; with `size=fastest` or `most` the number of GPUs
Needs     nothing; with `size=fastest` or `most` the speed by number of GPUs
Idea      1. Jobs are served in order of deadline, jobs without one last.
          2. Each gets the GPUs it asked for, or (`size=fastest`) as many of the free ones as make it
             faster; jobs that do not fit are passed.
          3. No job is refused: once late, a job is still served first.
Departs   With `size`, on several types, GPUs that a job cannot use on one type go to others (ours).
Checked   the `edf` of the ElasticFlow repository (`size=most`): every job equal (docs/fidelity.md)
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import partial

import numpy as np

from rota.knowledge.needs import Knowledge
from rota.knowledge.scaling import curves_of
from rota.model.columns import Floats, Ints
from rota.model.grants import Code, Constraint
from rota.scheduler.decision import Decision, Memory, Wake
from rota.scheduler.policy import Lever, register
from rota.scheduler.snapshot import Snapshot
from rota.solvers.future import SpeedLevels
from rota.stages.buddy import carry_out_whole
from rota.stages.place import Placement
from rota.stages.priority import ByPriority, Drift
from rota.stages.priority_policy import Keys, Rows
from rota.stages.quota_caps import caps_of
from rota.stages.sizes import Sizes, settle_sizes, sizes_now

_LATER = Constraint(Code.POLICY, detail="jobs that are due earlier can use all GPUs")


class Gpus(StrEnum):
    """How many GPUs a job is given."""

    ASKED = "asked"
    FASTEST = "fastest"  # as many as make it faster
    MOST = "most"  # as many as it can use, faster or not (ElasticFlow repository)


@dataclass(frozen=True)
class EdfParameters:
    """Parameters of `edf`."""

    size: Gpus = Gpus.ASKED
    """The GPUs a job asked for, as many as make it faster, or as many as it can use."""
    placement: Placement = Placement.CONSOLIDATE
    """Where on the cluster, for jobs with the GPUs they asked for."""


def _is_elastic(parameters: EdfParameters) -> bool:
    return parameters.size is not Gpus.ASKED


@register(
    "edf",
    "Earliest deadline first, preemptive",
    paper="Liu and Layland, JACM 1973",
    needs={Knowledge.SCALING: _is_elastic},
    levers={Lever.PREEMPT: True, Lever.MIGRATE: True, Lever.RESIZE: _is_elastic},
    parameters=EdfParameters,
    heeds_deadlines=True,
)
class Edf:
    """Serves jobs in order of deadlines."""

    def __init__(self, parameters: EdfParameters | None = None) -> None:
        self.parameters = parameters or EdfParameters()
        self._fixed = ByPriority(
            due_s,
            preemptive=True,
            strict=False,
            drifts=Drift.NEVER,
            placement=self.parameters.placement,
        )

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        if not _is_elastic(self.parameters):
            return self._fixed.decide(snapshot, memory)
        sizes = sizes_now(snapshot, memory, 0.0)
        shares_of = partial(self._shares, snapshot)
        shares, grants, preempt = settle_sizes(snapshot, memory, sizes, shares_of, carry_out_whole)
        reasons = {row: _LATER for row, gpus in shares.items() if not gpus}
        return Decision(memory, grants, preempt, reasons=reasons, wake=Wake(sizes.again_s))

    def _shares(self, snapshot: Snapshot, sizes: Sizes) -> dict[int, int]:
        """GPUs for each row, the row that is due first before the others."""
        rows, free = sizes.rows, sizes.gpus
        most = max((count[-1] for count in sizes.counts), default=0)
        curves = curves_of(snapshot.know(Knowledge.SCALING), rows, most)
        shares, caps = {}, caps_of(snapshot, rows)
        for place in np.argsort(due_s(snapshot, rows), kind="stable").tolist():
            counts = np.array(sizes.counts[place], dtype=np.int64)
            gpus = self._size(counts, curves[place], free if caps is None else caps.within(place, free))
            shares[rows.item(place)] = gpus
            free -= gpus
            if caps is not None:
                caps.take(place, gpus)
        return shares

    def _size(self, sizes: Ints, curve: Floats, free: int) -> int:
        """The largest of `sizes` that is free, or of those that make the job faster; 0 if none is."""
        if self.parameters.size is Gpus.MOST:
            return int(sizes[sizes <= free].max(initial=0))
        levels = SpeedLevels.of(sizes, curve[sizes])
        return int(levels.gpus[levels.within(np.array([free]))[0]])


def due_s(snapshot: Snapshot, rows: Rows) -> Keys:
    """The moment by which each is to be done; infinite for jobs without a deadline."""
    due: Floats = snapshot.jobs.deadline_s[rows]
    keys: Keys = np.where(np.isnan(due), np.inf, due)[()]  # of one row a number, which compiled code compares
    return keys
