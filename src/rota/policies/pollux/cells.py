"""Which nodes and jobs are searched together, and with which matrices a search begins."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rota.model.columns import Array, Bools, Ints
from rota.policies.pollux.search import SharingProblem

_CROWDED = 2.0
"""A job leaves its cell for one with so many times the GPUs for each job."""


def cells_of(
    base: Array, allowed: Bools, pinned: Bools, capacity: Array, most: int
) -> list[tuple[Ints, Ints]]:
    """Nodes and rows that are searched together; who holds GPUs in several cells stays as it is.

    Who holds GPUs in one cell is of that, or moves to one with twice as many GPUs for each job.
    """
    nodes, rows = base.shape
    if nodes <= most:
        return [(np.arange(nodes), np.arange(rows))]
    count = -(-nodes // most)
    every = np.arange(nodes)
    cell_of = every * count // nodes
    first = np.flatnonzero(np.diff(cell_of, prepend=-1))
    held = np.add.reduceat(base, first, axis=0, dtype=np.int64)
    room = np.bincount(cell_of, weights=capacity) - held.sum(axis=1)
    members: list[list[int]] = [[] for _ in range(count)]
    for row in np.argsort(-held.sum(axis=0), kind="stable").tolist():
        if held[:, row].any():
            own = np.flatnonzero(held[:, row])
            if len(own) == 1:
                members[int(own[0])].append(row)
            else:  # outside of all cells, its devices are nobody's
                capacity -= base[:, row]
            continue
        usable = np.bincount(cell_of, weights=allowed[:, row]) > 0
        best = int(np.where(usable, room, -np.inf).argmax())
        room[best] -= 1.0
        members[best].append(row)
    _even_out(members, cell_of, allowed, pinned, capacity)
    own_nodes = np.split(every, first[1:])
    return [(own_nodes[cell], np.array(sorted(own), int)) for cell, own in enumerate(members)]


def _even_out(
    members: list[list[int]], cell_of: Ints, allowed: Bools, pinned: Bools, capacity: Array
) -> None:
    """Rows leave crowded cells, the last in precedence first, for where a job has most GPUs to use."""
    counts = np.array([len(own) for own in members])
    home = {row: cell for cell, own in enumerate(members) for row in own}
    everywhere = np.bincount(cell_of, weights=capacity, minlength=len(members)) if allowed.all() else None
    for row in sorted(home, reverse=True):
        if pinned[row]:
            continue
        own = home[row]
        gpus = everywhere
        if gpus is None:
            gpus = np.bincount(cell_of, weights=capacity * allowed[:, row], minlength=len(members))
        each = gpus / (counts + 1)
        best = int(each.argmax())
        if best != own and each[best] >= _CROWDED * gpus[own] / counts[own]:
            members[own].remove(row)
            members[best].append(row)
            counts[own] -= 1
            counts[best] += 1


def carried(before: Mapping[str, Array] | None, rows: Ints, nodes: int) -> Array:
    """Matrices of the last search for the rows of this one, [node, member, row]."""
    if before is None or len(before["states"]) != nodes:
        return np.zeros((nodes, 0, len(rows)), dtype=np.int16)
    states = before["states"]
    place = {row: i for i, row in enumerate(before["rows"].tolist())}
    carried = np.zeros((nodes, states.shape[1], len(rows)), dtype=np.int16)
    here = [(new, place[row]) for new, row in enumerate(rows.tolist()) if row in place]
    if here:
        new, old = np.array(here).T
        carried[:, :, new] = states[:, :, old]
    return carried


def filled(problem: SharingProblem) -> Array:
    """What is held, and the least size of everybody who holds nothing, where there is room."""
    filled = problem.base.copy()
    room = problem.capacity - filled.sum(axis=1)
    for row in np.flatnonzero(filled.sum(axis=0) == 0).tolist():
        sizes = np.flatnonzero(problem.limit[row])
        if not len(sizes):
            continue
        need = int(sizes[0])
        usable = np.where(problem.allowed[:, row], room, 0)
        for node in np.argsort(-usable, kind="stable").tolist():
            if not need or usable[node] <= 0:
                break
            taken = min(need, int(usable[node]))
            filled[node, row] = taken
            need -= taken
        if need:
            filled[:, row] = 0
        room -= filled[:, row]
    return filled
