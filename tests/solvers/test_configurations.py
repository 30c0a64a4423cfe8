"""At most one configuration for each job: the cheapest, or what the limits allow."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.solvers.configurations import NOTHING, ConfigurationOptions, SearchLimits, assign
from tiers import examples


def _options(rows: list[tuple[int, int, float, float]]) -> ConfigurationOptions:
    """From (job, kind, units, cost)."""
    job, kind, units, cost = zip(*rows, strict=True) if rows else ((), (), (), ())
    return ConfigurationOptions(
        np.array(job, dtype=np.int64),
        np.array(kind, dtype=np.int64),
        np.array(units, float),
        np.array(cost, float),
    )


def _best(options: ConfigurationOptions, jobs: int, capacities: list[float]) -> float:
    """By trying everything."""
    menus = [[None, *np.flatnonzero(options.job == job).tolist()] for job in range(jobs)]
    best = 0.0
    for choice in itertools.product(*menus):
        taken = [place for place in choice if place is not None]
        used = (
            np.bincount(options.kind[taken], options.units[taken], len(capacities)) if taken else np.zeros(1)
        )
        if (used <= np.array(capacities) + 1e-9).all():
            best = min(best, float(options.cost[taken].sum()))
    return best


instances = st.lists(
    st.tuples(
        st.integers(0, 3), st.integers(0, 1), st.sampled_from([1.0, 2.0, 3.0, 4.0]), st.integers(-110, 40)
    ),
    max_size=14,
)


@examples(100)
@given(rows=instances, room=st.tuples(st.integers(0, 6), st.integers(0, 6)))
def test_finds_the_cheapest(rows, room):
    options = _options(sorted((job, kind, units, cost / 100.0) for job, kind, units, cost in rows))
    capacities = np.array(room, float)
    found = assign(options, 4, capacities)
    taken = found.option[found.option != NOTHING]
    assert options.job[taken].tolist() == np.flatnonzero(found.option != NOTHING).tolist()
    assert (np.bincount(options.kind[taken], options.units[taken], 2) <= capacities + 1e-9).all()
    assert found.cost == pytest.approx(float(options.cost[taken].sum()))
    assert found.cost == pytest.approx(_best(options, 4, list(room)), abs=1e-6)
    assert found.bound <= found.cost
    assert not found.is_cut


def _large(jobs: int) -> tuple[ConfigurationOptions, np.ndarray]:
    rng = np.random.default_rng(5)
    rows = [
        (job, kind, float(units), round(speed * units**-0.4, 2) - 1.1)
        for job in range(jobs)
        for kind, speed in enumerate(rng.uniform(0.4, 1.0, 3))
        for units in (1, 2, 4, 8, 16)
    ]
    return _options(rows), np.full(3, 1.5 * jobs)


def test_within_the_gap():
    options, capacities = _large(300)
    exact, rough = assign(options, 300, capacities), assign(options, 300, capacities, SearchLimits(gap=0.5))
    assert exact.cost <= rough.cost <= exact.cost + 0.5
    assert rough.bound <= exact.cost + 1e-6


def test_rounding_alone_misses_little():
    """Without branch and bound at most one job for each capacity is less well off than it might be."""
    options, capacities = _large(300)
    rounded = assign(options, 300, capacities, SearchLimits(max_columns=0))
    assert rounded.cost - rounded.bound <= 3 * 1.1
    used = np.bincount(options.kind[rounded.option], options.units[rounded.option], 3)
    assert (used <= capacities).all()
    assert rounded.is_cut == (rounded.cost - rounded.bound > 1e-6)


def test_no_options():
    found = assign(_options([]), 3, np.array([4.0]))
    assert (found.option.tolist(), found.cost, found.is_cut) == ([NOTHING] * 3, 0.0, False)
