"""Shortest remaining time first: preempt for the job that will be done soonest.

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
from rota.scheduler.snapshot import Snapshot
from rota.stages.place import Placement
from rota.stages.priority import Drift
from rota.stages.priority_policy import Keys, Rows, priority
from rota.stages.remaining import full_speed_finish_s, remaining_s


@dataclass(frozen=True)
class SrtfParameters:
    """Parameters of `srtf`."""

    placement: Placement = Placement.CONSOLIDATE
    """Where on the cluster."""
    by_count: bool = False
    """Choose the running set by counting GPUs; a job that then has no place waits (Helios, Lucid)."""


@priority(
    "srtf",
    "Shortest remaining time first, preemptive",
    needs={Knowledge.DURATION},
    parameters=SrtfParameters,
    preemptive=True,
    drifts=Drift.RUNNING,
    finish=full_speed_finish_s,
)
def srtf(snapshot: Snapshot, rows: Rows) -> Keys:
    """Run time left, in seconds."""
    left_s: Keys = remaining_s(snapshot, rows)
    return left_s
