"""Optimus as the baseline in Pollux' simulator carries it out: `optimus@pollux`.

Paper     Peng et al., "Optimus: An Efficient Dynamic Resource Scheduler for Deep Learning Clusters",
          EuroSys 2018
Decides   number of GPUs, order, placement, preemption
Needs     the steps that each job still needs, and its speed by number of GPUs
Idea      petuum/adaptdl (osdi21-artifact), `simulator/optimus.py`, which knows what is left and how long a
          step takes.  It differs from `optimus` in three things:
          1. it looks at every tick of a minute.  What is left are the steps after the epoch a job is in, at
             its batch size; a step's time is that on as few nodes as the GPUs need, wherever they are;
          2. savings count as they are: no job is young, and a resize that hardly pays is made;
          3. GPUs are taken from the node with most of them free, repeatedly, small jobs first.
Departs   No job has parameter servers.
Checked   every job of thirteen workloads of Pollux' simulator ends in the same second (docs/fidelity.md)
"""

from __future__ import annotations

import math

import numpy as np

from rota.knowledge.needs import Knowledge
from rota.model.cluster import Cluster
from rota.model.columns import Array, Floats
from rota.model.grants import Code, Constraint
from rota.scheduler.decision import Decision, Event, Memory, Wake
from rota.scheduler.policy import Lever, register
from rota.scheduler.snapshot import Snapshot
from rota.solvers.one_by_one import fill_savings
from rota.stages.feeding import FeedingFitter
from rota.stages.place import emptiest
from rota.stages.quota_caps import caps_of
from rota.stages.sizing import Sizing
from rota.systems.optimus.placing import place_again
from rota.systems.optimus.system import PAPER

TICK_S = 60.0
_LATE = Constraint(Code.POLICY, detail="jobs that came before it have all GPUs")


@register(
    "optimus@pollux",
    "Optimus as the baseline in Pollux' simulator carries it out",
    paper=PAPER,
    needs={Knowledge.SCALING, Knowledge.CONVERGENCE},
    levers={Lever.PREEMPT, Lever.RESIZE, Lever.MIGRATE},
    work_conserving=False,
)
class OptimusOfPollux:
    """Marginal savings of steps still to do."""

    def __init__(self) -> None:
        self._last: tuple[object, ...] = ()
        """Jobs, their steps left and the nodes down at the last decision that changed nothing."""
        self._cluster: Cluster | None = None
        self._rates: Array | None = None
        self._curves: list[list[float]] = []
        """Seconds of a step, from `_rates`."""

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        steps = snapshot.know(Knowledge.CONVERGENCE).by_row["steps"]
        waiting, running = snapshot.waiting, snapshot.running
        if not len(waiting) and not len(running):
            return Decision(memory)
        wake = Wake((math.floor(snapshot.now / TICK_S) + 1) * TICK_S, Event.NONE)
        if snapshot.cluster is not self._cluster:
            self._cluster, self._last = snapshot.cluster, ()
        jobs = [part.tobytes() for part in (waiting, running, steps[waiting], steps[running])]
        seen = (*jobs, frozenset(snapshot.occupancy.down))
        if seen == self._last:
            return Decision(memory, wake=wake, otherwise=_LATE)
        sizing = Sizing(snapshot)
        shares = self._shares(snapshot, sizing, steps[sizing.rows])
        grants, preempt = place_again(snapshot, shares, FeedingFitter(snapshot, emptiest))
        self._last = () if grants or preempt else seen
        return Decision(memory, grants, preempt, wake=wake, otherwise=_LATE)

    def _shares(self, snapshot: Snapshot, sizing: Sizing, steps: Floats) -> dict[int, int]:
        """GPUs for each row."""
        scaling = snapshot.know(Knowledge.SCALING)
        codes: list[int] = scaling.by_row["curve"][sizing.rows].tolist()
        curves = self._step_times(scaling.shared["rates"], sizing.most)
        left = np.where(np.isnan(steps), 1.0, steps).tolist()
        caps = caps_of(snapshot, sizing.rows)
        shares = fill_savings([curves[code] for code in codes], left, sizing.counts, sizing.gpus, caps)
        return dict(zip(sizing.rows.tolist(), shares, strict=True))

    def _step_times(self, rates: Array, most: int) -> list[list[float]]:
        """Seconds of a step on 0 to at least `most` GPUs, by curve."""
        if self._rates is not rates or (self._curves and len(self._curves[0]) <= most):
            self._rates, wider = rates, max(most + 1 - rates.shape[1], 0)
            wide = np.pad(rates, ((0, 0), (0, wider)), mode="edge")
            none = np.full(wide.shape, math.inf)
            self._curves = np.divide(1.0, wide, out=none, where=wide > 0.0).tolist()
        return self._curves
