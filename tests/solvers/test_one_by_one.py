"""GPUs handed out one by one: worked examples of systems/afs.md for AFS and the rules beside it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filling_rules import fewest_first, largest_saving, shortest_first
from rota.solvers.one_by_one import Filling, afs

LIN = tuple(float(k) for k in range(9))
CON = (0.0, 1.0, 1.6, 2.0, 2.2)
LONG = (0.0, 1.0, 1.4, 1.6, 1.7, 1.75, 1.76, 1.77, 1.78)


def _filling(curves) -> Filling:
    return Filling(curves, [tuple(range(1, len(curve))) for curve in curves])


def _afs_l(filling, work):
    alone = [w / curve[1] for w, curve in zip(work, filling.rates, strict=True)]
    return afs(filling, alone, work)


RULES = {
    "afs": _afs_l,
    "optimus": largest_saving,
    "srtf": lambda filling, work: shortest_first(work),
    "max-min": lambda filling, work: fewest_first(filling),
}

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
    filling.fill(gpus, RULES[rule](filling, [float(w) for w in work[::order]]))
    assert filling.share[::order] == shares, why


@pytest.mark.parametrize(
    ("curves", "work", "gpus", "order"),
    [((LIN[:5], CON), (20.0, 100.0), 4, "SLSS"), ((LONG, LIN), (10.0, 100.0), 8, "SLLSLLLL")],
)
def test_order_of_grants(curves, work, gpus, order):
    """A rule with the same denominator on both sides gives another order, and 2/2 in the first example."""
    filling = _filling(curves)
    filling.fill(gpus, _afs_l(filling, work))
    assert "".join("SL"[job] for job in filling.grants) == order


# a holds 2 GPUs, b 4; one more speeds them up from 2 to 2.6 and from 4 to 5 or 6
@pytest.mark.parametrize(("faster_b", "winner"), [(5.0, 0), (6.0, 1)])
def test_pair_rule(faster_b, winner):
    """Card 5: a gains 0.3; b gains 1 of 5, or 2 of 6."""
    filling = Filling([(0, 1, 2, 2.6), (0, 1, 2, 3, 4, faster_b)], [(2, 3), (4, 5)])
    filling.fill(6, fewest_first(filling))
    assert filling.share == [2, 4]
    assert int(_afs_l(filling, [10.0, 100.0])(0, 1)) == winner


def test_saturated_job_gets_no_more():
    """A GPU that adds nothing is left to others, or idle."""
    flat = (0.0, 1.0, 2.0, 2.0, 2.0)
    filling = Filling([flat], [(1, 2, 3, 4)])
    assert filling.fill(4, _afs_l(filling, [10.0])) == [2]


def test_steps_of_several_gpus():
    """A gang of 4 comes before anyone grows; powers of two are taken whole or not at all."""
    filling = Filling([LIN, LIN, LIN], [(1, 2, 3, 4), (4,), (1, 2, 4, 8)])
    assert filling.fill(8, _afs_l(filling, [1.0, 50.0, 10.0])) == [2, 4, 2]
    assert filling.grants[:3] == [0, 2, 1]


def test_gang_that_does_not_fit_is_passed_by():
    filling = Filling([LIN, LIN], [(8,), (1, 2)])
    assert filling.fill(4, _afs_l(filling, [1.0, 50.0])) == [0, 2]


def test_without_lengths_the_less_served_ends_first():
    """AFS-P: who has received less takes the part of the short job."""
    for served, shares in (((0.0, 50.0), [2, 1, 1]), ((50.0, 0.0), [1, 2, 1])):
        filling = _filling((CON, CON, CON))
        assert filling.fill(4, afs(filling, [*served, 70.0])) == shares


@given(
    st.lists(st.tuples(st.sampled_from([LIN, CON, LONG]), st.floats(1, 1000)), min_size=1, max_size=9),
    st.integers(0, 20),
    st.sampled_from(list(RULES)),
)
def test_never_more_than_there_is(jobs, gpus, rule):
    """Shares fit, nobody exceeds its curve, and no GPU idles that a job could use."""
    curves = [curve for curve, _ in jobs]
    filling = _filling(curves)
    shares = filling.fill(gpus, RULES[rule](filling, [work for _, work in jobs]))
    assert sum(shares) <= gpus
    assert all(share < len(curve) for share, curve in zip(shares, curves, strict=True))
    full = all(share == len(curve) - 1 for share, curve in zip(shares, curves, strict=True))
    assert full or sum(shares) == gpus
    if rule in ("afs", "optimus"):
        assert gpus < len(jobs) or min(shares) >= 1, "every job has one GPU before anyone has two"
