"""A window of rounds: how many of them each job gets, for fair progress and an early end of the last job.

The program of Shockwave (NSDI 2023, section 6) has a binary for each job and round.  What it maximises and
all it demands but the GPUs of each round depend on a job's *number* of rounds alone, so whole numbers do:

    maximise  Σ_i weight_i U_i(n_i) / (jobs x rounds)  -  k max_i left_i(n_i)
    subject to  Σ_i sizes_i n_i <= capacity x rounds,   n_i >= least_i,   n_i <= rounds

with U concave and left falling in n_i.  The two terms are not added up in one program, where a solver's
relative gap on the larger one exceeds all of the smaller one: for a given worst time left, the jobs' least
numbers of rounds follow, and the first term is a knapsack with concave values.  So the worst time left is
branched upon, its values being few, and the knapsack solved below (`concave`).  Which rounds they get:
`window_rounds`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from rota.model.columns import Floats, Ints
from rota.solvers.concave import ConcaveKnapsack

NODES = 200
"""Most branches to search; the best answer by then is returned, and marked so."""

LOG_BASES = np.array([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
LOG_OF_ZERO = 1e-6
"""Replaces a progress of 0 under the logarithm."""


def log_utility(progress: Floats) -> Floats:
    """The logarithm of progress, 0 to 1, by straight lines between `LOG_BASES`."""
    utility: Floats = np.interp(progress, LOG_BASES, np.log(np.maximum(LOG_BASES, LOG_OF_ZERO)))
    return utility


@dataclass(frozen=True)
class PlanningWindow:
    """The rounds to divide and the jobs to divide them among; columns run over jobs."""

    sizes: Ints
    """GPUs of each job, above 0, in whole units."""
    capacity: int
    """GPUs, in the same units."""
    utility: Floats
    """[job, rounds + 1] after each number of rounds of this window: concave, and it never falls."""
    left_s: Floats
    """[job, rounds + 1] run time left after each number of rounds; never rises."""
    weights: Floats
    """What each job's utility counts, at least 0."""
    least: Ints
    """Rounds that each job has to have; more than the window has for one that cannot be satisfied."""
    makespan_weight: float
    """k, per second."""

    @property
    def rounds(self) -> int:
        return int(self.utility.shape[1]) - 1

    @property
    def scale(self) -> float:
        """What utilities are divided by."""
        return max(len(self.sizes) * self.rounds, 1)

    @cached_property
    def _limits(self) -> list[tuple[Ints, int]]:
        """Limits on sums of rounds that are necessary for each round to have room.

        The GPUs of the window; and, for each size that does not divide the GPUs, the places for that size:
        seven GPUs have one place for four, whatever other jobs take.
        """
        odd = [int(size) for size in np.unique(self.sizes) if self.capacity % size]
        return [(self.sizes // size, self.capacity // size * self.rounds) for size in (1, *odd)]

    def has_room(self, counts: Ints) -> bool:
        """False if there is certainly no room for `counts` rounds of each job."""
        return all(int(weights @ counts) <= limit for weights, limit in self._limits)

    def value(self, counts: Ints) -> float:
        """The objective at these numbers of rounds."""
        at = np.arange(len(counts)), counts
        worst = float(self.left_s[at].max(initial=0.0)) if self.makespan_weight else 0.0
        return float(self.weights @ self.utility[at]) / self.scale - self.makespan_weight * worst

    @cached_property
    def knapsack(self) -> ConcaveKnapsack:
        gains = np.diff(self.utility, axis=1) * (self.weights[:, None] / self.scale)
        return ConcaveKnapsack(gains, self.sizes, self.capacity * self.rounds)

    @cached_property
    def base(self) -> float:
        """The first term of the objective if no job gets a round."""
        return float(self.weights @ self.utility[:, 0]) / self.scale


class Counts(NamedTuple):
    """How many rounds each job gets."""

    rounds: Ints
    value: float
    """The objective."""
    bound: float
    """No numbers of rounds have a larger one."""
    is_cut: bool
    """True if `nodes` was reached; the gap between `bound` and `value` is what may be missing."""


def solve_window(window: PlanningWindow, nodes: int = NODES) -> Counts | None:
    """The best numbers of rounds; None if `least` demands more than there is."""
    if (window.least > window.rounds).any() or not window.has_room(window.least):
        return None
    if not window.makespan_weight or not len(window.sizes):
        packed = window.knapsack.solve(window.least)
        assert packed is not None  # there is room for the least
        return Counts(packed.counts, window.value(packed.counts), window.base + packed.bound, False)
    return _Search(window).run(nodes)


class _Search:
    """Branches on the worst time left: intervals of its possible values, the most promising first."""

    def __init__(self, window: PlanningWindow) -> None:
        self.window = window
        left, floor = window.left_s, float(window.left_s[:, -1].max())
        # Jobs whose whole time left is below the floor never decide.
        values = np.unique(left[left[:, 0] >= floor])
        self.values = values[values >= floor]
        self.first = self._first_feasible()
        """The smallest value for which there may be room."""
        self.best: Counts | None = None
        self.proved = -np.inf
        """The largest bound of what has been solved."""

    def run(self, nodes: int) -> Counts:
        heap: list[tuple[float, int, int]] = []
        self._solve(self.first)
        self._push(heap, self.first, len(self.values) - 1)
        while heap and nodes > 0:
            bound, low, high = heappop(heap)
            if -bound <= self._best.value:
                heap.clear()
                break
            nodes -= 1
            if low == high:
                self._solve(low)
                continue
            middle = (low + high) // 2
            self._push(heap, low, middle)
            self._push(heap, middle + 1, high)
        open_bound = max((-bound for bound, _, _ in heap), default=-np.inf)
        best = self._best
        limit = max(self.proved, open_bound, best.value)
        return Counts(best.rounds, best.value, limit, bool(heap))

    @property
    def _best(self) -> Counts:
        assert self.best is not None  # the first value is feasible, and solved first
        return self.best

    def _least(self, at: int) -> Ints:
        """Rounds that each job needs for no job to have more time left than the value `at`."""
        needed = (self.window.left_s > self.values[at]).sum(axis=1)
        least: Ints = np.maximum(self.window.least, needed)
        return least

    def _first_feasible(self) -> int:
        low, high = 0, len(self.values) - 1
        while low < high:
            middle = (low + high) // 2
            if self.window.has_room(self._least(middle)):
                high = middle
            else:
                low = middle + 1
        return low

    def _push(self, heap: list[tuple[float, int, int]], low: int, high: int) -> None:
        """Enter the values from `low` to `high`: the demands of the largest, the cost of the least."""
        cost = self.window.makespan_weight * float(self.values[low])
        bound = self.window.base + self.window.knapsack.bound(self._least(high)) - cost
        if self.best is None or bound > self.best.value:
            heappush(heap, (-bound, low, high))

    def _solve(self, at: int) -> None:
        """The best numbers of rounds if no job may have more time left than the value `at`."""
        packed = self.window.knapsack.solve(self._least(at))
        assert packed is not None  # values from `first` on are feasible
        value = self.window.value(packed.counts)
        bound = self.window.base + packed.bound - self.window.makespan_weight * float(self.values[at])
        self.proved = max(self.proved, bound)
        if self.best is None or value > self.best.value:
            self.best = Counts(packed.counts, value, bound, False)
