"""Shortest remaining service first: preempt for whoever needs the fewest GPU-seconds more.

Paper     Gu et al., "Tiresias: A GPU Cluster Manager for Distributed Deep Learning", NSDI 2019 (its baseline)
Decides   order, preemption
Needs     durations
Idea      1. The key of a job is its remaining run time times the GPUs it asked for.
          2. At each event the running set is rebuilt along the key; what does not fit is skipped.
Departs   Equal keys stand in order of submission.  The authors' simulator sorts one list again and again, so
          that they stand as they stood before: `mode=artifact`.
Checked   systems/tiresias.md, example 1; authors' `shortest-gpu`: all 2,456 jobs of two traces end in the
          same second with `mode=artifact`, all but two without (docs/fidelity.md)
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from rota.knowledge.needs import Knowledge
from rota.scheduler.decision import Decision, Memory, Wake
from rota.scheduler.policy import Lever, register
from rota.scheduler.snapshot import Snapshot
from rota.stages.place import Placement
from rota.stages.priority import ByPriority, Drift, Key
from rota.stages.remaining import remaining_s


class SrsfMode(StrEnum):
    """Whose rule for ties."""

    PAPER = "paper"
    ARTIFACT = "artifact"


@dataclass(frozen=True)
class SrsfParameters:
    """Parameters of `srsf`."""

    placement: Placement = Placement.CONSOLIDATE
    """Where on the cluster."""
    mode: SrsfMode = SrsfMode.PAPER
    """Ties by submission, or as the authors' simulator leaves them."""


def remaining_gpu_s(snapshot: Snapshot, rows: Any) -> Any:
    """GPU-seconds left at the requested allocation."""
    gpus = snapshot.gpus_of[rows] if isinstance(rows, int) else snapshot.jobs.gpus[rows]
    return remaining_s(snapshot, rows) * gpus


@register(
    "srsf",
    "Shortest remaining GPU-time first, preemptive",
    paper="NSDI 2019",
    needs={Knowledge.DURATION},
    levers={Lever.PREEMPT, Lever.MIGRATE},
    parameters=SrsfParameters,
)
class Srsf:
    """Shortest remaining service first."""

    def __init__(self, parameters: SrsfParameters | None = None) -> None:
        self.parameters = p = parameters or SrsfParameters()
        inner = ByPriority if p.mode is SrsfMode.PAPER else LastingOrder
        self.inner = inner(remaining_gpu_s, preemptive=True, drifts=Drift.RUNNING, placement=p.placement)

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        return self.inner.decide(snapshot, memory)


class LastingOrder(ByPriority):
    """One list of jobs, sorted at every event: equal keys stay as the last sort left them.

    The list is part of the memory; newcomers join at its end.
    """

    def __init__(self, key: Key, **options: Any) -> None:
        super().__init__(self.rank, **options)
        self.sort_key = key
        self.places: dict[int, int] = {}

    def decide(self, snapshot: Snapshot, memory: Memory, wake: Wake | None = None) -> Decision:
        order = self._sorted(snapshot, memory.get("order", []))
        self.places = {row: place for place, row in enumerate(order)}
        self.forget()  # any place may have changed
        return super().decide(snapshot, memory | {"order": order}, wake or Wake())

    def rank(self, snapshot: Snapshot, rows: Any) -> Any:
        """Place in the list; one row or an array of rows."""
        if isinstance(rows, np.ndarray):
            return np.array([self.places[row] for row in rows.tolist()], dtype=np.float64)
        return self.places[rows]

    def _sorted(self, snapshot: Snapshot, before: list[int]) -> list[int]:
        live = dict.fromkeys([*snapshot.waiting.tolist(), *snapshot.running.tolist()])
        known = [row for row in before if row in live]
        fresh = sorted(live.keys() - set(known))
        return sorted([*known, *fresh], key=lambda row: self.sort_key(snapshot, row))
