"""Shortest remaining time first: preempt for whoever will be done soonest.

Paper     none; the clairvoyant baseline of Tiresias (NSDI 2019), Themis, Gavel and most others
Decides   order, preemption
Needs     durations
Idea      1. The key of a job is its remaining run time at the GPUs it asked for.
          2. At each event the running set is rebuilt along the key; what does not fit is skipped.
Departs   -
Checked   authors' `shortest` in the simulator of Tiresias; `srtf` in those of Helios and Lucid
          (`by_count=yes`), 2,104 of 2,104 jobs each
"""

from __future__ import annotations

from dataclasses import dataclass

from rota.knowledge.needs import Knowledge
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.policy import Lever, register
from rota.scheduler.snapshot import Snapshot
from rota.scheduler.stages.place import Placement
from rota.scheduler.stages.priority import ByPriority
from rota.scheduler.stages.remaining import remaining_s


@dataclass(frozen=True)
class SrtfParameters:
    """Parameters of `srtf`."""

    placement: Placement = Placement.CONSOLIDATE
    """Where on the cluster."""
    by_count: bool = False
    """Choose the running set by counting GPUs; what then finds no place waits (Helios, Lucid)."""


def finish_s(snapshot: Snapshot, row: int) -> float:
    """Moment at which a job that works at full speed will be done."""
    return snapshot.jobs.finish_s(row, snapshot.know(Knowledge.DURATION)[row])


@register(
    "srtf",
    "Shortest remaining time first, preemptive",
    needs={Knowledge.DURATION},
    levers={Lever.PREEMPT},
    parameters=SrtfParameters,
)
class Srtf:
    """Shortest remaining time first."""

    needs = frozenset({Knowledge.DURATION})

    def __init__(self, parameters: SrtfParameters | None = None) -> None:
        p = parameters or SrtfParameters()
        self.inner = ByPriority(
            remaining_s,
            preemptive=True,
            drifts=True,
            finish=finish_s,
            placement=p.placement,
            by_count=p.by_count,
        )

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        return self.inner.decide(snapshot, memory)
