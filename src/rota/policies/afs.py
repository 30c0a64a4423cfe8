"""AFS — hand GPUs out one by one, weighing whoever ends first against whoever gains more from them.

Paper     Hwang et al., "Elastic Resource Sharing for Distributed Deep Learning", NSDI 2021
Decides   order, number of GPUs, preemption
Needs     speed of each job by number of GPUs; AFS-L (`lengths=yes`) the duration as well
Idea      1. Of two jobs that could have one more GPU, a ends first and b later (at their present shares).
          2. a gets it if (p_a' - p_a) / p_a > (p_b' - p_b) / p_b', p being speed: the GPU goes on to b when a
             is done, which is why the two gains are measured against different speeds.
          3. All GPUs are handed out by tournaments of this rule, at each arrival and completion.
Departs   AFS-P (`lengths=no`) takes the job with less GPU time received for the one that ends first: our
          reading, the paper's text was not at hand.  A job that was resized is not grown again for a minute
          (ours).  Sizes between which a job must jump are compared by gain per GPU (ours).  The cluster is
          taken to be of one type: on several a job gets the first type on which its share fits.  A job that
          would lose its work by it is not resized, and one that bears no stop keeps what it has (ours).
Checked   systems/afs.md, worked examples 1 to 5; 6 (a resize that overlaps with training) is left to
          the world, which charges a resize as a pause
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rota.knowledge.needs import Knowledge
from rota.knowledge.scaling import curves_of, rates_on
from rota.model.columns import Bools, Ints
from rota.model.grants import Can, Code, Constraint
from rota.scheduler.decision import Decision, Memory, Wake
from rota.scheduler.policy import Lever, Status, register
from rota.scheduler.snapshot import Snapshot
from rota.scheduler.stages.remaining import remaining_s
from rota.scheduler.stages.resize import carry_out, feasible_counts
from rota.solvers.one_by_one import Filling, afs

_OUTBID = Constraint(Code.POLICY, detail="others end sooner or gain more from the GPUs it could have")


@dataclass(frozen=True)
class AfsParameters:
    """Parameters of `afs`."""

    lengths: bool = True
    """AFS-L: use durations.  `no` is AFS-P, which goes by GPU time received."""
    min_resize_s: float = 60.0
    """Seconds after a change of its GPUs before a job is grown again."""
    period_s: float = 60.0
    """AFS-P: seconds between two looks at the GPU time received."""


@register(
    "afs",
    "Elastic shares by pairwise comparison, short jobs against efficient ones",
    paper="AFS/CoDDL, NSDI 2021",
    needs={Knowledge.SCALING: True, Knowledge.DURATION: lambda p: p.lengths},
    levers={Lever.PREEMPT, Lever.RESIZE, Lever.MIGRATE},
    status=Status.PROBE,
    parameters=AfsParameters,
)
class Afs:
    """Apathetic future share."""

    def __init__(self, parameters: AfsParameters | None = None) -> None:
        self.parameters = parameters or AfsParameters()

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        rows = np.sort(np.concatenate((snapshot.waiting, snapshot.running)))
        rows = rows[(snapshot.jobs.gpus[rows] > 0) & ~self._stays(snapshot, rows)]
        fresh = self._fresh(snapshot, rows)
        shares = dict(zip(rows.tolist(), self._shares(snapshot, rows, fresh), strict=True))
        grants, preempt = carry_out(snapshot, shares)
        reasons = {row: _OUTBID for row, share in shares.items() if not share}
        return Decision(memory, grants, preempt, wake=self._wake(snapshot, rows, fresh), reasons=reasons)

    def _shares(self, snapshot: Snapshot, rows: Ints, fresh: Bools) -> list[int]:
        """GPUs for each row."""
        jobs, table = snapshot.jobs, snapshot.jobs.table
        scaling = snapshot.know(Knowledge.SCALING)
        counts: list[tuple[int, ...]] = []
        resizable = (jobs.can(rows) & Can.RESIZE) != 0
        for row, is_fresh, resizes in zip(rows.tolist(), fresh.tolist(), resizable.tolist(), strict=True):
            grant = snapshot.grants.get(row)
            held = None if grant is None else len(grant.devices)
            if held is not None and not resizes:
                counts.append((held,))
            else:
                counts.append(feasible_counts(table, row, held if is_fresh else None))
        least = np.array([count[0] for count in counts], dtype=np.int64)
        most = max((count[-1] for count in counts), default=0)
        filling = Filling(curves_of(scaling, rows, most).tolist(), counts)
        gpus = self._gpus(snapshot, rows)
        if not self.parameters.lengths:
            return filling.fill(gpus, afs(filling, jobs.service_gpu_s(rows).tolist()))
        asked = rates_on(scaling, rows, jobs.gpus[rows])
        left = np.maximum(remaining_s(snapshot, rows), 0.0) * asked
        speed = rates_on(scaling, rows, least)
        alone_s = np.divide(left, speed, out=np.full(len(rows), math.inf), where=speed > 0.0)
        return filling.fill(gpus, afs(filling, alone_s.tolist(), left.tolist()))

    def _stays(self, snapshot: Snapshot, rows: Ints) -> Bools:
        """Running rows that bear no stop of any kind: to ask for one would be to ask for ever."""
        bears = (snapshot.jobs.can(rows) & (Can.SUSPEND | Can.CHECKPOINT | Can.RESIZE)) != 0
        stays: Bools = np.isin(rows, snapshot.running) & ~bears
        return stays

    def _gpus(self, snapshot: Snapshot, rows: Ints) -> int:
        """GPUs to hand out among `rows`: those that work, less what others hold."""
        among = set(rows.tolist())
        others = [len(grant.devices) for row, grant in snapshot.grants.items() if row not in among]
        return max(0, snapshot.cluster.gpus - len(snapshot.occupancy.down) - sum(others))

    def _fresh(self, snapshot: Snapshot, rows: Ints) -> Bools:
        """Rows whose GPUs have changed so recently that they are not to grow."""
        jobs = snapshot.jobs
        runs = np.isin(rows, snapshot.running)
        changed = jobs.since_s[rows] > jobs.first_start_s[rows]
        fresh: Bools = runs & changed & (snapshot.now < jobs.since_s[rows] + self.parameters.min_resize_s)
        return fresh

    def _wake(self, snapshot: Snapshot, rows: Ints, fresh: Bools) -> Wake:
        """At any event, when a job may grow again, and for AFS-P every so often."""
        again = snapshot.jobs.since_s[rows[fresh]] + self.parameters.min_resize_s
        at_s = float(again.min(initial=math.inf))
        if not self.parameters.lengths and len(rows) > 1:
            at_s = min(at_s, snapshot.now + self.parameters.period_s)
        return Wake(at_s)
