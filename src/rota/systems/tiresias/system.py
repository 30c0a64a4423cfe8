"""Tiresias — serve first the job that has received least, without knowing durations.

Paper     Gu et al., "Tiresias: A GPU Cluster Manager for Distributed Deep Learning", NSDI 2019
Decides   order, preemption; with `skew`, placement
Needs     nothing about the future; `order=gittins` needs the service of past jobs, `skew` the models' skew
Idea      1. Service received is GPUs times seconds run; a few queues by service, new jobs in the first.
          2. In a queue, running jobs stay ahead of waiting ones, then by start time (LAS), or the job
             likeliest to end soon is first (Gittins index).
          3. On every event the running set is rebuilt queue by queue; jobs that do not fit are skipped.
          4. A job that has waited `promote` times as long as it has run returns to the first queue, with the
             rights of one that runs there; so does one that would be stopped after such a wait.
          5. Only models with a skewed tensor-size distribution suffer from being spread out, so only they
             are consolidated, under one switch (and wait until they can be); the others fill fragments.
Departs   Queue limits default to the authors' simulator, not to the paper's testbed.  The paper orders a
          queue by start time and leaves open whether a running job gives way to a waiting one of its queue:
          by default it does not, as in the authors' simulator (`order=first-start` is the literal reading).
          A job without progress since its last promotion has twice the limits from then on (ours).
          `pack_limit` is a constant, not re-learned; skew comes from the model's name, not from a profiled
          first run; the switch is the lowest level above the nodes, and a job larger than any goes to the
          fewest nodes of all.  What published simulators do otherwise is `tiresias@authors` and others.
Checked   systems/tiresias.md, examples 1 to 6; equals a twin that looks every second on 300 random workloads
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from rota.errors import InputError
from rota.knowledge.needs import Knowledge
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.policy import Lever, register
from rota.scheduler.snapshot import Snapshot
from rota.stages.levels import ServiceMetric
from rota.stages.place import Placement
from rota.stages.priority import Drift
from rota.systems.tiresias.policy import DiscretisedQueues, GittinsQueues


class Order(StrEnum):
    """Order inside a queue."""

    LAS = "las"  # running jobs first, then the first start
    FIRST_START = "first-start"  # the first start, whether it runs or waits
    GITTINS = "gittins"  # largest Gittins index first


@dataclass(frozen=True)
class TiresiasParameters:
    """Parameters of `tiresias`."""

    limits: tuple[float, ...] = (3250.0, 7200.0)
    """Service at which a job leaves each queue but the last (GPU-seconds, or seconds with `metric=time`)."""
    order: Order = Order.LAS
    """2D-LAS, with running jobs ahead in their queue or not, or 2D-Gittins."""
    metric: ServiceMetric = ServiceMetric.GPU_TIME
    """Service in GPU-seconds, or in seconds run."""
    promote: float = 0.0
    """PROMOTEKNOB: waiting time over run time at which a job returns to the first queue; 0 means never."""
    skew: bool = False
    """Consolidate models with a skew above `pack_limit`, under one switch, and no others."""
    pack_limit: float = 0.3
    """PACKLIMIT: largest tensor over all tensors of a model."""
    placement: Placement = Placement.CONSOLIDATE
    """Where on the cluster, without `skew`."""

    def __post_init__(self) -> None:
        if not all(0.0 < a < b for a, b in zip(self.limits, (*self.limits[1:], math.inf), strict=True)):
            text = "/".join(f"{limit:g}" for limit in self.limits)
            raise InputError(f"policy 'tiresias': limits={text} do not rise; expected such as 3250/7200")
        for name in ("promote", "pack_limit"):
            if not 0.0 <= getattr(self, name) < math.inf:
                raise InputError(f"policy 'tiresias': {name}={getattr(self, name):g}; expected 0 or more")


@register(
    "tiresias",
    "Least attained service or Gittins index, in a few queues",
    paper="NSDI 2019",
    needs={
        Knowledge.SERVICE_HISTORY: lambda p: p.order is Order.GITTINS,
        Knowledge.SKEW: lambda p: p.skew,
    },
    levers={Lever.PREEMPT, Lever.MIGRATE},
    parameters=TiresiasParameters,
)
class Tiresias:
    """Discretised two-dimensional attained service."""

    def __init__(self, parameters: TiresiasParameters | None = None) -> None:
        self.parameters = p = parameters or TiresiasParameters()
        gittins = p.order is Order.GITTINS
        queues = GittinsQueues if gittins else DiscretisedQueues
        self.inner = queues(
            p.limits,
            p.metric,
            p.promote,
            keeps_running=p.order is Order.LAS,
            placement=Placement.PACKED if p.skew else p.placement,
            pack_limit=p.pack_limit if p.skew else None,
            drifts=Drift.RUNNING if gittins else Drift.NEVER,
        )

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        return self.inner.decide(snapshot, memory)
