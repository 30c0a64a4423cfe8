"""Goodput by size: the best batch of each job on many numbers of nodes and GPUs, and what it is worth.

Pollux and Sia need this for every job at every decision.  What batches a job compares depends on its limits
alone, how fast its steps are on its fit alone, and both are remembered; when the noise of its gradient
changes only the efficiency of each batch is computed again, and when nothing changes, nothing is.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from rota.knowledge.goodput import CEILING, SIZES
from rota.knowledge.step_fit import gradient_and_sync
from rota.model.columns import Floats, Ints

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class BestBatches(NamedTuple):
    """The best batches of one job [size], or of many [job, size]."""

    goodput: Floats
    """Examples at M0 per second; 0 where it cannot run."""
    local: Ints
    """Examples of one GPU in one pass, m; 0 where it cannot run."""
    passes: Ints
    """Passes accumulated before the one that ends in a step, s."""


class _Batches(NamedTuple):
    """The batches that jobs with the same limits compare, [size, batch]."""

    local: Floats
    passes: Floats
    total: Floats
    """Examples of a step, M."""
    is_allowed: Floats
    """1, or 0 for a batch that is too small or too large."""


class GoodputSizes:
    """Best batches on fixed numbers of nodes and GPUs, remembered by fit, limits and noise."""

    def __init__(self, nodes: Ints, gpus: Ints, *, clips: bool = True, remembers: int = 4096) -> None:
        """Sizes [size] as `nodes` and `gpus`.

        `clips`: a local batch beyond its limits is brought within; otherwise (Pollux's artifact) it is not
        considered.  `remembers` is the approximate number of fits that are kept.
        """
        self.nodes, self.gpus = np.asarray(nodes, np.int64), np.asarray(gpus, np.int64)
        self.clips = clips
        self._batches: _Recent[bytes, _Batches] = _Recent(remembers)
        self._speeds: _Recent[bytes, Floats] = _Recent(remembers)
        self._best: _Recent[tuple[bytes, float], BestBatches] = _Recent(4 * remembers)

    def best(self, fits: Floats, limits: Floats, noises: Floats) -> BestBatches:
        """For jobs with `fits` [job, 7] and `limits` [job, 5] of `goodput_table`; NaN fits cannot run.

        `noises` [job] are noise scales in examples; infinite if a larger batch loses nothing.
        """
        fits, limits = np.ascontiguousarray(fits, float), np.ascontiguousarray(limits, float)
        rows = [self.of(*each) for each in zip(fits, limits, np.asarray(noises).tolist(), strict=True)]
        size = len(self.gpus)
        if not rows:
            return BestBatches(np.zeros((0, size)), np.zeros((0, size), int), np.zeros((0, size), int))
        return BestBatches(*(np.array(column) for column in zip(*rows, strict=True)))

    def of(self, fit: Floats, limits: Floats, noise: float) -> BestBatches:
        """For one job: `fit` [7], `limits` [5]; read-only."""
        key = fit.tobytes() + limits.tobytes()
        best = self._best.get((key, noise))
        if best is None:
            best = self._choose(fit, limits, noise, key)
            self._best.put((key, noise), best)
        return best

    def _choose(self, fit: Floats, limits: Floats, noise: float, key: bytes) -> BestBatches:
        batches = self._batches_of(limits)
        speeds = self._speeds.get(key)
        if speeds is None:
            speeds = self._speed(fit, batches)
            self._speeds.put(key, speeds)
        inverse = min(1.0 / noise, 1e200) if noise > 0.0 else 1e200
        goodput = speeds * ((1.0 + limits[0] * inverse) / (1.0 + batches.total * inverse))
        each = np.arange(len(self.gpus)), goodput.argmax(axis=1)
        best = goodput[each]
        runs = best > 0.0
        local, passes = (np.where(runs, of[each], 0.0).astype(np.int64) for of in batches[:2])
        return BestBatches(best, local, passes)

    def _speed(self, fit: Floats, batches: _Batches) -> Floats:
        """Examples per second [size, batch]; 0 where it cannot run."""
        if np.isnan(fit).any():
            return np.zeros(batches.total.shape)
        nodes, gpus, gamma = self.nodes[:, None], self.gpus[:, None], fit[6]
        gradient, sync = gradient_and_sync(fit, nodes, gpus, batches.local)
        last = gradient * (1.0 + (sync / gradient) ** gamma) ** (1.0 / gamma)
        speed: Floats = batches.is_allowed * batches.total / (last + batches.passes * gradient)
        return speed

    def _batches_of(self, limits: Floats) -> _Batches:
        batches = self._batches.get(limits.tobytes())
        if batches is None:
            batches = self._compared(limits)
            self._batches.put(limits.tobytes(), batches)
        return batches

    def _compared(self, limits: Floats) -> _Batches:
        """The batches of `BatchLimits.choices`, for all sizes at once."""
        initial, most, local_least, local_most, accumulates = limits.tolist()
        gpus = self.gpus[:, None].astype(float)
        least = np.maximum(initial, local_least * gpus)
        fits = least <= most
        wanted = np.geomspace(np.minimum(least, most)[:, 0], most, SIZES, axis=1)
        local = wanted / gpus
        passes = np.zeros(local.shape)
        if accumulates:
            passes = np.maximum(np.ceil(local / local_most - CEILING) - 1.0, 0.0)
            passes = np.where((gpus == 1) & (local > initial + CEILING), np.maximum(passes, 1.0), passes)
        else:
            local = np.where(gpus == 1, initial, local)
        each = np.ceil(local / (passes + 1.0) - CEILING)
        within = np.clip(each, local_least, local_most)
        is_allowed = fits & (gpus * within * (passes + 1.0) >= initial)
        if not self.clips:
            is_allowed &= within == each
        total = gpus * within * (passes + 1.0)
        return _Batches(within, passes, total, is_allowed.astype(float))


class _Recent(Generic[_K, _V]):
    """Recently used values: at least the last `many`, at most twice as many."""

    def __init__(self, many: int) -> None:
        self._many = many
        self._new: dict[_K, _V] = {}
        self._old: dict[_K, _V] = {}

    def get(self, key: _K) -> _V | None:
        value = self._new.get(key)
        if value is None and (value := self._old.get(key)) is not None:
            self.put(key, value)
        return value

    def put(self, key: _K, value: _V) -> None:
        if len(self._new) >= self._many:
            self._old, self._new = self._new, {}
        self._new[key] = value
