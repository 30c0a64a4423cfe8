"""The population search: Pollux's worked example of fitness, and the rules that every member keeps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from rota.systems.pollux.cells import carried, cells_of, filled
from rota.systems.pollux.parameters import PolluxParameters
from rota.systems.pollux.search import Found, Search, SharingProblem
from rota.systems.pollux.speedups import Speedups, fitness, restart_factor


@pytest.mark.parametrize(
    ("speedups", "p", "expected"),
    [((1, 1), -1, 1.001), ((2, 0.5), -1, 0.80136), ((2, 0.5), 1, 1.251), ((1.5, 0), -1, 0.002)],
)
def test_fitness(speedups: Sequence[float], p: float, expected: float) -> None:
    """Worked example 4."""
    assert fitness(np.array(speedups), p) == pytest.approx(expected, abs=5e-6)


def test_restart_factor() -> None:
    """Worked example 4 goes on: a job of age 0 gains nothing by anything."""
    factors = restart_factor(np.array([300.0, 3600.0, 0.0]), np.array([0, 10, 0]), 30.0)
    assert factors == pytest.approx([0.90909, 0.90909, 0.0], abs=5e-6)


def problem(
    goodputs: Sequence[Sequence[float]], fair: int, nodes: Sequence[int], **rules: object
) -> SharingProblem:
    """Jobs with goodput by number of GPUs, as good on several nodes as on one, restarts being free."""
    most, jobs = len(goodputs[0]), len(goodputs)
    table = np.zeros((jobs, 2, most + 1))
    table[:, :, 1:] = np.array(goodputs)[:, None, :] / np.array(goodputs)[:, None, fair - 1 : fair]
    worth = Speedups(PolluxParameters(), most, most).worth(table, np.ones(jobs))
    base = np.zeros((len(nodes), jobs), dtype=np.int16)
    given: dict[str, object] = {
        "base": base,
        "capacity": np.array(nodes, dtype=np.int16),
        "worth": worth,
        "limit": np.tile(np.arange(most + 1, dtype=np.int16), (jobs, 1)),
        "allowed": np.ones(base.shape, dtype=bool),
        "pinned": np.zeros(jobs, dtype=bool),
    }
    return SharingProblem(**given | rules)  # type: ignore[arg-type]


def search(problem: SharingProblem, seed: int = 0, generations: int = 100) -> Found:
    begins = np.zeros((*problem.base.shape[:1], 0, problem.base.shape[1]), dtype=np.int16)
    return Search(problem, np.random.default_rng(seed)).run(begins, 100, generations, generations)


def test_a_fair_share_of_two() -> None:
    """Worked example 4: three GPUs and one are fairer than two and two, which one GPU as base gives."""
    two = problem([(1, 1.9, 2.7, 3.4), (1, 1.2, 1.25, 1.27)], 2, [4])
    found = search(two)
    assert found.best.tolist() == [[3, 1]]
    assert -2.0 / found.scores[0] == pytest.approx(1.05165, abs=5e-6)
    naive = problem([(1, 1.9, 2.7, 3.4), (1, 1.2, 1.25, 1.27)], 1, [4])
    assert search(naive).best.tolist() == [[2, 2]]


@pytest.mark.parametrize("seed", range(3))
def test_a_member_is_worth_what_its_jobs_are(seed: int) -> None:
    """Whether anything changes for a job, whether it is on several nodes, its GPUs: summed by hand."""
    random = np.random.default_rng(seed)
    base = random.integers(0, 2, (5, 4)).astype(np.int16)
    worth = random.random((4, 2, 2, 17))
    given = problem(CURVES[:4], 2, [4] * 5, base=base, worth=worth)
    states = random.integers(0, 3, (5, 30, 4)).astype(np.int8)
    states[:, 0] = base
    expected = [
        sum(
            worth[job, int((one[:, job] != base[:, job]).any()), int((one[:, job] > 0).sum() > 1)][
                one[:, job].sum()
            ]
            for job in range(4)
        )
        for one in np.moveaxis(states, 1, 0)
    ]
    assert Search(given, random).scores(states) == pytest.approx(expected)


CURVES = [[gpus**power for gpus in range(1, 17)] for power in (0.5, 0.7, 0.9, 0.8, 0.6, 0.95)]


@pytest.mark.parametrize("seed", range(3))
def test_every_member_keeps_the_rules(seed: int) -> None:
    """Capacity, sizes, nodes, and one job on several nodes to a node; who is pinned keeps what it has."""
    base = np.zeros((6, 6), dtype=np.int16)
    base[0, 0], base[1, 0], base[2, 3] = 2, 1, 2
    sizes = np.tile(np.array([0, 0, *([2] * 6), *([8] * 9)], dtype=np.int16), (6, 1))
    pinned = np.array([True, False, False, False, False, False])
    allowed = np.ones((6, 6), dtype=bool)
    allowed[5, 4] = False
    quota = np.array([False, True, True, False, False, False])
    rules = {"base": base, "limit": sizes, "pinned": pinned, "allowed": allowed, "quotas": ((quota, 4),)}
    hosts = ((np.array([0.0, 2.0, 0.0, 0.0, 1.0, 0.0]), np.array([3.0, 9.0, 9.0, 9.0, 2.0, 9.0])),)
    tight = problem(CURVES, 2, [4, 4, 4, 4, 2, 2], **rules, hosts=hosts, most_nodes=3)
    found = search(tight, seed, generations=15)
    for member in found.states.transpose(1, 0, 2):
        gpus, several = member.sum(axis=0), (member > 0).sum(axis=0) > 1
        assert (member.sum(axis=1) <= tight.capacity).all()
        assert (member[:, pinned] == base[:, pinned]).all()
        assert set(gpus[~pinned].tolist()) <= {0, 2, 8}
        assert ((member > 0).sum(axis=0) <= 3).all()
        assert (((member > 0) & several).sum(axis=1) <= 1).all()
        assert not member[~allowed].any()
        assert gpus[quota].sum() <= 4
        assert (member @ hosts[0][0] <= hosts[0][1] + 1e-6).all()


def test_never_worse_than_what_is_held() -> None:
    """With restarts that cost everything nothing moves, and what is held is a member."""
    base = np.array([[4, 0], [0, 4]], dtype=np.int16)
    keep = problem(CURVES[:2], 4, [4, 4], base=base)
    worth = keep.worth.copy()
    worth[:, 1] = worth[:, 1, :, :1]
    found = search(keep._replace(worth=worth))
    assert found.best.tolist() == base.tolist()
    assert found.generations == 0, "nobody could have more, and that is noticed"


def test_patience() -> None:
    """Two jobs that both want the only four GPUs: no member reaches the bound, and searching ends early."""
    both = problem(CURVES[:2], 4, [4])
    patient = Search(both, np.random.default_rng(0)).run(np.zeros((1, 0, 2), dtype=np.int16), 100, 100, 5)
    assert 5 <= patient.generations < 30
    assert patient.scores[0] == search(both).scores[0]
    assert patient.scores[0] < Search(both, np.random.default_rng(0)).bound()


def test_sharing_nodes_may_be_allowed() -> None:
    """Two jobs of 3 GPUs on nodes of 2: one node has to be shared."""
    sizes = np.tile(np.array([0, 0, 0, *([3] * 14)], dtype=np.int16), (2, 1))
    for shares, expected in ((True, [3, 3]), (False, [0, 3])):
        gangs = problem(CURVES[:2], 2, [2, 2, 2], limit=sizes, shares_node=shares)
        found = Search(gangs, np.random.default_rng(0)).run(filled(gangs)[:, None, :], 100, 20, 20)
        assert sorted(found.best.sum(axis=0).tolist()) == expected


def test_what_is_held_is_cut_where_others_took_room() -> None:
    base = np.array([[4, 0]], dtype=np.int16)
    found = search(problem(CURVES[:2], 1, [3], base=base))
    assert found.best.sum() <= 3


def test_what_is_held_is_cut_where_others_took_of_the_quota() -> None:
    """Jobs that are not shared out come before the search, and leave one GPU to both: not what they hold."""
    base = np.array([[1, 1, 1]], dtype=np.int16)
    both = np.array([True, True, False])
    tight = problem(CURVES[:3], 1, [4], base=base, quotas=((both, 1),))
    found = search(tight)
    assert (found.states.sum(axis=0)[:, both].sum(axis=1) <= 1).all(), "nor what is held"
    assert found.best[:, 2].sum() >= 1, "a tenant without a quota is not asked to make room"


def repaired(given: SharingProblem, *members: list[list[int]]) -> list[list[list[int]]]:
    """Members [node, job] as repair leaves them."""
    states = np.stack([np.array(member, dtype=np.int8) for member in members], axis=1)
    left = Search(given, np.random.default_rng(0)).repaired(np.ascontiguousarray(states))
    matrices: list[list[list[int]]] = left.transpose(1, 0, 2).tolist()
    return matrices


def test_a_job_shrinks_to_what_the_quota_leaves() -> None:
    """Three GPUs together: who is first keeps them, the next has the rest; on the node where it has most."""
    both = np.array([True, True, False])
    tight = problem(CURVES[:3], 2, [4, 4], quotas=((both, 3),), shares_node=True)
    assert repaired(
        tight, [[2, 2, 0], [0, 0, 4]], [[4, 0, 0], [0, 2, 2]], [[1, 1, 0], [0, 3, 1]], [[1, 2, 0], [0, 0, 4]]
    ) == [[[2, 1, 0], [0, 0, 4]], [[3, 0, 0], [0, 0, 2]], [[1, 0, 0], [0, 2, 1]], [[1, 2, 0], [0, 0, 4]]]


def test_who_cannot_use_what_the_quota_leaves_has_none_of_it() -> None:
    """The first of three can use one or four GPUs, the second two or four, the third any number."""
    sizes = np.array([[0, 1, 1, 1, 4], [0, 0, 2, 2, 4], [0, 1, 2, 3, 4]], dtype=np.int16)
    sizes = np.concatenate((sizes, np.repeat(sizes[:, -1:], 12, axis=1)), axis=1)
    quota = np.array([True, True, True])
    tight = problem(CURVES[:3], 4, [4, 4, 4], limit=sizes, quotas=((quota, 2),))
    assert repaired(tight, [[4, 0, 0], [0, 4, 0], [0, 0, 4]]) == [[[1, 0, 0], [0, 0, 0], [0, 0, 1]]]


# -- with which a search begins --------------------------------------------------------------------


def test_matrices_of_the_last_search() -> None:
    """Rows that have gone leave, new ones hold nothing; on another cluster nothing is carried over."""
    states = np.arange(12, dtype=np.int16).reshape(2, 2, 3)
    before = {"rows": np.array([4, 7, 9]), "states": states}
    now = carried(before, np.array([9, 11, 4]), 2)
    assert now[:, :, 0].tolist() == states[:, :, 2].tolist()
    assert not now[:, :, 1].any()
    assert now[:, :, 2].tolist() == states[:, :, 0].tolist()
    assert carried(before, np.array([9]), 3).shape == (3, 0, 1)
    assert carried(None, np.array([9]), 3).shape == (3, 0, 1)


def test_everybody_has_its_least_size_where_there_is_room() -> None:
    sizes = np.tile(np.array([0, 0, *([2] * 15)], dtype=np.int16), (4, 1))
    base = np.array([[2, 0, 0, 0], [0, 0, 0, 0]], dtype=np.int16)
    some = filled(problem(CURVES[:4], 1, [2, 4], base=base, limit=sizes))
    assert some.tolist() == [[2, 0, 0, 0], [0, 2, 2, 0]]


def test_cells() -> None:
    """Who holds GPUs stays in its cell, who waits goes where there is room, who spans two is left alone."""
    base = np.zeros((4, 4), dtype=np.int16)
    base[0, 0], base[1, 1], base[2, 1] = 3, 1, 1
    capacity = np.full(4, 4, dtype=np.int16)
    every = np.ones(base.shape, dtype=bool)
    cells = cells_of(base, every, np.zeros(4, dtype=bool), capacity, 2)
    assert [nodes.tolist() for nodes, _ in cells] == [[0, 1], [2, 3]]
    assert [rows.tolist() for _, rows in cells] == [[0], [2, 3]]
    assert capacity.tolist() == [4, 3, 3, 4]
    assert len(cells_of(base, every, np.zeros(4, dtype=bool), capacity, 4)) == 1
