"""The population search: matrices of GPUs by node and job, bred until none is fitter.

Every member of the population is a matrix [node, job]; all are one array [node, member, job], on which
mutation, crossover and repair work at once.  What a job is worth depends on how many GPUs it has, whether
they lie on one node, and whether anything changes for it, so that fitness is a sum over a table.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from rota.model.columns import Array, Bools, Floats, Ints

_RESET, _CLEAR, _CLEARED = 0.1, 0.1, 0.1
"""Chances that a row is reset to what is held, that it loses something, and each of its entries then."""
_TOUCHED = 0.632
"""Chance that at least one of many entries is raised, if one is on average."""
_ROUNDING = 1e-9


class Problem(NamedTuple):
    """What is to be shared out; rows are jobs in order of precedence, those that are pinned first."""

    base: Array
    """What each job holds now, [node, job]."""
    capacity: Array
    """GPUs of each node that are to be shared out."""
    worth: Floats
    """[job, kept or changed, one node or several, GPUs]: the sum of it over jobs is to be largest."""
    limit: Array
    """[job, GPUs]: the largest number that it can use and that is no more than these; 0 if there is none."""
    allowed: Bools
    """[node, job]: nodes that a job can use."""
    pinned: Bools
    """[job]: it keeps what it has."""
    shares_node: bool = False
    """True if several jobs on several nodes may share one."""
    most_nodes: int = 16
    """Nodes of one job."""
    quotas: tuple[tuple[Bools, int], ...] = ()
    """Jobs that may have so many GPUs together, no more."""
    hosts: tuple[tuple[Floats, Floats], ...] = ()
    """CPUs, memory: what each job wants of its node for a GPU, and what each node has."""


class Found(NamedTuple):
    """How a search ended."""

    states: Array
    """The population, the fittest first, [node, member, job]."""
    scores: Floats
    generations: int

    @property
    def best(self) -> Array:
        """[node, job]."""
        best: Array = self.states[:, 0]
        return best


class Search:
    """A search with its source of chance."""

    def __init__(self, problem: Problem, random: Generator) -> None:
        self.problem, self.random = problem, random
        self.nodes, self.jobs = problem.base.shape
        self._most = problem.worth.shape[3] - 1
        self._worth = np.ascontiguousarray(problem.worth).ravel()
        self._row = np.arange(self.jobs) * (problem.worth[0].size)
        self._closed = ~problem.allowed
        self._has_closed = bool(self._closed.any())

    def run(self, begins: Array, population: int, generations: int, patience: int) -> Found:
        """From `begins` [node, member, job], filled up to `population`.

        It ends after so many `generations`, when `patience` of them have found nothing fitter, or when every
        job has what is best for it.
        """
        bound = self.bound()
        states = self._first(begins, population)
        scores = self.scores(states)
        states, scores = self._fittest(states, scores, population)
        best, still, number = float(scores[0]), 0, 0
        while number < generations and still < patience and best < bound:
            number += 1
            children = self.repaired(self.mutated(self.crossed(states, scores, population)))
            together = np.concatenate((states, children), axis=1)
            all_scores = np.concatenate((scores, self.scores(children)))
            states, scores = self._fittest(together, all_scores, population)
            still = still + 1 if scores[0] <= best + 1e-12 * abs(best) else 0
            best = float(scores[0])
        return Found(states, scores, number)

    def bound(self) -> float:
        """No member is worth more, give or take rounding: everybody has what is best for it alone."""
        problem = self.problem
        held = np.add.reduce(problem.base, axis=0)
        several = (problem.base > 0).sum(axis=0) > 1
        gpus = np.arange(self._most + 1)
        can = (problem.limit == gpus) & ~problem.pinned[:, None]
        together = can & (gpus <= problem.capacity.max(initial=0))
        kept = problem.worth[np.arange(self.jobs), 0, several.astype(int), np.minimum(held, self._most)]
        one, more = (
            np.where(able, problem.worth[:, 1, kind], -np.inf).max(axis=1)
            for kind, able in ((0, together), (1, can & (gpus > 1)))
        )
        bound = float(np.maximum(kept, np.maximum(one, more)).sum())
        return bound - 1e-9 * abs(bound)

    def _first(self, begins: Array, population: int) -> Array:
        """What is held now, what was found last, and mutants of both."""
        base = self.problem.base[:, None, :]
        if not self._has_room(base):
            base = self.repaired(base.copy())
        states = np.concatenate((base, begins[:, : population - 1]), axis=1)
        missing = population - states.shape[1]
        if missing:
            chosen = self.random.integers(0, states.shape[1], missing)
            states = np.concatenate((states, self.mutated(states[:, chosen])), axis=1)
        return np.concatenate((base, self.repaired(states[:, 1:])), axis=1)

    def _has_room(self, states: Array) -> bool:
        """True if no node has more than it can give."""
        gpus = np.add.reduce(states, axis=2) <= self.problem.capacity[:, None]
        fed = [((states @ need) <= room[:, None] + _ROUNDING).all() for need, room in self.problem.hosts]
        return bool(gpus.all()) and all(fed)

    # -- fitness -----------------------------------------------------------------------------------

    def scores(self, states: Array) -> Floats:
        """What each member is worth, [member]."""
        gpus = np.minimum(np.add.reduce(states, axis=0), self._most)
        several = np.add.reduce(states > 0, axis=0, dtype=np.int16) > 1
        changed = (states != self.problem.base[:, None, :]).any(axis=0)
        place = self._row + ((changed * 2 + several) * (self._most + 1) + gpus)
        scores: Floats = self._worth.take(place).sum(axis=1)
        return scores

    @staticmethod
    def _fittest(states: Array, scores: Floats, many: int) -> tuple[Array, Floats]:
        """The best, the first of equals; those that are worth the same as another come last."""
        order = np.argsort(-scores, kind="stable")
        ranked = scores[order]
        again = np.zeros(len(order), dtype=bool)
        again[1:] = ranked[1:] == ranked[:-1]
        kept = np.concatenate((order[~again], order[again]))[:many]
        kept = kept[np.argsort(-scores[kept], kind="stable")]
        return states[:, kept], scores[kept]

    # -- breeding ----------------------------------------------------------------------------------

    def crossed(self, states: Array, scores: Floats, many: int) -> Array:
        """Children of two parents each, who have won against another: the jobs before a point are of one."""
        rivals = self.random.integers(0, len(scores), (2, 2, many))
        parents = np.where(scores[rivals[0]] >= scores[rivals[1]], *rivals)
        point = self.random.integers(0, self.jobs + 1, many)
        first = np.arange(self.jobs) < point[:, None]
        return np.where(first, states[:, parents[0]], states[:, parents[1]])

    def mutated(self, states: Array) -> Array:
        """Rows reset, entries cleared, entries raised; what does not fit any more is left to repair."""
        random, members = self.random, states.shape[1]
        states = states.copy()
        chance = random.random((3, members, self.jobs), dtype=np.float32)
        at, row = np.nonzero(chance[0] < _RESET)
        states[:, at, row] = self.problem.base[:, row]
        at, row = np.nonzero(chance[1] < _CLEAR)
        kept = random.random((self.nodes, len(at)), dtype=np.float32) >= _CLEARED
        states[:, at, row] *= kept
        room = self.problem.capacity[:, None] - np.add.reduce(states, axis=2)
        self._raise_with_room(states, chance[2], room)
        self._raise_used(states)
        return states

    def _raise_with_room(self, states: Array, chance: Array, room: Array) -> None:
        """On a node with room, for most jobs of all members."""
        open_to = room > 0
        count = open_to.sum(axis=0)
        nodes = np.argsort(~open_to, axis=0, kind="stable")
        at, row = np.nonzero((chance < _TOUCHED) & (count > 0)[:, None])
        if len(at):
            which = (self.random.random(len(at)) * count[at]).astype(np.int64)
            self._raise(states, nodes[which, at], at, row)

    def _raise_used(self, states: Array) -> None:
        """On a node that the job uses already, for most jobs of all members."""
        order = self.random.permutation(self.nodes)
        used = states[order] > 0
        first = order[used.argmax(axis=0)]
        touched = self.random.random(first.shape, dtype=np.float32) < _TOUCHED
        at, row = np.nonzero(touched & used.any(axis=0))
        if len(at):
            self._raise(states, first[at, row], at, row)

    def _raise(self, states: Array, node: Ints, at: Ints, row: Ints) -> None:
        """To a number between what it has there and all there are."""
        now = states[node, at, row]
        more = self.problem.capacity[node] - now + 1
        states[node, at, row] = now + (self.random.random(len(at)) * more).astype(states.dtype)

    # -- repair ------------------------------------------------------------------------------------

    def repaired(self, states: Array) -> Array:
        """The same within all rules, changed in place: earlier jobs go before later ones."""
        problem = self.problem
        if self._has_closed:
            states[np.broadcast_to(self._closed[:, None, :], states.shape)] = 0
        if problem.pinned.any():
            states[:, :, problem.pinned] = problem.base[:, None, problem.pinned]
        if not problem.shares_node:
            self._part(states)
        self._trim(states)
        self._fit(states)
        self._trim(states)
        for members, most in problem.quotas:
            self._keep_quota(states, members, most)
        return states

    def _part(self, states: Array) -> None:
        """At most one job on several nodes uses a node: later ones leave it."""
        used = states > 0
        several = np.add.reduce(used, axis=0, dtype=np.int16) > 1
        mine = used & several
        node, at = np.nonzero(np.add.reduce(mine, axis=2, dtype=np.int16) > 1)
        if len(node):
            own = mine[node, at]
            later = own & (np.cumsum(own, axis=1, dtype=np.int16) > 1) & ~self.problem.pinned
            states[node, at] = np.where(later, 0, states[node, at])

    def _trim(self, states: Array) -> None:
        """No job has more than it can use, nor on more nodes: those in a random order lose the rest."""
        gpus = np.add.reduce(states, axis=0)
        most = self.problem.limit[np.arange(self.jobs), np.minimum(gpus, self._most)]
        over = gpus > most
        if self.nodes > self.problem.most_nodes:
            over |= np.add.reduce(states > 0, axis=0, dtype=np.int16) > self.problem.most_nodes
        over &= ~self.problem.pinned
        at, row = np.nonzero(over)
        if not len(at):
            return
        order = self.random.permutation(self.nodes)
        rows = states[order][:, at, row]
        if self.nodes > self.problem.most_nodes:
            rows *= np.cumsum(rows > 0, axis=0, dtype=np.int16) <= self.problem.most_nodes
            gpus = np.minimum(np.add.reduce(rows, axis=0), self._most)
            limit = self.problem.limit[row, gpus]
        else:
            limit = most[at, row]
        before = np.cumsum(rows, axis=0) - rows
        kept = np.minimum(rows, np.maximum(limit - before, 0))
        states[order[:, None], at, row] = kept

    def _fit(self, states: Array) -> None:
        """No node has more than all its GPUs: the last jobs get less."""
        capacity = self.problem.capacity
        node, at = np.nonzero(np.add.reduce(states, axis=2) > capacity[:, None])
        if len(node):
            own = states[node, at]
            before = np.cumsum(own, axis=1) - own
            states[node, at] = np.minimum(own, np.maximum(capacity[node, None] - before, 0))
        for need, room in self.problem.hosts:
            node, at = np.nonzero((states @ need) > room[:, None] + _ROUNDING)
            if len(node):
                own = states[node, at]
                left = room[node, None] + _ROUNDING - (np.cumsum(own * need, axis=1) - own * need)
                fed = np.floor(np.maximum(left, 0.0) / np.maximum(need, _ROUNDING))
                states[node, at] = np.where(need > 0.0, np.minimum(own, fed), own)

    def _keep_quota(self, states: Array, members: Bools, most: int) -> None:
        """Jobs that have more together than they may: the last ones get nothing."""
        gpus = np.add.reduce(states, axis=0) * members
        over = (np.cumsum(gpus, axis=1) > most) & members & ~self.problem.pinned
        states[:, over] = 0
