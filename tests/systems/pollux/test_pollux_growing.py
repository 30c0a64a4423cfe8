"""With what a search begins: free GPUs to whoever gains most, and cells as full as each other."""

from __future__ import annotations

import numpy as np
import pytest

from rota.systems.pollux.cells import cells_of, filled, grown, yielded
from rota.systems.pollux.search import Search, SharingProblem

CURVES = ((1.0, 1.9, 2.7, 3.4), (1.0, 1.2, 1.25, 1.27))
"""Goodputs on 1 to 4 GPUs (the card's example, with a fair share of 2)."""


def problem(
    curves: tuple[tuple[float, ...], ...], nodes: tuple[int, ...], held: list[list[int]], restart: float = 1.0
) -> SharingProblem:
    """Jobs with these goodputs that hold so much, [node][job]; a change leaves `restart` of a speedup."""
    base = np.array(held, dtype=np.int16)
    goodput = np.array([(0.0, *curve) for curve in curves])
    speedups = np.repeat((goodput / goodput[:, 2:3])[:, None, :], 2, axis=1)
    worth = -1.0 / (np.stack((speedups, speedups * restart), axis=1) + 1e-3)
    limit = np.tile(np.arange(goodput.shape[1], dtype=np.int16), (len(curves), 1))
    allowed = np.ones(base.shape, dtype=bool)
    return SharingProblem(base, np.array(nodes), worth, limit, allowed, np.zeros(len(curves), dtype=bool))


@pytest.mark.parametrize(
    ("nodes", "held", "restart", "shares"),
    [
        ((4,), [[0, 0]], 1.0, [3, 1]),  # FITNESS 1.05165, the best there is
        ((4,), [[1, 1]], 1.0, [3, 1]),
        ((4,), [[1, 1]], 0.5, [3, 1]),  # half of 1.42 is more than .53
        ((4,), [[1, 1]], 0.3, [1, 1]),  # nobody gains enough
        ((2,), [[1, 1]], 1.0, [1, 1]),
        ((2, 2), [[1, 0], [0, 1]], 1.0, [3, 1]),
    ],
)
def test_free_gpus_go_to_who_gains_most(
    nodes: tuple[int, ...], held: list[list[int]], restart: float, shares: list[int]
) -> None:
    asked = problem(CURVES, nodes, held, restart)
    matrix = grown(asked, filled(asked))
    assert matrix.sum(axis=0).tolist() == shares
    assert (matrix.sum(axis=1) <= np.array(nodes)).all()


def test_who_is_pinned_keeps_what_it_has() -> None:
    asked = problem(CURVES, (4,), [[1, 1]])._replace(pinned=np.array([True, False]))
    assert grown(asked, filled(asked)).sum(axis=0).tolist() == [1, 3]


@pytest.mark.parametrize(
    ("nodes", "held", "pinned", "expected"),
    [
        ((4,), [[2, 1, 1, 0]], "", [[1, 1, 1, 1]]),  # who has most gives way
        ((4,), [[3, 1, 0, 0]], "", [[1, 1, 1, 1]]),  # once, for two
        ((2, 2), [[2, 0, 0], [1, 1, 0]], "", [[1, 0, 1], [0, 1, 0]]),  # what stays is on one node
        ((4,), [[2, 2, 0]], "0", [[2, 1, 1]]),
        ((2,), [[1, 1, 0]], "", [[1, 1, 0]]),  # nobody has more than it needs
        ((4,), [[1, 1, 1]], "", [[1, 1, 1]]),
    ],
)
def test_who_has_most_makes_room(
    nodes: tuple[int, ...], held: list[list[int]], pinned: str, expected: list[list[int]]
) -> None:
    jobs = len(held[0])
    asked = problem((CURVES[0],) * jobs, nodes, held)
    asked = asked._replace(pinned=np.array([str(job) in pinned for job in range(jobs)]))
    assert yielded(asked, filled(asked)).tolist() == expected


def test_many_jobs_that_may_all_grow_do() -> None:
    """A search alone would stay with one GPU for each: who grows by chance leaves others with nothing."""
    curve = tuple(float(gpus) for gpus in range(1, 9))
    held = [[int(job // 8 == node) for job in range(20)] for node in range(5)]
    asked = problem((curve,) * 20, (8,) * 5, held, restart=0.7)
    begins = grown(asked, filled(asked))[:, None, :]
    assert begins.sum(axis=0).tolist() == [[2] * 20]
    search = Search(asked, np.random.default_rng(0))
    found = search.run(begins, 100, 100, 20)
    assert found.best.sum() == 40
    assert search._several(found.states[:, :1] > 0).sum() <= 5


def test_jobs_leave_crowded_cells() -> None:
    """Twelve jobs on the first of three cells of four GPUs, one of which cannot be moved."""
    base = np.zeros((3, 12), dtype=np.int16)
    base[0, :4] = 1
    pinned = np.array([False, False, False, True] + [False] * 8)
    allowed = np.ones(base.shape, dtype=bool)
    cells = cells_of(base, allowed, pinned, np.full(3, 4), 1)
    assert [len(rows) for _, rows in cells] == [4, 4, 4]
    crowded = cells_of(base[:, :4], allowed[:, :4], pinned[:4], np.full(3, 4), 1)
    assert [rows.tolist() for _, rows in crowded] == [[0, 3], [2], [1]]


def test_nobody_leaves_for_a_cell_that_it_cannot_use() -> None:
    base = np.array([[1, 1], [0, 0]], dtype=np.int16)
    allowed = np.array([[True, True], [False, False]])
    cells = cells_of(base, allowed, np.zeros(2, dtype=bool), np.full(2, 4), 1)
    assert [rows.tolist() for _, rows in cells] == [[0, 1], []]
