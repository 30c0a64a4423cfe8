"""Tiresias as three published simulators carry it out: `tiresias@authors`, `@elasticflow` and `@pollux`.

Paper     Gu et al., "Tiresias: A GPU Cluster Manager for Distributed Deep Learning", NSDI 2019
Decides   order, preemption
Needs     nothing about the future; `order=gittins` needs the service of past jobs
Idea      1. `authors`: SymbioticLab/Tiresias, `simulator/run_sim.py`; `seats.py` lists what differs.
          2. `elasticflow`: the copy of it in pkusys/ElasticFlow, which differs in three more things.
          3. `pollux`: the baseline in petuum/adaptdl (osdi21-artifact); `fifos.py` lists what differs.
Departs   They only count GPUs: placement does not decide which jobs run.
Checked   `authors`: `dlas`, `dlas-gpu`, `dlas-gpu-1` and `dlas-gpu-gittins`, every job of two workloads
          ends in the same second; `pollux`: the same of five workloads (docs/fidelity.md)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from rota.errors import InputError
from rota.knowledge.needs import Knowledge
from rota.published.artifacts.tiresias.fifos import Fifos
from rota.published.artifacts.tiresias.seats import Seats
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.policy import Lever, register
from rota.scheduler.snapshot import Snapshot
from rota.stages.levels import ServiceMetric
from rota.stages.place import Placement

PAPER = "NSDI 2019"


class SimulatorOrder(StrEnum):
    """Order inside a queue."""

    LAS = "las"  # running jobs first, then by place in the list
    GITTINS = "gittins"  # largest Gittins index first


@dataclass(frozen=True)
class PolluxTiresiasParameters:
    """Parameters of `tiresias@pollux`."""

    limits: tuple[float, ...] = (3250.0, 7200.0)
    """Service at which a job leaves each queue but the last (GPU-seconds, or seconds with `metric=time`)."""
    metric: ServiceMetric = ServiceMetric.GPU_TIME
    """Service in GPU-seconds, or in seconds run."""

    def __post_init__(self) -> None:
        if not all(0.0 < a < b for a, b in zip(self.limits, (*self.limits[1:], math.inf), strict=True)):
            text = "/".join(f"{limit:g}" for limit in self.limits)
            raise InputError(f"policy 'tiresias': limits={text} do not rise; expected such as 3250/7200")


@dataclass(frozen=True)
class TiresiasSimulatorParameters(PolluxTiresiasParameters):
    """Parameters of `tiresias@authors` and `tiresias@elasticflow`."""

    order: SimulatorOrder = SimulatorOrder.LAS
    """Discretised least attained service, or the Gittins index."""
    promote: float = 0.0
    """PROMOTEKNOB: waiting time over run time at which a job returns to the first queue; 0 is never."""
    placement: Placement = Placement.CONSOLIDATE
    """Where on the cluster."""
    quantum: float = 3250.0
    """Service ahead that the Gittins index looks at, in all queues (GPU-seconds)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in (("promote", 0.0), ("quantum", 1.0)):
            if not least <= getattr(self, name) < math.inf:
                value = getattr(self, name)
                raise InputError(f"policy 'tiresias': {name}={value:g}; expected {least:g} or more")


_NEEDS = {Knowledge.SERVICE_HISTORY: lambda p: p.order is SimulatorOrder.GITTINS}


@register(
    "tiresias@authors",
    "Tiresias as the authors' simulator carries it out",
    paper=PAPER,
    needs=_NEEDS,
    levers={Lever.PREEMPT, Lever.MIGRATE},
    parameters=TiresiasSimulatorParameters,
)
class TiresiasOfAuthors:
    """Discretised queues as lists, looked at when something happens."""

    is_elasticflow = False

    def __init__(self, parameters: TiresiasSimulatorParameters | None = None) -> None:
        self.parameters = p = parameters or TiresiasSimulatorParameters()
        quantum = p.quantum if p.order is SimulatorOrder.GITTINS else None
        self.inner = Seats(
            p.limits, p.metric, p.promote, quantum, p.placement, elasticflow=self.is_elasticflow
        )

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        return self.inner.decide(snapshot, memory)


@register(
    "tiresias@elasticflow",
    "Tiresias as ElasticFlow's copy of that simulator carries it out",
    paper=PAPER,
    needs=_NEEDS,
    levers={Lever.PREEMPT, Lever.MIGRATE},
    parameters=TiresiasSimulatorParameters,
)
class TiresiasOfElasticFlow(TiresiasOfAuthors):
    """The authors' lists; start-up is not service."""

    is_elasticflow = True


@register(
    "tiresias@pollux",
    "Tiresias as the baseline in Pollux' simulator carries it out",
    paper=PAPER,
    levers={Lever.PREEMPT, Lever.MIGRATE},
    parameters=PolluxTiresiasParameters,
)
class TiresiasOfPollux:
    """Plain queues, first come first served in each."""

    def __init__(self, parameters: PolluxTiresiasParameters | None = None) -> None:
        self.parameters = p = parameters or PolluxTiresiasParameters()
        self.inner = Fifos(p.limits, p.metric)

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        return self.inner.decide(snapshot, memory)
