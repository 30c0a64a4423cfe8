"""Shortest remaining service first: preempt for whoever needs the fewest GPU-seconds more.

Paper     Gu et al., "Tiresias: A GPU Cluster Manager for Distributed Deep Learning", NSDI 2019 (its baseline)
Decides   order, preemption
Needs     durations
Idea      1. The key of a job is its remaining run time times the GPUs it asked for.
          2. At each event the running set is rebuilt along the key; what does not fit is skipped.
Departs   -
Checked   systems/tiresias.md, example 1; authors' `shortest-gpu`: 2,454 of 2,456 jobs end in the same second,
          the other two after a tie (docs/fidelity.md)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rota.policies.srtf import remaining_s
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.needs import Knowledge
from rota.scheduler.policy import Lever, register
from rota.scheduler.snapshot import Snapshot
from rota.scheduler.stages.place import Placement
from rota.scheduler.stages.priority import ByPriority


@dataclass(frozen=True)
class SrsfParameters:
    """Parameters of `srsf`."""

    placement: Placement = Placement.CONSOLIDATE
    """Where on the cluster."""


def remaining_gpu_s(snapshot: Snapshot, rows: Any) -> Any:
    """GPU-seconds left at the requested allocation."""
    return remaining_s(snapshot, rows) * snapshot.jobs.gpus[rows]


@register(
    "srsf",
    "Shortest remaining GPU-time first, preemptive",
    paper="NSDI 2019",
    needs={Knowledge.DURATION},
    levers={Lever.PREEMPT},
    parameters=SrsfParameters,
)
class Srsf:
    """Shortest remaining service first."""

    needs = frozenset({Knowledge.DURATION})

    def __init__(self, parameters: SrsfParameters | None = None) -> None:
        p = parameters or SrsfParameters()
        self.inner = ByPriority(remaining_gpu_s, preemptive=True, drifts=True, placement=p.placement)

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        return self.inner.decide(snapshot, memory)
