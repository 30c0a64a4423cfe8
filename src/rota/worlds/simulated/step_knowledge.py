"""What policies can know in a world of measured step times: curves by number of GPUs, and work left."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rota.knowledge.given import Provides
from rota.knowledge.needs import Knowledge, Provenance, Table
from rota.knowledge.step_tables import MeasuredWorkload, StepTable, whole_nodes
from rota.model.columns import Ints
from rota.table.state import State


@dataclass(frozen=True)
class StepClass:
    """A class of jobs: one workload with one batch size on one number of GPUs, at its fastest."""

    workload: MeasuredWorkload
    times: StepTable
    batch: float
    gpus: int
    goodputs: Sequence[float]
    """Examples at M0 per second in each epoch, on the GPUs it asks for."""

    @cached_property
    def after_s(self) -> list[float]:
        """Seconds from the end of each epoch until it is done, on the GPUs it asks for."""
        lengths = np.diff(self.workload.epochs.ends) / np.array(self.goodputs[1:])
        after: list[float] = np.append(np.cumsum(lengths[::-1])[::-1], 0.0).tolist()
        return after

    def left_s(self, done: float, epoch: int) -> float:
        """Seconds until it is done from within an epoch, on the GPUs it asks for."""
        ahead = max(self.workload.epochs.ends[epoch] - done, 0.0)
        return ahead / self.goodputs[epoch] + self.after_s[epoch]


def step_scaling(classes: Sequence[StepClass], of_row: Ints, node_gpus: int, most: int) -> Table:
    """Steps per second on 0, 1, ..., `most` GPUs, on as few nodes as these need, dips and all.

    Flat from where a GPU would have less of the batch than was measured.
    """
    rates = np.zeros((len(classes), most + 1))
    for curve, one in zip(rates, classes, strict=True):
        for gpus in range(1, most + 1):
            batch = one.workload.split(one.times, gpus, one.batch)
            fits = gpus * one.times.local_least <= one.batch
            seconds = one.times.at(whole_nodes(gpus, node_gpus), batch.local).of(batch) if fits else math.nan
            if not seconds > 0.0:
                curve[gpus:] = curve[gpus - 1]
                break
            curve[gpus] = 1.0 / seconds
    asked = np.array([rates[code, min(one.gpus, most)] for code, one in enumerate(classes)])
    unit = np.where(asked > 0.0, asked, 1.0)[of_row]
    return Table({"curve": of_row.copy(), "unit": unit}, {"rates": rates})


class StepConvergence(Provides):
    """What is left of each job, by the epochs that were measured."""

    learns = True

    def __init__(self, classes: Sequence[StepClass], of_row: Ints) -> None:
        rows = len(of_row)
        self.left_s = np.full(rows, math.nan)
        self.steps = np.full(rows, math.nan)
        columns = {"left_s": self.left_s, "steps": self.steps, "points": np.full(rows, math.inf)}
        super().__init__(Knowledge.CONVERGENCE, Provenance.ORACLE, Table(columns))
        self._class: list[int] = of_row.tolist()
        self._classes = classes
        self._steps = [steps_after(one.workload, one.batch) for one in classes]
        self._state: State | None = None

    def attach(self, state: State) -> None:
        self._state = state

    def known(self) -> Table:
        state = self._state
        if state is not None:
            rows = np.concatenate((state.running.rows, state.waiting.rows))
            for row, done in zip(rows.tolist(), state.progress.done(rows, state.now).tolist(), strict=True):
                one, steps = self._classes[self._class[row]], self._steps[self._class[row]]
                epoch = min(bisect_right(one.workload.epochs.ends, done), len(steps) - 1)
                self.steps[row] = steps[epoch]
                self.left_s[row] = one.left_s(done, epoch)
        assert isinstance(self.values, Table)
        return self.values


def steps_after(workload: MeasuredWorkload, batch: float) -> list[float]:
    """Steps left when each epoch is over, at least 1; by the authors' reckoning."""
    epochs = workload.epochs
    ends = [epochs.steps_at(batch, epoch) for epoch in range(len(epochs))]
    return [ends[-1] - end for end in ends[:-1]] + [1.0]
