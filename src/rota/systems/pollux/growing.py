"""A matrix with which a search begins: GPUs that are free go to whoever gains most fitness for each of them.

A search that only mutates finds no way up where nearly everybody may grow: a child in which many rows grow at
once leaves nothing for the last ones, which nobody's gain makes good.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import numpy as np

from rota.model.columns import Array, Floats
from rota.systems.pollux.search import SharingProblem


def grown(problem: SharingProblem, begun: Array) -> Array:
    """`begun`, and what it leaves free shared out by gains for each GPU, [node, job]."""
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
        """Of the steps that it can make: less its gain for each GPU, the job, and where it leads."""
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
    """[job, GPUs]: what a changed job is worth there; minus infinity for numbers that it cannot use."""
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
