"""Gavel's objectives: the worked examples of docs/systems/gavel.md, and what holds for any input."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gavel_problem import TIES, TWO, answer, asked, obtained
from rota.model.tenants import Tenant
from rota.solvers import division as division_module
from rota.solvers.interior import NotInsideError
from rota.stages.round_demand import PairRates
from rota.systems.gavel import entries as entries_module
from rota.systems.gavel import hierarchy as hierarchy_module
from rota.systems.gavel.system import OBJECTIVES, GavelObjective, Inside, TieRule
from tiers import examples


@pytest.mark.parametrize("tie", TIES)
def test_makespan(tie):
    """4,000 and 2,000 iterations on (4,1) and (2,1): 10,000/7 s, with x = (0.6, 0.4), (0.4, 0.6)."""
    shares = answer("makespan", TWO, work_left=[4000, 2000], tie=tie)
    assert shares.fractions == pytest.approx(np.array([[0.6, 0.4], [0.4, 0.6]]), abs=2e-3)
    assert (np.array([4000, 2000]) / obtained(shares, TWO)).max() == pytest.approx(1e4 / 7, rel=2e-4)


def test_another_optimum_will_do_where_nobody_asked_for_the_point_inside(monkeypatch):
    """Should the method end nowhere, who named no tie gets the largest sum; who named this one is told."""

    def nowhere(*_):
        raise NotInsideError("the nearest point misses the optimum by 1")

    monkeypatch.setattr(division_module, "_inside", nowhere)
    chosen, free = (answer("max_min", TWO, tie=tie).fractions for tie in (TieRule.SUM, TieRule.AUTO))
    assert free.tolist() == chosen.tolist()
    with pytest.raises(NotInsideError):
        answer("max_min", TWO, tie=TieRule.INTERIOR)


@pytest.mark.parametrize("tie", TIES)
def test_throughput(tie):
    shares = answer("throughput", TWO, tie=tie)
    assert obtained(shares, TWO).sum() == pytest.approx(5.0, rel=1e-5)


@pytest.mark.parametrize(
    ("left", "deadline", "value", "why"),
    [
        ([1, 1], [np.inf, np.inf], 10 / 3, "job 0 on the V100"),
        ([1, 1500], [np.inf, 1000], 3.0, "job 1 needs 1.5 a second: all halves"),
        ([1, 1e9], [np.inf, 1000], 10 / 3, "a deadline that cannot be kept binds nobody"),
        ([1, 1500], [np.inf, -1], 10 / 3, "one that is over binds nobody"),
    ],
)
def test_cost(left, deadline, value, why):
    """Work per dollar at prices 3 and 0.5."""
    shares = answer("cost", TWO, prices=[3, 0.5], work_left=left, deadline_in_s=deadline)
    per_dollar = (shares.fractions * np.array(TWO) / [3, 0.5]).sum()
    assert per_dollar == pytest.approx(value, rel=1e-4), why


@pytest.mark.parametrize(("age", "rho"), [([0, 0], 1.0), ([0, 1000], 1.580527)])
@pytest.mark.parametrize("tie", TIES)
def test_finish_time(age, rho, tie):
    """Isolated they take 1,600 and 1,333.33 s; who has waited 1,000 s can still be 1.58 times as late."""
    left = np.array([4000.0, 2000.0])
    shares = answer("finish_time", TWO, work_left=left, age_s=age, work_done=[0, 0], tie=tie)
    alone_s = left / np.array([2.5, 1.5])
    assert ((np.array(age) + left / obtained(shares, TWO)) / alone_s).max() == pytest.approx(rho, rel=1e-3)


def test_isolated_time_adds_up_by_the_work_done():
    """10 units of work at an isolated rate of 0.5 were worth 20 s."""
    own = {}
    first = {"work_left": [100, 100], "age_s": [0, 0], "work_done": [0, 0]}
    answer("finish_time", [[1], [1]], capacity=[1], own=own, **first)
    later = {"work_left": [90, 100], "age_s": [10, 10], "work_done": [10, 0]}
    answer("finish_time", [[1], [1]], capacity=[1], own=own, **later)
    assert own["isolated"]["so_far_s"].tolist() == [20.0, 0.0]


@pytest.mark.parametrize("tie", TIES)
@pytest.mark.parametrize("objective", ["max_min", "hierarchy"])
@pytest.mark.parametrize(
    ("weights", "shares"), [([1, 0], [1, 0]), ([0, 3], [0, 1]), ([0, 0], [0.5, 0.5]), ([0, 1e-9], [0, 1])]
)
def test_weight_0_is_served_behind_all_others(objective, tie, weights, shares):
    """On one GPU it waits; if nobody has any weight all are alike; where there is room it runs all the time,
    unless the tie is silent about who is above the least share."""
    is_silent = objective == "max_min" and tie is TieRule.INTERIOR
    for capacity, expected in ((1, shares),) if is_silent else ((1, shares), (2, [1, 1])):
        problem = asked(objective, [[1], [1]], capacity=[capacity], tie=tie)
        problem.__dict__.pop("weights")
        problem.__dict__["tenants"] = ["", ""]
        problem.snapshot.jobs.weight = np.array(weights, dtype=float)
        time = OBJECTIVES[GavelObjective(objective)](problem).fractions.ravel()
        assert time == pytest.approx(expected, abs=2e-6 if capacity == 1 else 1e-3)


HALVES = (Tenant("a", weight=1.0), Tenant("b", weight=2.0))


@pytest.mark.parametrize(
    ("gpus", "tenants", "inside", "shares"),
    [
        (4, "aaabb", Inside.FAIRNESS, [2 / 3, 2 / 3, 2 / 3, 1, 1]),
        (2, "aaabb", Inside.FAIRNESS, [2 / 9, 2 / 9, 2 / 9, 2 / 3, 2 / 3]),
        (4, "aaabbb", Inside.FAIRNESS, [4 / 9, 4 / 9, 4 / 9, 8 / 9, 8 / 9, 8 / 9]),
    ],
)
@pytest.mark.parametrize("tie", TIES)
def test_hierarchy(gpus, tenants, inside, shares, tie):
    """Card example 4: weights 1 and 2, jobs of one GPU, GPUs of one type."""
    assert _hierarchy(gpus, tenants, inside, tie) == pytest.approx(shares, rel=1e-3)


@pytest.mark.parametrize("tie", TIES)
@pytest.mark.parametrize(
    ("gpus", "shares"), [(4, [1, 1 / 3, 0, 1, 1, 2 / 3]), (2, [2 / 3, 0, 0, 1, 1 / 3, 0])]
)
def test_hierarchy_with_fifo_inside(gpus, shares, tie):
    """The first of each tenant rises, by 1 and 2, until it has all its time; then the second."""
    assert _hierarchy(gpus, "aaabbb", Inside.FIFO, tie) == pytest.approx(shares, abs=2e-3)


@pytest.mark.parametrize("inside", [Inside.FAIRNESS, Inside.FIFO])
def test_tenants_without_jobs_take_nothing_from_the_others(inside):
    """Neither one that is configured and has none, nor one that nobody configured and has one."""
    more = (*HALVES, Tenant("idle", weight=50.0))
    for tie in TIES:
        alone = _hierarchy(2, "aaabb", inside, tie)
        assert _hierarchy(2, "aaabb", inside, tie, more) == pytest.approx(alone, abs=1e-9)
    assert _hierarchy(2, "abc", Inside.FAIRNESS, TieRule.SUM, more) == pytest.approx([0.5, 1, 0.5], rel=1e-3)


@pytest.mark.parametrize("tie", TIES)
def test_levels_above_the_last_that_is_told_apart_go_by_the_tie(tie, monkeypatch):
    """The lowest stands: b has all its time, nobody of a is below 1/3, and no GPU stays idle under a tie that
    looks at sums."""
    monkeypatch.setattr(hierarchy_module, "MOST_LEVELS", 1)
    shares = _hierarchy(4, "aaabb", Inside.FAIRNESS, tie)
    assert shares[3:] == pytest.approx([1, 1], rel=1e-3)
    assert min(shares[:3]) >= 1 / 3 - 1e-3
    assert tie is not TieRule.SUM or sum(shares) == pytest.approx(4, rel=1e-3)


def _hierarchy(gpus, tenants, inside, tie, configured=HALVES):
    problem = asked(
        "hierarchy", [[1]] * len(tenants), capacity=[gpus], tenants=configured, inside=inside, tie=tie
    )
    problem.__dict__["tenants"] = list(tenants)
    return OBJECTIVES[GavelObjective.HIERARCHY](problem).fractions.ravel()


def test_walks():
    """By arrival, or by what is left: who comes first has the fastest type that has room."""
    rates, gpus = [[4, 1], [3, 2], [2, 1]], [1, 1, 2]
    fifo = answer("fifo", rates, gpus=gpus, capacity=[1, 2])
    assert fifo.fractions.tolist() == [[1, 0], [0, 1], [0, 0]]
    shortest = answer("shortest", rates, gpus=gpus, capacity=[1, 2], work_left=[100, 3, 2])
    assert shortest.fractions.tolist() == [[0, 0], [1, 0], [0, 1]]


def test_fifo_stops_at_the_first_without_room_and_shortest_does_not():
    rates, gpus = [[1], [1], [1]], [1, 4, 1]
    assert answer("fifo", rates, gpus=gpus, capacity=[3]).fractions.ravel().tolist() == [1, 0, 0]
    left = answer("shortest", rates, gpus=gpus, capacity=[3], work_left=[1, 2, 3]).fractions.ravel()
    assert left.tolist() == [1, 0, 1]


def test_who_does_not_know_the_types_draws_one_and_stays():
    own = {}
    first = answer("fifo", [[1, 2]] * 4, capacity=[2, 2], aware=False, own=own).fractions
    again = answer("fifo", [[1, 2]] * 4, capacity=[2, 2], aware=False, own=own).fractions
    assert (first.sum(axis=1) == 1).all()
    assert np.array_equal(first, again)


TIMES = np.array([[150.0, 600], [100, 300], [1000, 1500]])


def test_allox():
    """Card example 6: the cheapest order costs 1,600; job 0 and then 2 on the first GPU, 1 on the second."""
    shares = answer("allox", 1.0 / TIMES, work_left=[1, 1, 1], age_s=[0, 0, 0])
    assert shares.fractions.tolist() == [[1, 0], [0, 1], [0, 0]]


@examples(40)
@given(st.lists(st.tuples(st.integers(1, 99), st.integers(1, 99)), min_size=1, max_size=4))
def test_allox_begins_the_best_order(times):
    """Who runs first on each GPU is first there in some order of least total completion time."""
    times = np.array(times, dtype=float)
    shares = answer("allox", 1.0 / times, work_left=np.ones(len(times)), age_s=np.zeros(len(times)))
    ran = {int(job): int(kind) for job, kind in zip(*np.nonzero(shares.fractions), strict=True)}
    best, firsts = np.inf, []
    for order in permutations(range(len(times))):
        for cut in range(len(times) + 1):
            lines = order[:cut], order[cut:]
            total = sum(np.cumsum(times[list(line), kind]).sum() for kind, line in enumerate(lines))
            first = {line[0]: kind for kind, line in enumerate(lines) if line}
            if total < best - 1e-9:
                best, firsts = total, [first]
            elif total <= best + 1e-9:
                firsts.append(first)
    assert ran in firsts


def test_allox_gives_gangs_no_fraction():
    """They run on what is idle."""
    shares = answer("allox", [[1], [1]], gpus=[1, 2], capacity=[2], work_left=[1, 1], age_s=[0, 0])
    assert shares.fractions.ravel().tolist() == [1, 0]


@pytest.mark.parametrize(
    ("alpha", "shares", "why"),
    [
        (1.0, [[0], [0], [1]], "the shortest of all"),
        (0.5, [[1], [0], [0]], "one GPU is free, so the oldest alone is looked at"),
        (0.7, [[0], [1], [0]], "the shorter of the two oldest"),
    ],
)
def test_allox_looks_at_the_longest_waiting(alpha, shares, why):
    found = answer(
        "allox", [[1], [1], [1]], capacity=[1], work_left=[9, 8, 7], age_s=[30, 20, 10], alpha=alpha
    )
    assert found.fractions.tolist() == shares, why


@pytest.mark.parametrize(
    ("runs", "stays", "why"),
    [
        ({}, 0, "nobody runs: whoever came first"),
        ({2: 0}, 2, "who runs there goes on until it is done"),
        ({2: 1}, 0, "who runs on another type does not run there"),
    ],
)
def test_allox_with_fewer_gpus_than_jobs_that_began_on_them(runs, stays, why):
    """A node was lost: one of three keeps the type, the others are matched like all that wait."""
    own = {"kinds": {0: 0, 1: 0, 2: 0}}
    left = {"work_left": [9, 8, 7, 6], "age_s": [4, 3, 2, 1]}
    shares = answer("allox", [[1, 1]] * 4, capacity=[1, 0], own=own, runs=runs, **left)
    assert [int(row) for row in np.flatnonzero(shares.fractions[:, 0])] == [stays], why
    assert own["kinds"] == {stays: 0}


def test_allox_moves_jobs_off_a_type_that_is_gone():
    """The only GPU on which it may begin is of the other type, and the shorter of two has it."""
    own = {"kinds": {0: 0, 1: 0}}
    left = {"work_left": [9, 1], "age_s": [0, 0]}
    shares = answer("allox", [[1, 1]] * 2, capacity=[0, 1], own=own, **left)
    assert shares.fractions.tolist() == [[0, 0], [0, 1]]


def test_proportional_looks_at_no_sizes():
    """Three jobs on 2 + 1 GPUs: 2/3 and 1/3 of the time of each, of the one that asks for two as well."""
    problem = asked("proportional", [[1, 1]] * 3, gpus=[1, 2, 1], capacity=[2, 1])
    shares = OBJECTIVES[GavelObjective.PROPORTIONAL](
        problem
    )  # more than there is: rounds carry out what fits
    assert shares.fractions == pytest.approx(np.array([[2 / 3, 1 / 3]] * 3))
    alone = answer("proportional", [[1, 1]], capacity=[2, 2])
    assert alone.fractions.tolist() == [[0.5, 0.5]]


# -- pairs -----------------------------------------------------------------------------------------

TOGETHER = PairRates(np.array([0, 1]), np.array([[[np.nan], [8.0]], [[7.0], [np.nan]]]))


@pytest.mark.parametrize("tie", TIES)
def test_two_that_share_obtain_more_than_by_turns(tie):
    """Card example 3: together 8 and 7 of 10: the least share is 0.72727."""
    shares = answer("max_min", [[10], [10]], capacity=[1], pairs=TOGETHER, tie=tie)
    assert shares.members.tolist() == [[0, -1], [1, -1], [0, 1]]
    assert shares.fractions.ravel() == pytest.approx([0, 1 / 11, 10 / 11], abs=1e-4)


@pytest.mark.parametrize("fast", [1, 10])
def test_without_types_a_pair_is_worth_what_it_keeps(fast):
    """8 and 7 of 10, or of 100 on a type ten times as fast: the share is that of one type of two."""
    both = np.array([8.0, 7.0])[:, None] * [1.0, fast]
    pairs = PairRates(np.array([0, 1]), np.array([[[np.nan] * 2, both[0]], [both[1], [np.nan] * 2]]))
    rates = [[10, 10 * fast]] * 2
    for capacity, paired in (((1, 0), 10 / 11), ((0, 1), 10 / 11), ((1, 1), 0.0)):
        shares = answer("max_min", rates, capacity=capacity, pairs=pairs, aware=False)
        assert shares.fractions[2].sum() == pytest.approx(paired, abs=1e-4)
    bad = PairRates(pairs.classes, pairs.rates / 2.0)
    assert len(answer("max_min", rates, pairs=bad, aware=False).members) == 2, "4 and 3.5 of 10: by turns"


def test_who_waits_runs_beside_who_came_first():
    fast = PairRates(np.array([0, 1]), np.array([[[np.nan], [8.0]], [[8.0], [np.nan]]]))
    shares = answer("fifo", [[10], [10]], capacity=[1], pairs=fast)
    assert shares.fractions.ravel().tolist() == [0, 0, 1], "8 and 8 of 10 are together 1.6"
    shares = answer("fifo", [[10], [10]], capacity=[1], pairs=TOGETHER)
    assert shares.fractions.ravel().tolist() == [1, 0], "8 and 7 are 1.5, which is not worth it"


@pytest.mark.parametrize(("capacity", "pairs"), [(1, 1), (2, 0)])
def test_pairs_at_random_only_if_gpus_do_not_suffice(capacity, pairs):
    own = {}
    shares = answer("packing", [[10], [10]], capacity=[capacity], pairs=TOGETHER, own=own)
    assert len(own.get("pairs", [])) == pairs
    assert shares.fractions.sum() == pytest.approx(1 if pairs else 2)


def test_classes_of_one_job_each_are_dealt_out_to_their_jobs(monkeypatch):
    """Beyond `MOST_APART` jobs classes are sorted: the first job, of the last class, gets its own time."""
    monkeypatch.setattr(entries_module, "MOST_APART", 0)
    rates = [[1.0, 1.0], [4.0, 1.0]]
    pairs = PairRates(np.array([1, 0]), np.full((2, 2, 2), 0.1))
    shares = answer("throughput", rates, capacity=[1, 1], pairs=pairs)
    assert shares.fractions.tolist() == [pytest.approx([0, 1]), pytest.approx([1, 0])]


def test_classes_that_are_alike_have_the_time_of_all_their_jobs(monkeypatch):
    """Two classes of two jobs with the same rates on four GPUs, no pair worth anything: all time for all."""
    monkeypatch.setattr(entries_module, "MOST_APART", 0)
    pairs = PairRates(np.array([0, 1, 0, 1]), np.full((2, 2, 1), 0.1))
    shares = answer("max_min", [[1.0]] * 4, capacity=[4], pairs=pairs, tie=TieRule.INTERIOR)
    assert shares.fractions.ravel().tolist() == pytest.approx([1.0] * 4, abs=1e-4)


@examples(25)
@given(st.data())
def test_jobs_that_are_alike_as_one_job_obtain_the_same(data):
    """The least share of a program of classes is that of a program of jobs; everybody in a class gets it."""
    jobs = data.draw(st.integers(2, 9))
    classes = np.array(data.draw(st.lists(st.integers(0, 2), min_size=jobs, max_size=jobs)))
    base = np.array([[4.0, 1.0], [2.0, 1.0], [1.0, 1.0]])
    beside = np.array(
        data.draw(st.lists(st.sampled_from([0.4, 0.6, 0.8, 0.95]), min_size=18, max_size=18))
    ).reshape(3, 3, 2)
    pairs = PairRates(classes, beside * base[:, None])
    capacity = data.draw(st.sampled_from([[1, 1], [2, 3], [1, 4]]))
    least = []
    for most_apart in (100, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(entries_module, "MOST_APART", most_apart)
            shares = answer("max_min", base[classes], capacity=capacity, pairs=pairs)
        own = np.zeros(jobs)
        for (one, other), x in zip(shares.members.tolist(), shares.fractions, strict=True):
            for job, mate in ((one, other), (other, one)):
                if job >= 0:
                    rates = base[classes[job]] if mate < 0 else np.nan_to_num(pairs.beside(job, mate)[0])
                    own[job] += (x * rates).sum()
        equal = base[classes] @ (np.array(capacity) / sum(capacity))
        least.append((own / equal).min())
    assert least[0] == pytest.approx(least[1], rel=1e-4)
