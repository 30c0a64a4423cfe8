"""Breeding in C against the same with NumPy: populations equal to the bit, and who goes on."""

from __future__ import annotations

import numpy as np
import pytest

from rota import native
from rota.model.columns import Array
from rota.published.artifacts.pollux.search import PublishedSearch
from rota.solvers import breeding
from rota.solvers.breeding import survivors
from rota.systems.pollux.search import Search, SharingProblem
from tiers import each_seed, first

pytestmark = pytest.mark.skipif(native.library(breeding.SOURCE) is None, reason="`breeding.c` was not built")


def _problem(seed: int) -> SharingProblem:
    """Any rules: jobs that are pinned, sizes with gaps, nodes that are closed, hosts, quotas."""
    random = np.random.default_rng(seed)
    nodes, jobs, most = (int(random.integers(1, high)) for high in (9, 12, 20))
    capacity = random.integers(0, 9, nodes).astype(np.int16)
    base = np.zeros((nodes, jobs), dtype=np.int16)
    for job in range(jobs):
        node = random.integers(nodes)
        if base[node].sum() < capacity[node]:
            base[node, job] = random.integers(0, capacity[node] - base[node].sum() + 1)
    able = random.random((jobs, most + 1)) < 0.7
    able[:, 0] = True
    limit = np.maximum.accumulate(np.where(able, np.arange(most + 1), 0), axis=1).astype(np.int16)
    asked, room = random.random(jobs), random.random(nodes) * 9.0
    return SharingProblem(
        base,
        capacity,
        -1.0 / (random.random((jobs, 2, 2, most + 1)) + 1e-3),
        limit,
        (random.random(base.shape) < 0.9) | (base > 0),
        (random.random(jobs) < 0.2) & (base.sum(axis=0) <= most),
        shares_node=bool(random.random() < 0.3),
        most_nodes=int(random.integers(1, 6)),
        quotas=((random.random(jobs) < 0.5, int(random.integers(0, 9))),) if seed % 3 == 0 else (),
        hosts=((asked, room),) if seed % 4 == 0 else (),
    )


def _bred(problem: SharingProblem, seed: int, *, published: bool) -> tuple[bytes, bytes, Array]:
    random = np.random.default_rng(seed)
    speedups = np.random.default_rng(seed).random(problem.worth[:, 0].shape).cumsum(axis=2)
    search = PublishedSearch(problem, random, -1.0, speedups) if published else Search(problem, random)
    begins = np.zeros((len(problem.base), 0, problem.base.shape[1]), dtype=np.int16)
    found = search.run(begins, 30, 8, 8)
    return found.states.tobytes(), found.scores.tobytes(), random.random(1)


@pytest.mark.parametrize("published", [False, True])
@each_seed(12, 72, 300, at_once=12)
def test_the_same_population(seed: int, published: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the rules, and with as much chance drawn."""
    problem = _problem(seed)
    in_c = _bred(problem, seed, published=published)
    monkeypatch.setattr(breeding, "_library", lambda: None)
    assert _bred(problem, seed, published=published) == in_c


@pytest.mark.parametrize("seed", first(6, range(60)))
def test_who_goes_on(seed: int) -> None:
    """Few values, so that many are equal, and few numbers, so that many are copies."""
    random = np.random.default_rng(seed)
    members, span = int(random.integers(1, 80)), int(random.integers(2, 30))
    values = random.integers(0, span, (members, 2)).astype(float)
    prints = random.integers(0, 3 * span, members).astype(float)
    for many in (1, members // 2 + 1, members + 5):
        found = survivors(values, prints, many)
        assert found is not None
        order, gaps = PublishedSearch._kept(values, prints, many)
        assert found[0].tolist() == order.tolist()
        assert found[1].tolist() == gaps.tolist()


def test_states_in_another_order_are_no_states() -> None:
    """Addresses say nothing of how numbers lie."""
    rules = breeding.Breeding(np.ones((2, 3)), np.ones(2), np.ones((3, 5)), np.zeros(3), 2)
    with pytest.raises(AssertionError):
        rules.fit(np.ones((3, 4, 2), dtype=np.int8).transpose(2, 1, 0))
    assert rules.places(np.ones((2, 4, 3), dtype=np.int8)).shape == (4, 3)
