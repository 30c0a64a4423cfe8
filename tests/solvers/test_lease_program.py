"""Chronus' integer program: the card's examples 3 to 5, and random ones against trying everything."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.solvers.lease_program import Candidate, plan_leases
from rota.solvers.leases import Demand
from tiers import examples

MAXIMISE, MINIMISE = 1, -1


def candidate(job, gpus, need, last, value=10.0, runs=False):
    return Candidate(job, Demand(gpus, need, last), value, runs)


@pytest.mark.parametrize(("towards", "lease", "value"), [(MAXIMISE, 0, 11.0), (MINIMISE, 1, 10.0)])
def test_card_3_now_or_later(towards, lease, value):
    plan = plan_leases([candidate(0, 8, 1, 2)], np.full(2, 8), towards)
    assert plan.leases[0].tolist() == [lease]
    assert plan.value == pytest.approx(value)
    assert not plan.is_cut


@pytest.mark.parametrize(("towards", "value"), [(MAXIMISE, 16.0), (MINIMISE, 14.0)])
def test_card_4_a_soft_job_gives_way_to_a_strict_one(towards, value):
    soft = [candidate(0, 4, 2, 1, 10.0), candidate(0, 4, 2, 2, 8.0), candidate(0, 4, 2, 3, 5.0)]
    plan = plan_leases([*soft, candidate(1, 4, 1, 1)], np.full(3, 4), towards)
    assert plan.chosen.tolist() == [2, 3]
    assert [leases.tolist() for leases in plan.leases] == [[1, 2], [0]]
    assert plan.value == pytest.approx(value)


@pytest.mark.parametrize(("towards", "now", "value"), [(MAXIMISE, 8, 31.0), (MINIMISE, 4, 29.5)])
def test_card_5_gpus_in_use_now(towards, now, value):
    jobs = [candidate(0, 4, 2, 4), candidate(1, 8, 1, 4), candidate(2, 4, 1, 1)]
    plan = plan_leases(jobs, np.full(4, 8), towards)
    used = [one.demand.gpus for one, leases in zip(jobs, plan.leases, strict=True) if 0 in leases]
    assert sum(used) == now
    assert plan.value == pytest.approx(value)


def test_who_runs_already_runs_on():
    jobs = [candidate(0, 4, 1, 3), candidate(1, 4, 1, 3, runs=True), candidate(2, 4, 1, 3)]
    plan = plan_leases(jobs, np.full(3, 4), MAXIMISE)
    assert plan.leases[1].tolist() == [0]


def test_nobody_and_no_way():
    assert plan_leases([], np.full(1, 4), MAXIMISE).value == 0.0
    assert plan_leases([candidate(0, 8, 1, 1)], np.full(1, 4), MAXIMISE) is None
    assert plan_leases([candidate(0, 4, 2, 2), candidate(1, 4, 2, 3)], np.full(3, 4), MINIMISE) is None


def best(jobs, levels, capacity, towards):
    """The best value by trying every choice of levels and leases."""
    options = [
        [
            (level.value, level.demand.gpus, leases)
            for level in levels[job]
            for leases in combinations(range(min(level.demand.last, len(capacity))), level.demand.need)
        ]
        for job in range(jobs)
    ]
    found = None
    for chosen in product(*options):
        used = np.zeros(len(capacity))
        for _, gpus, leases in chosen:
            used[list(leases)] += gpus
        if (used <= capacity).all():
            value = sum(one[0] for one in chosen) + towards * used[0] / max(capacity)
            found = value if found is None else max(found, value)
    return found


@st.composite
def programs(draw):
    leases = draw(st.integers(1, 4))
    levels = []
    for job in range(draw(st.integers(1, 3))):
        gpus, need = draw(st.sampled_from([1, 2, 4])), draw(st.integers(1, 2))
        lasts = draw(st.lists(st.integers(need, 4), min_size=1, max_size=2, unique=True))
        values = (10.0, 5.0)
        levels.append([candidate(job, gpus, need, last, values[i]) for i, last in enumerate(sorted(lasts))])
    return levels, np.full(leases, draw(st.sampled_from([4, 6])))


@given(programs(), st.sampled_from([MAXIMISE, MINIMISE]))
@examples(60)
def test_the_plan_is_the_best_there_is(program, towards):
    levels, capacity = program
    plan = plan_leases([one for own in levels for one in own], capacity, towards)
    value = best(len(levels), levels, capacity, towards)
    assert (plan is None) == (value is None)
    if plan is not None:
        assert plan.value == pytest.approx(value, abs=1e-3)
