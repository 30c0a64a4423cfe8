"""Measurements of a workload: seconds of a step by how its GPUs lie, and progress by epoch.

The truth of the simulators of Pollux (OSDI 2021) and Sia (SOSP 2023), whose authors profiled six programs on
their clusters.  A step takes as long as was measured for the same GPUs on each node; for unmeasured shapes it
is interpolated in nodes, GPUs and local batch.  Statistics of the gradient are by epoch and batch size, and
linear between the sizes measured.  `rota.knowledge.goodput` has the formulas and the units.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from rota.knowledge.goodput import BatchSplit, Noise
from rota.model.columns import Floats

MOST_NODES = 16
"""More nodes than were measured count as this number."""
_CEILING = 1e-8
"""Tolerance of roundings up, as in the authors' code."""


class StepSeconds(NamedTuple):
    """Seconds of one pass that ends in a step, and of the part of them that synchronising takes."""

    step_s: float
    sync_s: float

    def of(self, batch: BatchSplit) -> float:
        """Seconds of a step with all its passes: only the last one synchronises."""
        return self.step_s + (self.step_s - self.sync_s) * batch.accumulated


_UNKNOWN = StepSeconds(math.nan, math.nan)


def shape_of(parts: Iterable[int]) -> tuple[int, ...]:
    """GPUs on each node, as tables name them: the ring of nodes, turned so that it is smallest.

    Ranks are dealt from the node with most GPUs on, as the authors' greedy placements do.
    """
    ring = sorted(parts, reverse=True)
    return min(tuple(ring[i:] + ring[:i]) for i in range(len(ring)))


def whole_nodes(gpus: int, node_gpus: int) -> tuple[int, ...]:
    """GPUs on each node if as few nodes as possible are used."""
    full, rest = divmod(gpus, node_gpus)
    return (node_gpus,) * full + ((rest,) if rest else ())


class StepTable:
    """Seconds of a step on one type of GPU."""

    def __init__(self, by_shape: Mapping[tuple[int, ...], Floats], beyond: Floats) -> None:
        """`by_shape`: rows of local batch, step and synchronising seconds.

        `beyond`: rows of nodes, GPUs, local batch, step and synchronising seconds, for all other shapes.
        """
        self.by_shape = {shape: rows[rows[:, 0].argsort(kind="stable")] for shape, rows in by_shape.items()}
        self.beyond = beyond
        sizes = np.concatenate([rows[:, 0] for rows in self.by_shape.values()])
        self.local_least = int(sizes.min())
        self.local_most = int(sizes.max())
        self._known: dict[tuple[tuple[int, ...], int], StepSeconds] = {}

    def at(self, parts: Sequence[int], local: int) -> StepSeconds:
        """Seconds with `parts` GPUs on each node and `local` examples on each GPU; NaN outside the measured
        range."""
        key = shape_of(parts), local
        if key not in self._known:
            self._known[key] = self._look_up(*key)
        return self._known[key]

    def _look_up(self, shape: tuple[int, ...], local: int) -> StepSeconds:
        rows = self.by_shape.get(shape)
        if rows is None:
            place = [min(len(shape), MOST_NODES), sum(shape), local]
            step_s, sync_s = self._between(place)[0].tolist()
            return StepSeconds(step_s, sync_s)
        if not rows[0, 0] <= local <= rows[-1, 0]:
            return _UNKNOWN
        return StepSeconds(*(float(np.interp(local, rows[:, 0], rows[:, i])) for i in (1, 2)))

    def most_on(self, shape: tuple[int, ...]) -> int:
        """Largest measured batch of one GPU with these GPUs on each node, or with at least as many."""
        rows = self.by_shape.get(shape)
        if rows is None:
            large = (self.beyond[:, 0] >= len(shape)) & (self.beyond[:, 1] >= sum(shape))
            return int(self.beyond[large, 2].max(initial=0.0)) or self.local_most
        return int(rows[-1, 0])

    def most_of(self, gpus: int) -> int:
        """Largest batch of one GPU that was measured with `gpus` GPUs, however they lie."""
        sizes = [int(rows[-1, 0]) for shape, rows in self.by_shape.items() if sum(shape) == gpus]
        return max(sizes, default=self.local_most)

    def alone(self) -> float:
        """Examples per second of one GPU, as Sia's authors take them: largest batch over longest step."""
        rows = self.by_shape[(1,)]
        return float(rows[:, 0].max() / rows[:, 1].max())

    def prepare(self) -> None:
        """Prepare for shapes that were not measured: interpolation takes a while to set up."""
        if len(self.beyond):
            self._between([1, 1, self.local_least])

    @cached_property
    def _between(self) -> Any:
        """Linear interpolation of the measurements, over the tetrahedra of their Delaunay triangulation.

        NaN everywhere if there are none: measured on one number of nodes only, say.
        """
        from scipy.interpolate import LinearNDInterpolator
        from scipy.spatial import QhullError

        groups: dict[tuple[float, ...], list[Floats]] = {}
        for shape, rows in self.by_shape.items():
            for local, *seconds in rows.tolist():
                groups.setdefault((len(shape), sum(shape), local), []).append(np.array(seconds))
        points = [(*key, *np.mean(groups[key], axis=0).tolist()) for key in sorted(groups)]
        table = np.concatenate((np.array(points), self.beyond))
        try:
            return LinearNDInterpolator(table[:, :3], table[:, 3:])
        except QhullError:
            return _nowhere


