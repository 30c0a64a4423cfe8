"""The population search: matrices of GPUs by node and job, bred until none is fitter.

Every member of the population is a matrix [node, job]; all are one array [node, member, job], on which
mutation, crossover and repair work at once.  What a job is worth depends on how many GPUs it has, whether
they lie on one node, and whether anything changes for it, so that fitness is a sum over a table.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from rota.model.columns import Array, Bools, Floats, Ints
from rota.solvers.breeding import breeding

_DRAWS = 1 << 16
"""Parts in which chances are drawn."""
_RESET, _CLEAR, _CLEARED = (round(0.1 * _DRAWS),) * 3
"""Chances that a row is reset to what is held, that it loses something, and each of its entries then."""
_TOUCHED = round(0.632 * _DRAWS)
"""Chance that at least one of many entries is raised, if one is on average."""
_ROUNDING = 1e-9


class SharingProblem(NamedTuple):
    """The input of a search; rows are jobs in order of precedence, pinned ones first."""

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
    """Jobs, and the most GPUs that they may have together."""
    hosts: tuple[tuple[Floats, Floats], ...] = ()
    """CPUs, memory: what each job wants of its node for a GPU, and what each node has."""


class Found(NamedTuple):
    """The result of a search."""

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
    """A search with its source of chance.

    Sums over jobs are products with ones, and entries are addressed by one number, since that is what NumPy
    does fast with many small rows: a search among forty jobs is ten thousand calls of a few microseconds.
    What draws no chance is done in C where that could be built (`solvers/breeding.py`), to the same bit.
    """

    everybody_leaves: ClassVar[bool] = False
    """Where jobs on several nodes meet, all jobs behind the second leave, not only those on several."""

    def __init__(self, problem: SharingProblem, random: Generator) -> None:
        self.problem, self.random = problem, random
        self.nodes, self.jobs = problem.base.shape
        self._most = problem.worth.shape[3] - 1
        self._worth = np.ascontiguousarray(problem.worth).ravel()
        self._row = np.arange(self.jobs) * (problem.worth[0].size)
        self._small, self._sum = dtypes(problem)
        self._count = np.int8 if self.nodes < np.iinfo(np.int8).max else np.int16
        self._base = problem.base.astype(self._small)[:, None, :]
        self._room = problem.capacity.astype(self._sum)[:, None]
        self._limit = np.ascontiguousarray(problem.limit.astype(self._sum)).ravel()
        self._limit_of = np.arange(self.jobs) * (self._most + 1)
        self._ones = np.ones(self.jobs, dtype=np.float32)
        self._closed = ~problem.allowed
        self._has_closed = bool(self._closed.any())
        rules = self._base[:, 0], problem.capacity, problem.limit, problem.pinned, problem.most_nodes
        is_small = (self._small, self._sum) == (np.int8, np.int16)
        self._in_c = breeding(*rules) if is_small else None

    def run(self, begins: Array, population: int, generations: int, patience: int) -> Found:
        """From `begins` [node, member, job], filled up to `population`.

        It ends after `generations`, when `patience` of them have found nothing fitter, or when every
        job has what is best for it.
        """
        bound = self.bound()
        states = self._first(begins, population)
        states, scores = self._chosen(states, self.scores(states), population)
        best, still, number = float(scores[0]), 0, 0
        while number < generations and still < patience and best < bound:
            number += 1
            children = self.repaired(self.mutated(self.crossed(states, scores, population)))
            states, scores = self._survivors(states, scores, children)
            still = still + 1 if scores[0] <= best + 1e-12 * abs(best) else 0
            best = float(scores[0])
        return Found(states, scores, number)

    def bound(self) -> float:
        """Upper bound of a member's worth, up to rounding: every job has its best size for itself."""
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
        """The first population: the current grants, the last result, and mutants of both."""
        base = self._base
        if not (self._has_room(base) and self._keeps_quotas(base)):
            base = self.repaired(base.copy())
        begins = begins[:, : population - 1].astype(self._small)
        states = np.concatenate((base, begins), axis=1)
        missing = population - states.shape[1]
        if missing:
            chosen = self.random.integers(0, states.shape[1], missing)
            states = np.concatenate((states, self.mutated(states.take(chosen, axis=1))), axis=1)
        return np.concatenate((base, self.repaired(np.ascontiguousarray(states[:, 1:]))), axis=1)

    def _has_room(self, states: Array) -> bool:
        """True if no node has more than it can give."""
        gpus = self._used(states) <= self._room
        fed = [((states @ need) <= room[:, None] + _ROUNDING).all() for need, room in self.problem.hosts]
        return bool(gpus.all()) and all(fed)

    def _keeps_quotas(self, states: Array) -> bool:
        """True if no tenant has more than it may have."""
        gpus = self._held(states)
        return all((gpus[:, own].sum(axis=1) <= most).all() for own, most in self.problem.quotas)

    # -- fitness -----------------------------------------------------------------------------------

    def scores(self, states: Array) -> Floats:
        """The worth of each member, [member]."""
        scores: Floats
        if self._in_c is not None:
            scores = self._worth.take(self._in_c.places(states)).sum(axis=1)
            return scores
        gpus = np.minimum(self._held(states), self._most)
        several = self._several(states > 0)
        changed = np.bitwise_or.reduce((states != self._base).view(np.int8), axis=0).view(np.bool_)
        place = self._row + ((changed * 2 + several) * (self._most + 1) + gpus)
        scores = self._worth.take(place).sum(axis=1)
        return scores

    def _several(self, used: Bools) -> Bools:
        """Whether each job uses several nodes, [member, job]; `used` is [node, member, job]."""
        nodes = np.add.reduce(used.view(np.int8), axis=0, dtype=self._count)
        several: Bools = nodes > 1
        return several

    def _held(self, states: Array) -> Array:
        """GPUs of each job, [member, job]."""
        held: Array = np.add.reduce(states, axis=0, dtype=self._sum)
        return held

    def _used(self, states: Array) -> Array:
        """GPUs in use on each node, [node, member]."""
        used: Array = (states.astype(np.float32) @ self._ones).astype(self._sum)
        return used

    def _survivors(self, states: Array, scores: Floats, children: Array) -> tuple[Array, Floats]:
        """The fittest of parents and children."""
        both = np.concatenate((scores, self.scores(children)))
        return self._chosen(np.concatenate((states, children), axis=1), both, len(scores))

    def _chosen(self, states: Array, scores: Floats, many: int) -> tuple[Array, Floats]:
        """The `many` members that survive, the fittest first."""
        kept = fittest(scores, many)
        return states.take(kept, axis=1), scores[kept]

    # -- breeding ----------------------------------------------------------------------------------

    def crossed(self, states: Array, scores: Floats, many: int) -> Array:
        """Children of two parents each, winners of a pair: the jobs before a point are of one."""
        rivals = self.random.integers(0, len(scores), (2, 2, many))
        parents = np.where(scores[rivals[0]] >= scores[rivals[1]], *rivals)
        point = self.random.integers(0, self.jobs + 1, many)
        first = np.arange(self.jobs) < point[:, None]
        children, others = states.take(parents[1], axis=1), states.take(parents[0], axis=1)
        others ^= children
        others &= -first.astype(self._small)
        children ^= others  # the other parent's number, where the mask is -1
        return children

    def mutated(self, states: Array) -> Array:
        """Rows reset, entries cleared, entries raised, in place; what does not fit is left to repair.

        `states` lie in one piece; so does `rows`, [node, row of a member], which shows the same.
        """
        rows = states.reshape(self.nodes, -1)
        chance = self._draws(2, rows.shape[1])
        reset = np.flatnonzero(chance[0] < _RESET)
        rows[:, reset] = self._base[:, 0].take(reset % self.jobs, axis=1)
        cleared = np.flatnonzero(chance[1] < _CLEAR)
        rows[:, cleared] *= self._draws(self.nodes, len(cleared)) >= _CLEARED
        self._raise_some(states)
        return states

    def _raise_some(self, states: Array) -> None:
        """For each job, on average, one entry where there is room and one that it has."""
        self._raise_with_room(states, np.flatnonzero(self._draws(states[0].size) < _TOUCHED))
        self._raise_used(states)

    def _draws(self, *shape: int) -> Array:
        """Numbers below `_DRAWS`."""
        draws: Array = self.random.integers(0, _DRAWS, shape, dtype=np.uint16)
        return draws

    def _raise_with_room(self, states: Array, rows: Ints) -> None:
        """On a node with room, of each of these rows of members."""
        closed = self._used(states) >= self._room
        count = self.nodes - np.add.reduce(closed, axis=0)
        nodes = np.argsort(closed, axis=0, kind="stable")
        at = rows // self.jobs
        if not count.all():
            able = count[at] > 0
            rows, at = rows[able], at[able]
        which = (self.random.random(len(rows), dtype=np.float32) * count[at]).astype(np.int64)
        self._raise(states, nodes[which, at], rows)

    def _raise_used(self, states: Array) -> None:
        """On a node that the job uses already, for most jobs of all members."""
        order = self.random.permutation(self.nodes)
        none = np.iinfo(self._count).max
        rank = np.empty(self.nodes, dtype=self._count)
        rank[order] = np.arange(self.nodes)
        ranks = (states == 0).astype(self._count)  # 1 where the job does not use the node, ...
        ranks *= none
        ranks |= rank[:, None, None]  # ... and then all bits, which is more than any rank
        first = np.minimum.reduce(ranks, axis=0).ravel()
        rows = np.flatnonzero((self._draws(len(first)) < _TOUCHED) & (first < none))
        self._raise(states, order[first[rows]], rows)

    def _raise(self, states: Array, node: Ints, rows: Ints) -> None:
        """Rows of members on a node: to a number between what they have there and all there are."""
        entries, place = states.reshape(-1), node * (states.shape[1] * self.jobs) + rows
        now = entries.take(place).astype(self._sum)
        more = self._room[:, 0].take(node) - now + 1
        chance = self.random.random(len(rows), dtype=np.float32)
        entries[place] = now + (chance * more).astype(states.dtype)

    # -- repair ------------------------------------------------------------------------------------

    def repaired(self, states: Array) -> Array:
        """The states within all rules, changed in place: earlier jobs go before later ones."""
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
        """Keep at most one job on several nodes on a node: later ones leave it."""
        if self._in_c is not None:
            self._in_c.part(states, everybody=self.everybody_leaves)
            return
        used = states > 0
        several = self._several(used)
        if not several.any():
            return
        mine = used & several
        node, at = np.nonzero(mine.astype(np.float32) @ self._ones > 1.0)
        if len(node):
            on_node, place = states.reshape(-1, self.jobs), node * states.shape[1] + at
            leaving = self._leaving(mine.reshape(-1, self.jobs).take(place, axis=0))
            leaving &= ~self.problem.pinned
            on_node[place] = on_node.take(place, axis=0) * ~leaving

    def _leaving(self, several: Bools) -> Bools:
        """Jobs that leave a node they share with others, [.., job]: all users but the first."""
        leaving = several.copy()
        leaving[np.arange(len(several)), several.argmax(axis=1)] = False
        return leaving

    def _trim(self, states: Array) -> None:
        """Cut each job to the GPUs and nodes that it can use: nodes in random order lose the rest."""
        if self._in_c is not None:
            marked = self._in_c.marked(states)
            if marked is not None:
                self._in_c.trim(states, marked, self.random.permutation(self.nodes))
            return
        gpus = self._held(states)
        most = self._limit.take(self._limit_of + np.minimum(gpus, self._most))
        over = gpus > most
        if self.nodes > self.problem.most_nodes:
            over |= np.add.reduce(states > 0, axis=0, dtype=np.int16) > self.problem.most_nodes
        over &= ~self.problem.pinned
        which = np.flatnonzero(over)
        if not len(which):
            return
        order = self.random.permutation(self.nodes)
        all_rows = states.reshape(self.nodes, -1)
        rows = all_rows.take(which, axis=1)[order]
        if self.nodes > self.problem.most_nodes:
            rows *= np.cumsum(rows > 0, axis=0, dtype=np.int16) <= self.problem.most_nodes
            gpus = np.minimum(np.add.reduce(rows, axis=0, dtype=self._sum), self._most)
            limit = self._limit.take(self._limit_of[which % self.jobs] + gpus)
        else:
            limit = most.ravel()[which]
        before = np.cumsum(rows, axis=0, dtype=self._sum) - rows
        kept = np.empty_like(rows)
        kept[order] = np.minimum(rows, np.maximum(limit - before, 0))
        all_rows[:, which] = kept

    def _fit(self, states: Array) -> None:
        """Cut nodes to the GPUs they have: the last jobs get less."""
        if self._in_c is not None:
            self._in_c.fit(states)
        elif len((crowded := np.nonzero(self._used(states) > self._room))[0]):
            node, at = crowded
            on_node, place = states.reshape(-1, self.jobs), node * states.shape[1] + at
            own = on_node.take(place, axis=0)
            before = np.cumsum(own, axis=1, dtype=self._sum)
            before -= own
            on_node[place] = np.minimum(own, np.maximum(self._room[node] - before, 0))
        for need, room in self.problem.hosts:
            node, at = np.nonzero((states @ need) > room[:, None] + _ROUNDING)
            if len(node):
                own = states[node, at]
                left = room[node, None] + _ROUNDING - (np.cumsum(own * need, axis=1) - own * need)
                fed = np.floor(np.maximum(left, 0.0) / np.maximum(need, _ROUNDING))
                states[node, at] = np.where(need > 0.0, np.minimum(own, fed), own)

    def _keep_quota(self, states: Array, members: Bools, most: int) -> None:
        """Cut jobs to what they may have together: the last ones get what the first ones leave."""
        gpus = np.add.reduce(states, axis=0, dtype=self._sum)
        over = np.flatnonzero(gpus @ members > most)
        if not len(over):
            return
        pinned = self.problem.pinned
        left = most - gpus[over] @ (members & pinned)
        for job in np.flatnonzero(members & ~pinned).tolist():
            has = gpus[over, job]
            most_of_it = np.clip(np.minimum(has, left), 0, self._most)
            keeps = np.minimum(has, self._limit.take(self._limit_of[job] + most_of_it))
            _shrink(states, over[keeps < has], job, keeps[keeps < has])
            left = left - keeps


