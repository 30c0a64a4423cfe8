"""Shortest remaining service first as Tiresias' simulator sorts it: `srsf@tiresias`.

Paper     Gu et al., "Tiresias: A GPU Cluster Manager for Distributed Deep Learning", NSDI 2019 (its baseline)
Decides   order, preemption
Needs     durations
Idea      1. SymbioticLab/Tiresias, `simulator/run_sim.py` (`shortest-gpu`), sorts one list at every event.
          2. Jobs with equal keys keep the order of the last sort, not that of submission.
Departs   Nothing is known to differ.
Checked   all 2,456 jobs of two traces end in the same second (docs/fidelity.md)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rota.published.registration import register_like
from rota.scheduler.decision import Decision, Memory, Wake
from rota.scheduler.snapshot import Snapshot
from rota.stages.place import Placement
from rota.stages.priority import ByPriority, Drift, Key
from rota.systems.srsf.system import remaining_gpu_s


@dataclass(frozen=True)
class SortedListParameters:
    """Parameters of `srsf@tiresias`."""

    placement: Placement = Placement.CONSOLIDATE
    """Where on the cluster."""


@register_like(
    "srsf",
    "srsf@tiresias",
    "Shortest remaining GPU-time first, with the ties of Tiresias' simulator",
    parameters=SortedListParameters,
)
class SrsfOfTiresias:
    """Shortest remaining service first, along one list."""

    def __init__(self, parameters: SortedListParameters | None = None) -> None:
        self.parameters = p = parameters or SortedListParameters()
        self.inner = LastingOrder(
            remaining_gpu_s, preemptive=True, drifts=Drift.RUNNING, placement=p.placement
        )

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        return self.inner.decide(snapshot, memory)


class LastingOrder(ByPriority):
    """One list of jobs, sorted at every event: jobs with equal keys keep the order of the last sort.

    Memory    `order`  the list; new jobs join at its end
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
