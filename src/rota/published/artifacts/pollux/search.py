"""The search of the authors' simulator, NSGA-II with two objectives.

It differs from `systems/pollux/search.py` in what decides where there are more jobs than GPUs.  Members are
kept for fitness or for utility, as long as no other one is better in both, so that few of them are near the
fittest.  Entries are raised by node: two on each that has room, whether ten jobs or a hundred, none on
a full one.  And where several jobs on several nodes meet, all jobs behind the second one leave the
node.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.random import Generator

from rota.model.columns import Array, Bools, Floats, Ints
from rota.solvers.breeding import survivors
from rota.solvers.fronts import crowding, fronts
from rota.systems.pollux.search import Search, SharingProblem

_JOB_BITS = 26
_CROSSED = 0.9
"""Chance that two parents are crossed; otherwise their children begin as they are."""


class PublishedSearch(Search):
    """A search as the authors' simulator has it."""

    everybody_leaves = True

    def __init__(self, problem: SharingProblem, random: Generator, power: float, speedups: Floats) -> None:
        """`power` of the mean of speedups; `speedups` before a restart, [job, one node or several, GPUs]."""
        super().__init__(problem, random)
        self._power = power
        self._alone = np.ascontiguousarray(speedups).ravel()
        self._alone_row = np.arange(self.jobs) * (speedups[0].size)
        self._gpus = problem.capacity.astype(np.float32)
        self._values = np.zeros((0, 2))
        """Fitness and utility of each member."""
        self._gaps: Floats = np.zeros(0)
        """Distance between each member's neighbours on its front."""
        self._prints: Floats = np.zeros(0)
        """A number for each member, by which copies are known."""
        bits = 51 - _JOB_BITS - int(problem.capacity.sum()).bit_length()  # whole numbers of 53 bits are exact
        self._job_print = random.integers(0, 1 << _JOB_BITS, self.jobs).astype(float)
        self._node_print = random.integers(0, 1 << max(bits, 1), self.nodes).astype(float)

    def _chosen(self, states: Array, scores: Floats, many: int) -> tuple[Array, Floats]:
        """The first fronts; from the last of them the members farthest from others."""
        known = len(self._values)
        new, prints = self._seen(np.ascontiguousarray(states[:, known:]), scores[known:])
        values = np.concatenate((self._values, new)) if known else new
        prints = np.concatenate((self._prints, prints)) if known else prints
        order, gaps = survivors(values, prints, many) or self._kept(values, prints, many)
        self._values, self._gaps, self._prints = values[order], gaps, prints[order]
        return states.take(order, axis=1), scores[order]

    @staticmethod
    def _kept(values: Floats, prints: Floats, many: int) -> tuple[Ints, Floats]:
        """Members that go on, as `survivors` has it."""
        single = _without_copies(prints, values)
        order, rank = fronts(values[single])
        order = single[order]
        gaps = crowding(values[order], rank)
        if len(order) > many:
            kept = np.lexsort((-gaps, rank))[:many]
            kept.sort()  # by front and fitness, as before
            order, gaps = order[kept], gaps[kept]
        return order, gaps

    def _seen(self, states: Array, scores: Floats) -> tuple[Floats, Floats]:
        """[member, fitness and utility], and a number for each by which copies are known."""
        if self._in_c is None:
            prints: Floats = self._node_print @ (states.astype(float) @ self._job_print)
            return self._objectives(states, scores), prints
        place, active, prints = self._in_c.places_alone(states, self._node_print, self._job_print)
        return self._values_of(place, active, scores), prints

    def _objectives(self, states: Array, scores: Floats) -> Floats:
        """[member, fitness and utility]."""
        gpus = np.minimum(self._held(states), self._most)
        place = self._alone_row + self._several(states > 0) * (self._most + 1) + gpus
        active = self._gpus @ (self._used(states) > 0).astype(np.float32)
        return self._values_of(place, active, scores)

    def _values_of(self, place: Ints, active: Array, scores: Floats) -> Floats:
        utility = self._alone.take(place).sum(axis=1) / np.maximum(active, 1.0)
        return np.stack((power_mean(scores / self.jobs, self._power), utility), axis=1)

    # -- breeding ----------------------------------------------------------------------------------

    def crossed(self, states: Array, scores: Floats, many: int) -> Array:
        """Two children of every two winners: the jobs before a point are exchanged."""
        pairs = math.ceil(many / 2)
        first, second = self._winners(2 * pairs).reshape(2, pairs)
        point = self.random.integers(0, self.jobs, pairs)
        point[self.random.random(pairs) >= _CROSSED] = 0
        one, other = states.take(first, axis=1), states.take(second, axis=1)
        exchanged = one ^ other
        exchanged &= -(np.arange(self.jobs) < point[:, None]).astype(self._small)
        one ^= exchanged
        other ^= exchanged
        return np.concatenate((one, other), axis=1)

    def _winners(self, many: int) -> Ints:
        """Winners of pairs of members: the better in both, else the one with more room around it."""
        members = len(self._values)
        rounds = math.ceil(2 * many / members)
        drawn = np.concatenate([self.random.permutation(members) for _ in range(rounds)])
        one, other = drawn[: 2 * many].reshape(2, many)
        ahead = self._values[one] - self._values[other]
        most, least = ahead.max(axis=1), ahead.min(axis=1)
        wins = (least >= 0.0) & (most > 0.0)
        loses = (most <= 0.0) & (least < 0.0)
        wins |= ~loses & (self._gaps[one] >= self._gaps[other])
        winners: Ints = np.where(wins, one, other)
        return winners

    def _raise_some(self, states: Array) -> None:
        """On each node with room, on average, one entry of any job and one of a job that uses it."""
        pairs = np.flatnonzero(self._used(states) < self._room)  # node and member
        if not len(pairs):
            return
        slots = len(pairs) * self.jobs
        drawn = self.random.integers(0, slots, self.random.binomial(slots, 1.0 / self.jobs))
        own = states.reshape(-1, self.jobs).take(pairs, axis=0)
        on, job = np.divmod(np.flatnonzero(own.ravel() != 0), self.jobs)
        many = np.bincount(on, minlength=len(pairs))
        hit = np.flatnonzero(self.random.random(len(on)) * many[on] < 1.0)
        on, job = np.concatenate((drawn // self.jobs, on[hit])), np.concatenate((drawn % self.jobs, job[hit]))
        members = states.shape[1]
        node, member = np.divmod(pairs[on], members)
        self._raise(states, node, member * self.jobs + job)

    def _leaving(self, several: Bools) -> Bools:
        """All jobs behind the first one on several nodes."""
        leaving: Bools = np.cumsum(several, axis=1, dtype=np.int16) > 1
        return leaving


def power_mean(mean: Floats, power: float) -> Floats:
    """The power mean, from the mean of the jobs' worth (`Speedups.worth`)."""
    if power == 0.0:
        geometric: Floats = np.exp(mean)
        return geometric
    raised: Floats = np.abs(mean) ** (1.0 / power)
    return raised


def _without_copies(prints: Floats, values: Floats) -> Ints:
    """Members that are no copy of an earlier one: the same number, and worth the same."""
    _, first, which = np.unique(prints, return_index=True, return_inverse=True)
    earlier = first[which]
    copies = (earlier < np.arange(len(prints))) & (values[earlier] == values).all(axis=1)
    return np.flatnonzero(~copies)
