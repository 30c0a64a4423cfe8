"""Which nodes and jobs are searched together, and with which matrices a search begins."""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heappop, heappush

import numpy as np

from rota.model.columns import Array, Bools, Floats, Ints
from rota.systems.pollux.search import SharingProblem

_CROWDED = 2.0
"""A job leaves its cell for one with this many times the GPUs for each job."""


def cells_of(
    base: Array, allowed: Bools, pinned: Bools, capacity: Array, most: int
) -> list[tuple[Ints, Ints]]:
    """Nodes and rows that are searched together; a job with GPUs in several cells stays as it is.

    A job that holds GPUs in one cell belongs to it, or moves to one with twice as many GPUs for each job.
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
            else:  # outside of all cells, no job can have its devices
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
    """What is held, plus the least size of every job that holds nothing, where there is room."""
    filled = problem.base.copy()
    room, least = problem.capacity - filled.sum(axis=1), _least_sizes(problem)
    for row in np.flatnonzero((filled.sum(axis=0) == 0) & (least > 0)).tolist():
        taken = _on_emptiest(int(least[row]), np.where(problem.allowed[:, row], room, 0))
        if taken is not None:
            filled[:, row] = taken
            room -= taken
    return filled


def yielded(problem: SharingProblem, filled: Array) -> Array:
    """`filled`, in which jobs that hold most are cut to their least size for jobs that hold nothing.

    No mutation takes from one job and gives to another, and where nothing is free neither half of that is
    fitter by itself.
    """
    matrix, least = filled.copy(), _least_sizes(problem)
    room, held = problem.capacity - matrix.sum(axis=1), matrix.sum(axis=0, dtype=np.int64)
    spare = np.where(problem.pinned | (least == 0), 0, np.maximum(held - least, 0))
    for row in np.flatnonzero((held == 0) & (least > 0)).tolist():
        if not spare.any() and not room.any():
            break
        here, need = problem.allowed[:, row], int(least[row])
        while room[here].sum() < need and (able := spare * matrix[here].any(axis=0)).any():
            giver = int(able.argmax())
            before = matrix[:, giver].copy()
            _cut(matrix[:, giver], int(least[giver]))
            room += before - matrix[:, giver]
            spare[giver] = 0
        taken = _on_emptiest(need, np.where(here, room, 0))
        if taken is not None:
            matrix[:, row] = taken
            room -= taken
    return matrix


def _least_sizes(problem: SharingProblem) -> Ints:
    """The least size of each job; 0 for jobs that can use none."""
    least = problem.limit[np.arange(len(problem.limit)), (problem.limit > 0).argmax(axis=1)]
    sizes: Ints = least.astype(np.int64)
    return sizes


def _on_emptiest(need: int, room: Array) -> Array | None:
    """`need` GPUs by node, of the nodes with most room; None if there are too few."""
    taken = np.zeros_like(room)
    for node in np.argsort(-room, kind="stable").tolist():
        if not need or room[node] <= 0:
            break
        taken[node] = min(need, int(room[node]))
        need -= int(taken[node])
    return None if need else taken


def _cut(column: Array, most: int) -> None:
    """Keep at most `most` GPUs of a job, on the nodes where it has most."""
    for node in np.argsort(-column, kind="stable").tolist():
        column[node] = min(most, int(column[node]))
        most -= int(column[node])


def grown(problem: SharingProblem, begun: Array) -> Array:
    """`begun`, and what it leaves free shared out by gain in fitness per GPU, [node, job].

    A search that only mutates finds no way up where nearly every job may grow: a child in which many rows
    grow at once leaves nothing for the last ones, which no gain of the others makes good.
    """
    matrix = begun.copy()
    free = int(problem.capacity.sum()) - int(matrix.sum())
    sizes = _sizes(problem, matrix, free)
    for job in np.argsort(-sizes, kind="stable").tolist():
        if sizes[job] != matrix[:, job].sum():
            _place(problem, matrix, job, int(sizes[job]))
    return matrix


def _sizes(problem: SharingProblem, matrix: Array, free: int) -> Array:
    """GPUs of each job once the `free` ones are shared out."""
    values = _values(problem)
    sizes: Array = matrix.sum(axis=0, dtype=np.int64)
    jobs, held = np.arange(len(sizes)), np.minimum(sizes, values.shape[1] - 1)
    several = ((matrix > 0).sum(axis=0) > 1).astype(int)
    same = (matrix == problem.base).all(axis=0)
    now = np.where(same, problem.worth[jobs, 0, several, held], values[jobs, held])

    def step(job: int) -> tuple[float, int, int]:
        """Key of the best next step of `job`: less its gain for each GPU, the job, and where it leads."""
        size = int(sizes[job])
        gains = (values[job, size + 1 :] - now[job]) / np.arange(1, values.shape[1] - size)
        best = int(gains.argmax()) if len(gains) else 0
        return (-float(gains[best]) if len(gains) else 0.0, job, size + 1 + best)

    heap = [step(job) for job in np.flatnonzero(~problem.pinned & (sizes > 0)).tolist()]
    heapify(heap)
    while heap and heap[0][0] < 0.0:
        _, job, size = heappop(heap)
        more = size - int(sizes[job])
        if more > free:
            values[job, int(sizes[job]) + free + 1 :] = -np.inf
        else:
            free -= more
            sizes[job], now[job] = size, values[job, size]
        following = step(job)
        if following[0] < 0.0:
            heappush(heap, following)
    return sizes


def _values(problem: SharingProblem) -> Floats:
    """[job, GPUs]: value of a changed job; minus infinity for numbers that it cannot use."""
    gpus = np.arange(problem.worth.shape[3])
    one_node = gpus <= problem.capacity.max(initial=0)
    values: Floats = np.where(one_node, problem.worth[:, 1, 0], problem.worth[:, 1, 1])
    values[problem.limit != gpus] = -np.inf
    return values


def _place(problem: SharingProblem, matrix: Array, job: int, size: int) -> None:
    """`size` GPUs for `job`: on a node that it has, on the fullest that will do, or on the emptiest."""
    before = matrix[:, job].copy()
    matrix[:, job] = 0
    room = np.where(problem.allowed[:, job], problem.capacity - matrix.sum(axis=1), 0)
    able = np.flatnonzero(room >= size)
    if len(able):
        own = able[before[able] > 0]
        node = int(own[0]) if len(own) else int(able[room[able].argmin()])
        matrix[node, job] = size
        return
    if not problem.shares_node:  # at most one job on several nodes uses a node
        several = (matrix > 0).sum(axis=0) > 1
        room = np.where((matrix[:, several] > 0).any(axis=1), 0, room)
    for node in np.argsort(-room, kind="stable").tolist():
        if not size or room[node] <= 0:
            break
        matrix[node, job] = min(size, int(room[node]))
        size -= int(matrix[node, job])
    if size:  # not everything found a place
        matrix[:, job] = before