def dtypes(problem: SharingProblem) -> tuple[type[np.signedinteger[Any]], type[np.signedinteger[Any]]]:
    """The smallest types for the GPUs of a job on a node, and for sums of them over all jobs or nodes."""
    nodes, jobs = problem.base.shape
    most = max(int(problem.capacity.max(initial=0)), int(problem.base.max(initial=0)))
    small = np.int8 if most < np.iinfo(np.int8).max else np.int16
    return small, np.int16 if most * max(nodes, jobs) < np.iinfo(np.int16).max else np.int32


def fittest(scores: Floats, many: int) -> Ints:
    """Members that are worth most, the first of equals; others worth the same come last."""
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    again = np.zeros(len(order), dtype=bool)
    again[1:] = ranked[1:] == ranked[:-1]
    kept = np.concatenate((order[~again], order[again]))[:many]
    best: Ints = kept[np.argsort(-scores[kept], kind="stable")]
    return best


def _shrink(states: Array, at: Ints, job: int, keeps: Array) -> None:
    """`job` keeps `keeps` GPUs in the members `at` of `states`, [node, member, job], where it has most."""
    rows = states[:, at, job]
    order = np.argsort(-rows, axis=0, kind="stable")
    fullest = np.take_along_axis(rows, order, axis=0)
    before = np.cumsum(fullest, axis=0, dtype=np.int64) - fullest
    kept = np.minimum(fullest, np.maximum(keeps - before, 0)).astype(states.dtype)
    np.put_along_axis(rows, order, kept, axis=0)
    states[:, at, job] = rows
