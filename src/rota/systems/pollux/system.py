"""Pollux — share out all GPUs every minute so that the fitness of all jobs' speedups in goodput is best.

Paper     Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI 2021
Decides   number of GPUs, placement, preemption, batch size
Needs     goodput of each job by nodes, GPUs and batch size: measured while it runs, or profiles
Idea      1. Goodput is throughput times statistical efficiency; for each size the batch with the best counts.
          2. A job's speedup is its goodput over that on a fair share of the cluster; a changed job has
             only the part of it that a restart leaves, given its age and its restarts so far.
          3. A population of allocation matrices is bred for the best power mean of speedups: rows are reset,
             cleared and raised, crossed over, and repaired until no rule is broken.
          4. A job may have at most twice the GPUs that it was measured on, and only one job on several nodes
             uses a node.
Departs   Between two searches waiting jobs start on their least size where it fits (the authors' live
          system does so).  A search begins with what is held, which it never makes worse, and ends when some
          generations find nothing fitter.  Speedups are not weighted by nodes over GPUs, and a fair share
          lies on as many nodes as it needs.  Large clusters are searched in cells.  A job stays on one type
          of GPU; parts of GPUs and jobs that cannot be changed are not shared out.
          What the authors' simulator does otherwise is `pollux@authors`.
Checked   systems/pollux.md, worked examples 1 to 5
"""

from __future__ import annotations

import math

import numpy as np

from rota.knowledge.needs import Knowledge
from rota.model.columns import Ints
from rota.scheduler.decision import Decision, Memory, Wake
from rota.scheduler.policy import Lever, register
from rota.scheduler.snapshot import Snapshot
from rota.scheduler.targets import GPUS
from rota.systems.pollux.parameters import PolluxParameters
from rota.systems.pollux.policy import PolluxPlan
from rota.systems.pollux.scaling import wanted_nodes
from rota.systems.pollux.speedups import Speedups

PAPER = "Pollux, OSDI 2021"
_SOON_S = 1e-6


@register(
    "pollux",
    "Goodput of all jobs, shared out by a population search",
    paper=PAPER,
    needs={Knowledge.GOODPUT: True},
    levers={
        **dict.fromkeys((Lever.PREEMPT, Lever.RESIZE, Lever.MIGRATE), True),
        Lever.SCALE: lambda p: bool(p.utility),
    },
    parameters=PolluxParameters,
    rotates=True,
)
class Pollux:
    """Searches every interval.

    Memory    `next_s`      moment of the next search
              `searches`    how many there were
              `refused`     per row that the cluster refused to change: see `left_alone`
              `scale_s`     moment of the next look at the number of nodes
              `population`  per cell: rows and matrices with which the next search begins
    """

    def __init__(self, parameters: PolluxParameters | None = None) -> None:
        self.parameters = parameters or PolluxParameters()
        self._speedups: Speedups | None = None

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        rows = np.sort(np.concatenate((snapshot.waiting, snapshot.running)))
        if not len(rows):
            return Decision(memory, wake=Wake(), wanted_nodes=1 if self.parameters.utility else None)
        now, interval_s = snapshot.now, self.parameters.interval_s
        plan = self.plan(snapshot, rows, memory)
        is_due = now >= memory.get("next_s", -math.inf) - _SOON_S
        if is_due:
            memory["next_s"] = now + interval_s
            memory["searches"] = memory.get("searches", 0) + 1
            plan.search(memory)
        plan.start_waiting()
        return Decision(
            memory,
            plan.changed(batches=is_due),
            plan.preempted(),
            wake=Wake(memory["next_s"]),
            reasons=plan.reasons(),
            targets=plan.targets(),
            target=GPUS,
            wanted_nodes=self._wanted_nodes(plan, memory) if is_due else None,
        )

    def _wanted_nodes(self, plan: PolluxPlan, memory: Memory) -> int | None:
        """How many nodes there are to be, when it is time to look at that again."""
        now = plan.snapshot.now
        if not self.parameters.utility or now < memory.get("scale_s", -math.inf) - _SOON_S:
            return None
        memory["scale_s"] = now + self.parameters.scale_s
        return wanted_nodes(plan.snapshot, plan.speedups, plan.models, plan.grants, memory["searches"])

    def plan(self, snapshot: Snapshot, rows: Ints, memory: Memory) -> PolluxPlan:
        """The decision about `rows`, still to be made."""
        return PolluxPlan(snapshot, rows, self.tables(snapshot), memory)

    def tables(self, snapshot: Snapshot) -> Speedups:
        """Tables for the sizes of this cluster, which cache their results."""
        cluster = snapshot.cluster
        node_gpus, gpus = int(cluster.node_gpus.max()), cluster.gpus - len(snapshot.occupancy.down)
        if self._speedups is None or (self._speedups.node_gpus, self._speedups.gpus) != (node_gpus, gpus):
            self._speedups = self.speedups(node_gpus, max(gpus, 1))
        return self._speedups

    def speedups(self, node_gpus: int, gpus: int) -> Speedups:
        """Tables for a cluster of `gpus` on nodes of up to `node_gpus`."""
        return Speedups(self.parameters, node_gpus, gpus)