def _nowhere(place: Sequence[float]) -> Floats:
    """Step and synchronising seconds of a place outside of all measurements: NaN."""
    return np.full((1, 2), math.nan)


@dataclass(frozen=True)
class EpochTable:
    """What every epoch of a workload needs and achieves, by batch size."""

    sizes: Floats
    """Batch sizes that were measured, ascending, [size]."""
    progress: Floats
    """Progress at the end of each epoch, in steps at the smallest size, [epoch]."""
    steps: Floats
    """Steps done when each epoch ends, [size, epoch]."""
    sqr: Floats
    """Squared norm of the mean gradient, [size, epoch]."""
    var: Floats
    """Trace of its covariance, [size, epoch]."""

    def __len__(self) -> int:
        return len(self.progress)

    @property
    def initial(self) -> int:
        """M0: the smallest size, with which progress is counted."""
        return int(self.sizes[0])

    @property
    def most(self) -> int:
        return int(self.sizes[-1])

    @cached_property
    def ends(self) -> list[float]:
        """Progress at the end of each epoch, in examples at M0; the last goes on for ever."""
        ends: list[float] = (self.progress * self.initial).tolist()
        return ends

    def noise(self, batch: float, epoch: int) -> Noise:
        """Statistics of the gradient in an epoch with a batch of this size."""
        if batch not in self._noises:
            each = (_between(self.sizes, of, batch).tolist() for of in (self.sqr, self.var))
            self._noises[batch] = [Noise(sqr, var) for sqr, var in zip(*each, strict=True)]
        return self._noises[batch][epoch]

    @cached_property
    def _noises(self) -> dict[float, list[Noise]]:
        """The statistics of each epoch, by batch size."""
        return {}

    def steps_at(self, batch: float, epoch: int) -> float:
        """Steps with a batch of this size until the end of an epoch, the first being 0."""
        return float(np.interp(batch, self.sizes, self.steps[:, epoch]))


def _between(sizes: Floats, values: Floats, size: float) -> Floats:
    """Rows of `values` [size, ...] on a straight line between two sizes; beyond all, that of the last."""
    above = min(int(np.searchsorted(sizes, size)), len(sizes) - 1)
    below = above - 1 if above and size < sizes[above] else above
    part = (size - sizes[below]) / (sizes[above] - sizes[below]) if below < above else 0.0
    between: Floats = values[below] + part * (values[above] - values[below])
    return between


@dataclass(frozen=True)
class MeasuredWorkload:
    """All that was measured of one program."""

    epochs: EpochTable
    times: Mapping[str, StepTable]
    """Step times by GPU type, in lower case; `*` for all others."""
    local_most: int | None = None
    """Largest batch of one GPU in one pass, if it is less than the largest that was measured."""
    slower: float = 1.0
    """How many times longer everything takes than was measured of its steps (Sia's calibration)."""

    def times_on(self, gpu_type: str) -> StepTable | None:
        """Times on one type of GPU; None if it cannot run there."""
        return self.times.get(gpu_type.casefold(), self.times.get("*"))

    def most_on(self, times: StepTable) -> int:
        """Largest batch of one GPU in one pass."""
        return times.local_most if self.local_most is None else self.local_most

    def split(self, times: StepTable, gpus: int, wanted: float) -> BatchSplit:
        """The batch of about `wanted` examples on `gpus` GPUs.

        One GPU takes two passes for more than M0, since the noise of a gradient shows only between batches.
        """
        local = math.ceil(wanted / gpus - _CEILING)
        more = max(math.ceil(local / self.most_on(times) - _CEILING) - 1, 0)
        if gpus == 1 and wanted > self.epochs.initial:
            more = max(more, 1)
        each = math.ceil(local / (more + 1) - _CEILING)
        return BatchSplit(min(each, int(self.epochs.most / (gpus * (more + 1)))), more)

    def usual(self, times: StepTable, gpus: int) -> float:
        """The batch size of a job that neither asks for one nor knows its speed."""
        return max(self.epochs.initial, times.local_least * gpus)

    def goodput(self, seconds: StepSeconds, gpus: int, batch: BatchSplit, epoch: int) -> float:
        """Examples at M0 per second in an epoch; NaN where unmeasured."""
        total = batch.total(gpus)
        gain = self.epochs.noise(total, epoch).gain(total, self.epochs.initial)
        return gain * self.epochs.initial / (seconds.of(batch) * self.slower)


@dataclass(frozen=True)
class StepTables:
    """Measured workloads by name."""

    workloads: Mapping[str, MeasuredWorkload]
    source: str = "step times"
    """File they came from, for messages."""
