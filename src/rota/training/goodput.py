"""The batch size with the best goodput on the workers of a job (Pollux, OSDI 2021, sections 3 and 4.1).

Goodput is samples per second × statistical efficiency, (noise scale + M0) / (noise scale + M) for a batch of
M samples and the batch M0 that the job was submitted with. The seconds of a step are modelled as a linear
function of the samples of one worker, fitted to measurements with equal numbers of nodes and workers. If only
one batch size was measured there, the slope is that of other numbers of workers. If nothing else was
measured, half of the step is taken to grow with the batch (the paper's prior).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

SIZES = 50
"""Number of batch sizes that are compared, spaced geometrically."""
CEILING = 1e-8
"""Tolerance for rounding errors."""
BETTER = 1.05
"""Factor of goodput that another batch size has to promise for a change."""
WINDOW = 50
"""Approximate number of steps that a mean step time covers."""


def gain(batch: float, initial: float, noise: float | None) -> float:
    """Steps at `initial` samples that one with `batch` is worth; AdaScale's learning rate factor.

    Without a known noise scale (None) a step with a larger batch counts as one.

    >>> [round(gain(size, 64, 256.0), 4) for size in (64, 128, 512, 1024)]
    [1.0, 1.6667, 3.3333, 4.0]
    """
    if noise is None:
        return min(1.0, batch / initial)
    return batch * (noise + initial) / (initial * (noise + batch)) if noise + batch else 1.0


@dataclass(frozen=True)
class BatchRange:
    """Range of batch sizes that a job may choose from; samples of a step over all workers."""

    initial: float
    """M0, the size submitted with. Smaller sizes are never chosen: their effect on learning is unknown."""
    least: float
    most: float
    local_most: float | None = None
    """Most samples of one worker; None if only `most` limits them."""

    def choices(self, workers: int) -> list[int]:
        """Batch sizes to compare on this number of workers, smallest first, each with equal parts."""
        most = self.most if self.local_most is None else min(self.most, self.local_most * workers)
        first = math.ceil(max(self.initial, self.least, workers) / workers - CEILING)
        last = math.floor(most / workers + CEILING)
        if first > last:
            return []
        step = (last / first) ** (1.0 / (SIZES - 1))
        parts = {min(math.ceil(first * step**number - CEILING), last) for number in range(SIZES)}
        return [part * workers for part in sorted(parts)]


@dataclass
class OwnStepTimes:
    """Measured seconds of a step by nodes, workers and batch."""

    means: dict[tuple[int, int], dict[float, tuple[float, int]]] = field(default_factory=dict)
    """(nodes, workers) -> batch -> (mean seconds, steps)."""

    def add(self, nodes: int, workers: int, batch: float, seconds: float) -> None:
        """Add the measured seconds of a step."""
        sizes = self.means.setdefault((nodes, workers), {})
        mean, count = sizes.get(batch, (0.0, 0))
        count = min(count + 1, WINDOW)
        sizes[batch] = (mean + (seconds - mean) / count, count)

    def line(self, nodes: int, workers: int) -> tuple[float, float] | None:
        """Seconds of a step: a constant, and seconds per sample of one worker; None without measurements."""
        here = self.means.get((nodes, workers))
        if not here:
            return None
        points = _points(here, workers)
        slope = _slope(points)
        if slope is None:
            elsewhere = sorted(self.means.items(), key=lambda one: -len(one[1]))
            slopes = [_slope(_points(sizes, shape[1])) for shape, sizes in elsewhere]
            slope = next((one for one in slopes if one is not None), None)
        weight = sum(count for _, _, count in points)
        mean_s = sum(seconds * count for _, seconds, count in points) / weight
        local = sum(part * count for part, _, count in points) / weight
        if slope is None:
            slope = mean_s / (2.0 * local)
        slope = min(max(slope, 0.0), mean_s / local)
        return mean_s - slope * local, slope

    def plain(self) -> list[list[float]]:
        """The measurements as numbers, for a checkpoint."""
        return [
            [nodes, workers, batch, mean, count]
            for (nodes, workers), sizes in self.means.items()
            for batch, (mean, count) in sizes.items()
        ]

    @classmethod
    def of(cls, plain: list[list[float]]) -> OwnStepTimes:
        """Restore measurements from numbers."""
        times = cls()
        for nodes, workers, batch, mean, count in plain:
            times.means.setdefault((int(nodes), int(workers)), {})[batch] = (mean, int(count))
        return times


def _points(sizes: dict[float, tuple[float, int]], workers: int) -> list[tuple[float, float, int]]:
    """(samples of one worker, seconds, steps) for each batch size."""
    return [(batch / workers, seconds, count) for batch, (seconds, count) in sorted(sizes.items())]


def _slope(points: list[tuple[float, float, int]]) -> float | None:
    """Seconds per sample by weighted least squares; None for fewer than two sizes."""
    weight = sum(count for _, _, count in points)
    if len(points) < 2:
        return None
    local = sum(part * count for part, _, count in points) / weight
    seconds = sum(each * count for _, each, count in points) / weight
    spread = sum(count * (part - local) ** 2 for part, _, count in points)
    return sum(count * (part - local) * (each - seconds) for part, each, count in points) / spread


def goodput(batch: float, workers: int, line: tuple[float, float], initial: float, noise: float) -> float:
    """Goodput in samples per second, weighted to those of the batch `initial`."""
    constant, slope = line
    step_s = constant + slope * batch / workers
    return gain(batch, initial, noise) * initial / step_s if step_s > 0.0 else 0.0


def best_batch(
    limits: BatchRange, times: OwnStepTimes, nodes: int, workers: int, batch: float, noise: float | None
) -> float:
    """The batch size to continue with on these nodes and workers; it changes only for 5 % more goodput."""
    line = times.line(nodes, workers)
    choices = limits.choices(workers)
    if line is None or noise is None or not choices:
        return batch
    worth = [goodput(size, workers, line, limits.initial, noise) for size in choices]
    most = max(worth)
    best = choices[worth.index(most)]
    inside = max(limits.initial, limits.least) <= batch <= choices[-1]
    now = goodput(batch, workers, line, limits.initial, noise)
    return best if most > BETTER * now or not inside else batch
