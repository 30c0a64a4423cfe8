"""Pre-run: each new job first runs on one GPU of a small pool, so that early failures happen there.

Paper     Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads",
          USENIX ATC 2019, section 5, the third guideline
Decides   which new jobs run in the pool; the inner policy decides all else
Needs     what the inner policy needs
Idea      1. The last `nodes` nodes are the pool; to the inner policy the others are the whole cluster.
          2. A new job waits for one GPU of the pool, in order of arrival, whatever size it asks for.
          3. If it has not failed after `for_s` seconds, it leaves the pool and waits for its gang.
Departs   The study proposes the pool without figures: those here are inferred. A failure within `for_s` is
          assumed to come on one GPU as soon as on the gang. Work in the pool counts as far as the job's
          checkpoint does. A job that fails in the pool is tried there again.
          Jobs that no GPU of the pool suits, and jobs of tenants with a hard quota, skip the pool. So do
          all jobs while some job needs nodes of the pool because the others could not hold it.
Checked   systems/philly.md, worked examples 4 and 5; a generated month of jobs (docs/philly.md)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from rota.knowledge.needs import Knowledge
from rota.model.grants import Grant
from rota.model.jobs import JobTable
from rota.scheduler.policy import Lever, PolicySpec, levers_of, parse_inner, register
from rota.stages.fit import Fitter
from rota.stages.place import Place, packed
from rota.stages.set_apart import SetApart
from rota.table.occupancy import Occupancy


@dataclass(frozen=True)
class PreRunParameters:
    """Parameters of `prerun`."""

    policy: str = "philly"
    """Policy of the jobs that have passed; its parameters stand in brackets, as in `fifo[skip=yes]`."""
    nodes: int = 1
    """Nodes of the pool, the last ones of the cluster; a cluster without further nodes has no pool."""
    for_s: float = 180.0
    """How long a job that does not fail stays in the pool (inferred)."""
    least_gpus: int = 1
    """Jobs of fewer GPUs wait for them at once."""

    @property
    def inner(self) -> PolicySpec:
        """The policy of the jobs that have passed."""
        return parse_inner(self.policy)


_OWN = {Lever.PREEMPT, Lever.RESIZE}


def _pulls(inner: PolicySpec, lever: Lever) -> bool:
    return lever in _OWN or lever in levers_of(inner.make())


@register(
    "prerun",
    "New jobs run on one GPU of a small pool first, to fail early; then any policy",
    paper="Jeon et al., ATC 2019",
    needs={kind: lambda p, kind=kind: kind in p.inner.make().needs for kind in Knowledge},
    levers={lever: lambda p, lever=lever: _pulls(p.inner, lever) for lever in Lever},
    parameters=PreRunParameters,
    work_conserving=False,
    heeds_priority=lambda p: p.inner.heeds_priority,
    heeds_deadlines=lambda p: p.inner.heeds_deadlines,
    heeds_kind=lambda p: p.inner.heeds_kind,
    heeds_weight=lambda p: p.inner.heeds_weight,
    promises=lambda p: p.inner.promises,
    between=lambda p: p.inner.between,
)
class PreRun(SetApart):
    """A pool for new jobs, and a policy for those that have passed."""

    def __init__(self, parameters: PreRunParameters | None = None) -> None:
        self.parameters = p = parameters or PreRunParameters()
        super().__init__(
            p.inner.make,
            OnOneGpu(p.nodes, p.for_s, p.least_gpus),
            "waits for a GPU of the pool in which new jobs run first",
            "waits for GPUs beside the pool in which new jobs run first",
        )


@dataclass(frozen=True)
class OnOneGpu:
    """Each new job on one GPU, however many it asks for; there is no pool while some job needs its nodes."""

    nodes: int
    for_s: float
    least_gpus: int
    patience_s: float = math.inf
    again: bool = True
    lifts: bool = True
    place: Place = packed

    def wants(self, jobs: JobTable, row: int) -> bool:
        return bool(jobs.gpus.item(row) >= max(self.least_gpus, 1))

    def grant(self, fit: Fitter, occupancy: Occupancy, row: int) -> Grant | None:
        for type_code in range(len(fit.cluster.type_names)):
            grant = fit.on_type(occupancy, row, type_code, gpus=1)
            if grant is not None:
                return grant
        return None

    def length_s(self, gpus: int) -> float:
        return self.for_s
