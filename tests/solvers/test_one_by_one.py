"""GPUs handed out one by one: worked examples of systems/afs.md for AFS and the rules beside it."""

from __future__ import annotations

import itertools
import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filling_rules import apathetic, fewest_first, fill_slowly, largest_saving, shortest_first
from rota.solvers.one_by_one import Filling, fill_largest, fill_savings
from rota.solvers.tournament import fill_apathetic

LIN = tuple(float(k) for k in range(9))
CON = (0.0, 1.0, 1.6, 2.0, 2.2)
LONG = (0.0, 1.0, 1.4, 1.6, 1.7, 1.75, 1.76, 1.77, 1.78)


def _filling(curves) -> Filling:
    return Filling(curves, [tuple(range(1, len(curve))) for curve in curves])


def _afs_l(filling, gpus, work):
    return fill_apathetic(filling, gpus, _alone(filling, work), work)


def _alone(filling, work):
    return [w / curve[1] for w, curve in zip(work, filling.rates, strict=True)]


RULES = {"afs": _afs_l, "optimus": largest_saving, "srtf": shortest_first, "max-min": fewest_first}

EXAMPLES = [
    # curves               work           GPUs  rule       shares     why
    ((LIN[:5], CON), (20, 100), 4, "afs", [3, 1], "card 1: short and efficient"),
    ((LIN[:5], CON), (20, 100), 4, "optimus", [1, 3], "card 1: greedy over present jobs"),
    ((LIN[:5], CON), (20, 100), 4, "max-min", [2, 2], "card 1"),
    ((LIN[:5], CON), (20, 100), 4, "srtf", [4, 0], "card 1: all to the shortest"),
    ((CON, LIN[:5]), (20, 100), 4, "afs", [2, 2], "card 2: the short one scales badly"),
    ((CON, CON), (20, 100), 4, "afs", [2, 2], "card 3"),
    ((CON, CON, CON), (10, 30, 90), 4, "afs", [2, 1, 1], "card 4"),
    ((CON, CON, CON), (10, 30, 90), 6, "afs", [2, 2, 2], "card 4"),
    ((LONG, LIN), (10, 100), 8, "afs", [2, 6], "card 4: a long curve"),
    ((LIN[:5], LIN[:5]), (20, 100), 4, "afs", [2, 2], "two linear jobs share evenly"),
    ((CON,) * 3, (30, 10, 20), 2, "afs", [0, 1, 1], "more jobs than GPUs: the longest waits"),
]


@pytest.mark.parametrize("turned", [False, True], ids=["", "reversed"])
@pytest.mark.parametrize(("curves", "work", "gpus", "rule", "shares", "why"), EXAMPLES)
def test_shares(curves, work, gpus, rule, shares, why, turned):
    """The shares of the card, whatever the order of arrival."""
    order = -1 if turned else 1
    filling = _filling(curves[::order])
    RULES[rule](filling, gpus, [float(w) for w in work[::order]])
    assert filling.share[::order] == shares, why


@pytest.mark.parametrize(
    ("curves", "work", "gpus", "order"),
    [((LIN[:5], CON), (20.0, 100.0), 4, "SLSS"), ((LONG, LIN), (10.0, 100.0), 8, "SLLSLLLL")],
)
def test_order_of_grants(curves, work, gpus, order):
    """A rule with the same denominator on both sides gives another order, and 2/2 in the first example."""
    filling = _filling(curves)
    _afs_l(filling, gpus, work)
    assert "".join("SL"[job] for job in filling.grants) == order


# a holds 2 GPUs, b 4; one more speeds them up from 2 to 2.6 and from 4 to 5 or 6
@pytest.mark.parametrize(("faster_b", "winner"), [(5.0, 0), (6.0, 1)])
def test_pair_rule(faster_b, winner):
    """Card 5: a gains 0.3; b gains 1 of 5, or 2 of 6."""
    filling = Filling([(0, 1, 2, 2.6), (0, 1, 2, 3, 4, faster_b)], [(2, 3), (4, 5)])
    assert _afs_l(filling, 7, [10.0, 100.0]) == [2 + (winner == 0), 4 + (winner == 1)]


def test_saturated_job_gets_no_more():
    """A GPU that adds nothing is left to others, or idle."""
    flat = (0.0, 1.0, 2.0, 2.0, 2.0)
    filling = Filling([flat], [(1, 2, 3, 4)])
    assert _afs_l(filling, 4, [10.0]) == [2]


def test_steps_of_several_gpus():
    """A gang of 4 comes before anyone grows; powers of two are taken whole or not at all."""
    filling = Filling([LIN, LIN, LIN], [(1, 2, 3, 4), (4,), (1, 2, 4, 8)])
    assert _afs_l(filling, 8, [1.0, 50.0, 10.0]) == [2, 4, 2]
    assert filling.grants[:3] == [0, 2, 1]


