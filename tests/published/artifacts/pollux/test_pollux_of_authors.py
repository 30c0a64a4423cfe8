"""The search of the authors' simulator: what its objectives, its mutation and its repair do."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rota.published.artifacts.pollux.search import PublishedSearch, power_mean
from rota.published.artifacts.pollux.system import SpeedupsOfAuthors
from rota.systems.pollux.parameters import PolluxParameters
from rota.systems.pollux.search import SharingProblem
from rota.systems.pollux.speedups import Speedups, fitness


@pytest.mark.parametrize("power", [-1.0, 0.0, 0.5])
def test_power_mean_of_what_jobs_are_worth(power: float) -> None:
    speedups = np.array([[2.0, 0.5, 1.0]])
    table = np.tile(speedups.T[:, None], (1, 2, 1))
    worth = Speedups(PolluxParameters(p=power), 4, 4).worth(table, np.ones(3))
    mean = power_mean(worth[:, 0, 0, 0].mean(keepdims=True), power)
    assert mean.item() == pytest.approx(fitness(speedups[0], power))


def _search(base: object, capacity: list[int], seed: int = 0) -> PublishedSearch:
    """Jobs that gain the square root of their GPUs, half of it on several nodes; up to 8."""
    held = np.array(base, dtype=np.int16)
    jobs = held.shape[1]
    table = np.tile(np.sqrt(np.arange(9.0)), (jobs, 2, 1)) * np.array([1.0, 0.5])[None, :, None]
    worth = SpeedupsOfAuthors(PolluxParameters(), 4, 4 * len(capacity)).worth(table, np.ones(jobs))
    problem = SharingProblem(
        held,
        np.array(capacity, dtype=np.int16),
        worth,
        np.tile(np.arange(9, dtype=np.int16), (jobs, 1)),
        np.ones(held.shape, dtype=bool),
        np.zeros(jobs, dtype=bool),
    )
    return PublishedSearch(problem, np.random.default_rng(seed), -1.0, table)


def test_a_quarter_of_a_node_each() -> None:
    """Speedups count in nodes: four jobs with one of four GPUs each are worth a quarter."""
    search = _search(np.ones((1, 4)), [4])
    states = search.problem.base[:, None, :].astype(np.int8)
    score = search.scores(states)
    assert search._objectives(states, score)[0] == pytest.approx([0.25 + 1e-3, 4 / 4])


def test_utility_counts_nodes_in_use() -> None:
    """sqrt(2) of one node in use, and half of sqrt(4) of both."""
    search = _search(np.zeros((2, 1)), [4, 4])
    states = np.array([[[2], [2]], [[0], [2]]], dtype=np.int8)
    utility = search._objectives(states, search.scores(states))[:, 1]
    assert utility == pytest.approx([math.sqrt(2) / 4, 0.5 * 2 / 8])


def test_all_behind_the_second_on_several_nodes_leave() -> None:
    """B is the second on both nodes: it leaves them, and so does C, which is on one alone."""
    search = _search(np.zeros((3, 4)), [4, 4, 4])
    state = np.array([[1, 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 2]], dtype=np.int8)[:, None, :]
    assert search.repaired(state)[:, 0].tolist() == [[1, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 2]]


def test_nothing_is_raised_on_a_full_node() -> None:
    """However many jobs there are, two entries are raised on each node with room, on average."""
    held = np.zeros((2, 50))
    held[0, :4] = 1
    search = _search(held, [4, 4])
    before = np.repeat(search.problem.base[:, None, :].astype(np.int8), 400, axis=1)
    raised = np.zeros(400)
    for _ in range(10):
        states = before.copy()
        search._raise_some(states)
        assert (states[0] == before[0]).all()
        raised += (states[1] > before[1]).sum(axis=1)
    assert raised.mean() / 10 == pytest.approx(4 / 5, abs=0.1)  # a draw of 0 to 4 raises in 4 of 5


@pytest.mark.parametrize("seed", range(3))
def test_members_keep_the_rules_and_the_answer_is_the_fittest(seed: int) -> None:
    base = np.zeros((4, 6), dtype=np.int16)
    base[0, 0] = base[1, 0] = 2
    search = _search(base, [4] * 4, seed)
    bred = search.run(np.zeros((4, 0, 6), dtype=np.int16), 60, 30, 30)
    for member in bred.states.transpose(1, 0, 2):
        several = (member > 0).sum(axis=0) > 1
        assert (member.sum(axis=1) <= 4).all()
        assert (((member > 0) & several).sum(axis=1) <= 1).all()
        assert member.sum(axis=0).max() <= 8
    assert bred.scores[0] == bred.scores.max()
    assert len({member.tobytes() for member in bred.states.transpose(1, 0, 2)}) == bred.states.shape[1]
    assert (bred.best.sum(axis=0) > 0).all(), "16 GPUs are enough for six"
