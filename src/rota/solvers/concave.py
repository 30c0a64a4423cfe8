"""Divides one scarce resource in whole units among many jobs whose gain falls with each unit.

    maximise  Σ_i totals[i, n_i]   subject to   Σ_i sizes[i] n_i <= capacity,   least <= n <= most,   n whole

where totals are concave in n_i: a knapsack whose items come in a fixed order within each job.  Filling it by
gain per size is optimal except for the last item, and the relaxation's gain over that bounds how far from it
an optimum can be (Pisinger's core of a knapsack); within that distance a table over the capacity finds it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rota.model.columns import Bools, Floats, Ints

CELLS = 2_000_000
"""Cells that the table of the core may have: one addition each, a few milliseconds in all."""


class Amounts(NamedTuple):
    """How much each item gets."""

    counts: Ints
    value: float
    bound: float
    """No amounts are worth more; equal to `value` (but for rounding) if they are proved to be optimal."""


class ConcaveKnapsack:
    """Jobs with gains for each further unit, solved for several lower limits."""

    def __init__(self, gains: Floats, sizes: Ints, capacity: int) -> None:
        """`gains` [job, unit] of each further unit, at least 0; `sizes` [job] above 0 are whole numbers."""
        self.sizes, self.capacity = sizes, capacity
        self.gains = np.minimum.accumulate(np.maximum(gains, 0.0), axis=1)  # rounding may have bent them
        self.totals = np.concatenate((np.zeros((len(sizes), 1)), np.cumsum(self.gains, axis=1)), axis=1)
        units = gains.shape[1]
        order = np.argsort(-(self.gains / sizes[:, None]).ravel(), kind="stable")
        order = order[self.gains.ravel()[order] > 0.0]
        self._job, self._unit = order // max(units, 1), order % max(units, 1)
        self._gain, self._size = self.gains.ravel()[order], sizes[order // max(units, 1)]

    def bound(self, least: Ints) -> float:
        """The value with fractions of units; minus infinity if `least` alone is too much."""
        return self._relax(least).value

    def solve(self, least: Ints) -> Amounts | None:
        """The best amounts of at least `least`; None if these are too much."""
        relaxed = self._relax(least)
        if relaxed.value == -np.inf:
            return None
        counts = self._greedy(least, relaxed)
        value = self._value(counts)
        loss = relaxed.value - value
        if loss <= _tolerance(relaxed.value):
            return Amounts(counts, value, relaxed.value)
        better, is_whole = self._core(least, relaxed, loss)
        best = max(value, self._value(better))
        counts = better if self._value(better) >= value else counts
        return Amounts(counts, best, best if is_whole else relaxed.value)

    def _value(self, counts: Ints) -> float:
        return float(self.totals[np.arange(len(counts)), counts].sum())

    def _relax(self, least: Ints) -> _Relaxed:
        """Units in order of gain per size as long as they fit, and a part of the next."""
        room = self.capacity - int(self.sizes @ least)
        if room < 0:
            return _Relaxed(-np.inf, 0, np.zeros(0, dtype=bool), 0.0)
        free = self._unit >= least[self._job]
        used = np.cumsum(np.where(free, self._size, 0))
        whole = int(np.searchsorted(used, room, side="right"))
        value = self._value(least) + float(self._gain[:whole][free[:whole]].sum())
        if whole == len(used):
            return _Relaxed(value, whole, free, 0.0)
        density = float(self._gain[whole] / self._size[whole])
        rest = room - (int(used[whole - 1]) if whole else 0)
        return _Relaxed(value + density * rest, whole, free, density)

    def _base(self, least: Ints, relaxed: _Relaxed) -> Ints:
        """The whole units of the relaxation."""
        taken = self._job[: relaxed.whole][relaxed.free[: relaxed.whole]]
        counts: Ints = least + np.bincount(taken, minlength=len(self.sizes))
        return counts

    def _greedy(self, least: Ints, relaxed: _Relaxed) -> Ints:
        """The whole units of the relaxation, then further ones in the same order that still fit."""
        counts, at = self._base(least, relaxed), relaxed.whole
        room = self.capacity - int(self.sizes @ counts)
        while room > 0:
            fits = np.flatnonzero(relaxed.free[at:] & (self._size[at:] <= room))
            if not len(fits):
                break
            at += int(fits[0])
            counts[self._job[at]] += 1
            room -= int(self._size[at])
            at += 1
        return counts

    def _core(self, least: Ints, relaxed: _Relaxed, loss: float) -> tuple[Ints, bool]:
        """The best amounts no further from the relaxation than `loss`, and whether all such were searched.

        A unit more or less than the relaxation takes costs what it gains less, or more, than the critical
        gain per size; amounts worth more than the greedy ones cost less than `loss` in all.
        """
        base = self._base(least, relaxed)
        excess = self.gains - relaxed.density * self.sizes[:, None]
        unit = np.arange(excess.shape[1])
        above = np.cumsum(np.where(unit >= base[:, None], -excess, 0.0), axis=1)
        below = np.cumsum(np.where(unit < base[:, None], excess, 0.0)[:, ::-1], axis=1)[:, ::-1]
        is_whole = True
        while True:
            most = base + ((unit >= base[:, None]) & (above <= loss)).sum(axis=1)
            fewest = base - ((unit < base[:, None]) & (unit >= least[:, None]) & (below <= loss)).sum(axis=1)
            core = np.flatnonzero(most > fewest)
            room = self.capacity - int(self.sizes @ fewest)
            room = min(room, int(self.sizes @ (most - fewest)))
            step = int(np.gcd.reduce(self.sizes[core])) if len(core) else 1
            if (most - fewest + 1)[core].sum() * (room // step + 1) <= CELLS:
                break
            loss, is_whole = loss / 2.0, False
        best = fewest.copy()
        best[core] += self._table(core, fewest, most, room // step, step)
        return best, is_whole

    def _table(self, core: Ints, fewest: Ints, most: Ints, room: int, step: int) -> Ints:
        """Units beyond `fewest` of each job of `core`, by a table over the room in units of `step`."""
        best = np.zeros(room + 1)
        chosen: list[Ints] = []
        for job in core.tolist():
            size = int(self.sizes[job]) // step
            worth = self.totals[job, fewest[job] : most[job] + 1] - self.totals[job, fewest[job]]
            with_job, choice = best.copy(), np.zeros(room + 1, dtype=np.int64)
            for extra in range(1, min(len(worth) - 1, room // size) + 1):
                trial = best[: room + 1 - extra * size] + worth[extra]
                is_better: Bools = trial > with_job[extra * size :]
                with_job[extra * size :][is_better] = trial[is_better]
                choice[extra * size :][is_better] = extra
            best = with_job
            chosen.append(choice)
        extras, at = np.zeros(len(core), dtype=np.int64), room
        for place in range(len(core) - 1, -1, -1):
            extras[place] = chosen[place][at]
            at -= int(extras[place]) * int(self.sizes[core[place]]) // step
        return extras


class _Relaxed(NamedTuple):
    """The optimum in parts of units."""

    value: float
    whole: int
    """Items, in order of gain per size, before the one that fits only in part."""
    free: Bools
    """Items beyond the lower limits."""
    density: float
    """Gain per size of that item, 0 if all fit."""


def _tolerance(value: float) -> float:
    return 1e-12 * max(1.0, abs(value))
