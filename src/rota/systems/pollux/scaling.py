"""How many nodes a cluster in a cloud is to have: as many as keep the speedups for each GPU in a range.

Source: Pollux, OSDI 2021, section 4.2.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from rota.model.columns import Array, Floats
from rota.model.grants import Grant
from rota.scheduler.snapshot import Snapshot
from rota.systems.pollux.cells import filled
from rota.systems.pollux.search import Search, SharingProblem
from rota.systems.pollux.speedups import Models, Speedups

GROWTH = 2
"""A cluster is made at most this many times as large at once."""
_STREAM = 1 << 20
"""Keeps the random numbers of these searches apart from those of the cells."""


def wanted_nodes(
    snapshot: Snapshot, speedups: Speedups, models: Models, grants: Mapping[int, Grant], number: int
) -> int:
    """Nodes for the jobs of `models` that are to hold `grants`, at the search `number`.

    As many as there are while UTILITY is within its range; else as many as bring it closest to the middle,
    if each number is shared out as well as can be.
    """
    low, high = speedups.parameters.utility
    nodes = max(1, round(speedups.gpus / speedups.node_gpus))
    now = utility(_held(snapshot, models, grants), speedups.alone(models), speedups.gpus)
    if low <= now <= high:
        return nodes

    def best(nodes: int) -> float:
        return _best_utility(snapshot, speedups, models, nodes, number)

    return closest(best, (low + high) / 2.0, nodes, GROWTH * nodes, shrinks=now < low)


def utility(sizes: tuple[Array, Array], alone: Floats, gpus: int) -> float:
    """UTILITY: the sum of the speedups over one GPU, for each of `gpus`.

    `sizes` are for each job whether it is on several nodes, and its GPUs; `alone` as of `Speedups.alone`.
    """
    several, held = sizes
    return float(alone[np.arange(len(alone)), several, held].sum()) / gpus


def closest(best: Callable[[int], float], aim: float, nodes: int, most: int, *, shrinks: bool) -> int:
    """The number whose best utility is closest to `aim`: to `nodes` if it `shrinks`, else from it to `most`.

    More nodes have less utility, so that the place where it passes `aim` is found by halving; of equals it is
    the last on that way: jobs with no known speeds gain by every node.
    """
    few, many = (1, nodes) if shrinks else (nodes, most)
    worth = {count: best(count) for count in {few, many}}
    while many - few > 1:
        middle = (few + many) // 2
        worth[middle] = best(middle)
        few, many = (middle, many) if worth[middle] > aim else (few, middle)
    if shrinks:
        return min((few, many), key=lambda count: (abs(worth[count] - aim), count))
    return min((few, many), key=lambda count: (abs(worth[count] - aim), -count))


def _held(snapshot: Snapshot, models: Models, grants: Mapping[int, Grant]) -> tuple[Array, Array]:
    """Whether each row is on several nodes, and its GPUs."""
    several, held = np.zeros((2, len(models.rows)), dtype=np.int64)
    for place, row in enumerate(models.rows.tolist()):
        if row in grants:
            devices = grants[row].devices
            held[place] = len(devices)
            several[place] = len({snapshot.cluster.device_node.item(device) for device in devices}) > 1
    return several, held


def _best_utility(snapshot: Snapshot, speedups: Speedups, models: Models, nodes: int, number: int) -> float:
    """The best utility that a search finds on this many empty nodes."""
    parameters, size, jobs = speedups.parameters, speedups.node_gpus, len(models.rows)
    there = Speedups(parameters, size, nodes * size)
    problem = SharingProblem(
        np.zeros((nodes, jobs), dtype=np.int16),
        np.full(nodes, size, dtype=np.int16),
        there.worth(there.speedups(models, jobs), np.ones(jobs)),
        there.limits(snapshot, models),
        np.ones((nodes, jobs), dtype=bool),
        np.zeros(jobs, dtype=bool),
        not parameters.avoid_interference,
        parameters.most_nodes,
    )
    search = Search(problem, np.random.default_rng([snapshot.seed, number, _STREAM + nodes]))
    begins = filled(problem)[:, None, :]
    state = search.run(begins, parameters.population, parameters.generations, parameters.patience).best
    held = np.minimum(state.sum(axis=0, dtype=np.int64), there.most)
    several = ((state > 0).sum(axis=0) > 1).astype(np.int64)
    return utility((several, held), there.alone(models), nodes * size)
