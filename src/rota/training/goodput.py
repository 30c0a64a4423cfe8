"""The batch with the best goodput on the workers that a job has (Pollux, OSDI 2021, sections 3 and 4.1).

Goodput is samples per second × statistical efficiency, (noise scale + M0) / (noise scale + M) for a batch of
M samples and the batch M0 that the job was submitted with.  Seconds of a step are a line in the samples of
one worker, through what was measured on as many nodes and workers.  Where one size was measured alone, the
line is as steep as on other workers; where nothing else was, half of the step is taken to grow with the batch
(the paper's prior).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

SIZES = 50
"""Batch sizes that are compared, spaced geometrically."""
CEILING = 1e-8
"""Tolerance of roundings."""
BETTER = 1.05
"""A batch has to promise so much more to be worth a change."""
WINDOW = 50
"""A step time is a mean over about so many steps."""


def gain(batch: float, initial: float, noise: float | None) -> float:
    """Steps at `initial` samples that one with `batch` is worth; AdaScale's factor of the learning rate.

    A step with a larger batch counts as one, no more, while the scale of the noise is not known (None).

    >>> [round(gain(size, 64, 256.0), 4) for size in (64, 128, 512, 1024)]
    [1.0, 1.6667, 3.3333, 4.0]
    """
    if noise is None:
        return min(1.0, batch / initial)
    return batch * (noise + initial) / (initial * (noise + batch)) if noise + batch else 1.0


@dataclass(frozen=True)
class BatchRange:
    """Between which sizes a job may choose; samples of a step over all workers."""

    initial: float
    """M0, the size submitted with: a smaller one is never chosen, for what it is worth is not known."""
    least: float
    most: float
    local_most: float | None = None
    """Most samples of one worker; None if only `most` limits them."""

    def choices(self, workers: int) -> list[int]:
        """Sizes that so many workers compare, smallest first, each with equal parts."""
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
    """Seconds of a step by nodes, workers and batch."""

    means: dict[tuple[int, int], dict[float, tuple[float, int]]] = field(default_factory=dict)
    """(nodes, workers) -> batch -> (mean seconds, steps)."""

    def add(self, nodes: int, workers: int, batch: float, seconds: float) -> None:
        """A step took so long."""
        sizes = self.means.setdefault((nodes, workers), {})
        mean, count = sizes.get(batch, (0.0, 0))
        count = min(count + 1, WINDOW)
        sizes[batch] = (mean + (seconds - mean) / count, count)

    def line(self, nodes: int, workers: int) -> tuple[float, float] | None:
        """Seconds of a step: a constant, and per sample of one worker; None where nothing was measured."""
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
        """As numbers, for a checkpoint."""
        return [
            [nodes, workers, batch, mean, count]
            for (nodes, workers), sizes in self.means.items()
            for batch, (mean, count) in sizes.items()
        ]

    @classmethod
    def of(cls, plain: list[list[float]]) -> OwnStepTimes:
        """From numbers."""
        times = cls()
        for nodes, workers, batch, mean, count in plain:
            times.means.setdefault((int(nodes), int(workers)), {})[batch] = (mean, int(count))
        return times


def _points(sizes: dict[float, tuple[float, int]], workers: int) -> list[tuple[float, float, int]]:
    """(samples of one worker, seconds, steps) of each size."""
    return [(batch / workers, seconds, count) for batch, (seconds, count) in sorted(sizes.items())]


def _slope(points: list[tuple[float, float, int]]) -> float | None:
    """Seconds per sample by weighted least squares; None through fewer than two sizes."""
    weight = sum(count for _, _, count in points)
    if len(points) < 2:
        return None
    local = sum(part * count for part, _, count in points) / weight
    seconds = sum(each * count for _, each, count in points) / weight
    spread = sum(count * (part - local) ** 2 for part, _, count in points)
    return sum(count * (part - local) * (each - seconds) for part, each, count in points) / spread


def goodput(batch: float, workers: int, line: tuple[float, float], initial: float, noise: float) -> float:
    """Samples at `initial` per second."""
    constant, slope = line
    step_s = constant + slope * batch / workers
    return gain(batch, initial, noise) * initial / step_s if step_s > 0.0 else 0.0


def best_batch(
    limits: BatchRange, times: OwnStepTimes, nodes: int, workers: int, batch: float, noise: float | None
) -> float:
    """The batch to go on with on so many nodes and workers: another one if it is better by 5 %."""
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