def test_gang_that_does_not_fit_is_passed_by():
    filling = Filling([LIN, LIN], [(8,), (1, 2)])
    assert _afs_l(filling, 4, [1.0, 50.0]) == [0, 2]


def test_without_lengths_the_less_served_ends_first():
    """AFS-P: who has received less takes the part of the short job."""
    for served, shares in (((0.0, 50.0), [2, 1, 1]), ((50.0, 0.0), [1, 2, 1])):
        filling = _filling((CON, CON, CON))
        assert fill_apathetic(filling, 4, [*served, 70.0]) == shares


@given(
    st.lists(st.tuples(st.sampled_from([LIN, CON, LONG]), st.floats(1, 1000)), min_size=1, max_size=9),
    st.integers(0, 20),
    st.sampled_from(list(RULES)),
)
def test_never_more_than_there_is(jobs, gpus, rule):
    """Shares fit, nobody exceeds its curve, and no GPU idles that a job could use."""
    curves = [curve for curve, _ in jobs]
    filling = _filling(curves)
    shares = RULES[rule](filling, gpus, [work for _, work in jobs])
    assert sum(shares) <= gpus
    assert all(share < len(curve) for share, curve in zip(shares, curves, strict=True))
    full = all(share == len(curve) - 1 for share, curve in zip(shares, curves, strict=True))
    assert full or sum(shares) == gpus
    if rule in ("afs", "optimus"):
        assert gpus < len(jobs) or min(shares) >= 1, "every job has one GPU before anyone has two"


def test_step_that_is_not_worth_it():
    """A key of minus infinity ends a job's growth, not that of others."""
    filling = _filling((CON, LIN))
    gains = {0: [math.inf, 0.6, -math.inf], 1: [math.inf] + [0.1] * 3 + [-math.inf]}
    assert fill_largest(filling, 8, lambda job: gains[job][filling.share[job]]) == [2, 4]


@pytest.mark.parametrize(("order", "winner"), [((0, 1, 2), 2), ((1, 2, 0), 0), ((2, 0, 1), 1)])
def test_relation_that_is_not_transitive(order, winner):
    """0 is better than 1, 1 than 2 and 2 than 0: the walk in order of arrival decides."""
    rates = [(0.0, 1.0, 1.30), (0.0, 1.0, 1.42), (0.0, 1.0, 1.45)]  # gains .3, .42, .45; later .23, .296, .31
    filling = Filling([rates[job] for job in order], [(1, 2)] * 3)
    work = [float(1 + job) for job in order]
    fill_apathetic(filling, 4, work, work)
    assert order[filling.grants[-1]] == winner


STEPS = [(1, 2, 3, 4, 5, 6, 7, 8), (1, 2, 4, 8), (2, 4, 6, 8), (4, 8), (3,)]


@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 6), min_size=8, max_size=8),
            st.sampled_from(STEPS),
            st.integers(1, 40),
        ),
        min_size=1,
        max_size=12,
    ),
    st.integers(0, 60),
    st.booleans(),
)
def test_as_the_whole_tournament(jobs, gpus, lengths):
    """Step by step the same as comparing all with all, on any curves, also those that are not concave."""
    rates = [[0.0, *itertools.accumulate((float(g) for g in gains), initial=1.0)] for gains, _, _ in jobs]
    work = [float(w) for _, _, w in jobs]
    fast, slow = (Filling(rates, [counts for _, counts, _ in jobs]) for _ in range(2))
    fill_apathetic(fast, gpus, work, work if lengths else None)
    fill_slowly(slow, gpus, apathetic(slow, work, work if lengths else None))
    assert fast.grants == slow.grants
    assert fast.share == slow.share


@pytest.mark.parametrize("seed", range(20))
def test_savings_of_time_are_the_largest_keys(seed: int) -> None:
    """`fill_savings` hands out what `fill_largest` does with the same saving as a key."""
    random = Random(seed)
    jobs = random.randint(1, 9)
    curves = [[0.0, *(random.uniform(0.5, 4.0) * k**0.7 for k in range(1, 9))] for _ in range(jobs)]
    counts = [random.choice(((1, 2, 3, 4, 5, 6, 7, 8), (1, 2, 4, 8), (2, 4), (3,))) for _ in range(jobs)]
    work = [random.uniform(1.0, 100.0) for _ in range(jobs)]
    gpus = random.randint(0, 30)
    filling = Filling(curves, counts)

    def saving(job: int) -> float:
        slow, fast = filling.speeds(job)
        return (1.0 / slow - 1.0 / fast) * work[job] / filling.step(job) if slow else math.inf

    seconds = [[1.0 / rate if rate else math.inf for rate in curve] for curve in curves]
    assert fill_savings(seconds, work, counts, gpus) == fill_largest(filling, gpus, saving)
