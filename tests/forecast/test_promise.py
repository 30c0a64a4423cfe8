"""Which deadline can be promised: the examples of the deadline-SLA page, common draws, and who else comes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given as example
from hypothesis import strategies as st
from test_forecast import PAST, given, moment_of

from play import job
from rota.errors import InputError
from rota.forecast.futures import ForecastRequest
from rota.forecast.promise import PromiseForecast, PromiseOutlook, PromiseRequest, promise, wilson
from rota.forecast.remaining import LONGEST, Durations, RemainingSource
from rota.forecast.sampling import ENOUGH, Misjudgement
from rota.knowledge.reward import ByDeadline
from rota.scheduler.moments.frozen import Frozen
from rota.scheduler.snapshot import table_of
from rota.worlds.simulated.faults import Breakdowns
from tiers import examples

EXACT = {"misjudgement": Misjudgement(0.0), "arrivals": False, "runs": 3}
ENDS_S = np.array([80.0, 85.0, 90.0, 92.0, 95.0, 99.0, 104.0, 110.0, 130.0, 160.0])


def asked(
    moment: Frozen, seconds: Sequence[float], agreements: Sequence[float | ByDeadline], **how: object
) -> PromiseOutlook:
    """What is promised to a job of one GPU; `seconds` are the durations of all rows, its own the last."""
    wanted = [one if isinstance(one, ByDeadline) else ByDeadline(one) for one in agreements]
    request = PromiseRequest(**{"asked": ForecastRequest(given(*seconds)), "runs": 12, **how})
    return promise(moment, job("NEW"), wanted, request)


def sampled(deadline_s: float, ends_s: np.ndarray = ENDS_S) -> PromiseForecast:
    agreement = ByDeadline(deadline_s, full=10.0, floor=-5.0, grace_s=50.0)
    chance = wilson(int((ends_s <= deadline_s).sum()), len(ends_s))
    reward = float(agreement.reward.at(ends_s).mean())
    return PromiseForecast(agreement, ends_s, chance, reward, 0.0, 0.0, 0.0, ())


def test_example_a2_the_tightest_promise() -> None:
    deadlines = (99.0, 104.0, 110.0, 130.0, 160.0)
    outlook = PromiseOutlook(0.0, "fifo", tuple(map(sampled, deadlines)), 10, 0.0, target=0.9, least=0.5)
    assert [one.chance.share for one in outlook.promises] == [0.6, 0.7, 0.8, 0.9, 1.0]
    assert outlook.pick.agreement.deadline_s == 130.0
    assert outlook.is_picked_in_time
    assert outlook.accepted == (), "ten samples are too few to be sure of any"
    assert outlook.offer_s(outlook.promises[0]) == 130.0, "nine in ten are done by then"
    strict = replace(outlook, promises=outlook.promises[:2])
    assert (strict.pick.agreement.deadline_s, strict.is_picked_in_time) == (104.0, False)


def test_example_a3_the_same_draws() -> None:
    """The same seed gives the same futures, two equal agreements the same ends, another seed others."""
    moment = moment_of("A 1x50 B 1x20@10", "1x1", at_s=10.0)
    one = asked(moment, (50.0, 20.0, 30.0), [120.0, 120.0, 140.0])
    again = asked(moment, (50.0, 20.0, 30.0), [120.0, 120.0, 140.0])
    other = asked(moment, (50.0, 20.0, 30.0), [120.0], seed=2)
    first, second, third = one.promises
    assert (first.reached_s == second.reached_s).all()
    assert [p.reached_s.tolist() for p in one.promises] == [p.reached_s.tolist() for p in again.promises]
    assert first.reached_s.tolist() != other.promises[0].reached_s.tolist()
    assert len(set(first.reached_s.tolist())) > 6, "estimates are wrong by another factor each time"
    assert (first.reached_s == third.reached_s).all(), "fifo looks at no deadline"


@examples(10)
@example(deadlines=st.lists(st.floats(20.0, 300.0), min_size=2, max_size=4), seed=st.integers(0, 99))
def test_example_a3_a_looser_deadline_is_no_less_likely(deadlines: list[float], seed: int) -> None:
    outlook = asked(moment_of("A 1x50", "1x1"), (50.0, 30.0), sorted(deadlines), runs=5, seed=seed)
    shares = [one.chance.share for one in outlook.promises]
    assert shares == sorted(shares)


def test_example_a4_a_trivial_cluster() -> None:
    in_time, late = asked(moment_of("A 1x50", "1x1"), (50.0, 30.0), [80.0, 79.0], **EXACT).promises
    assert in_time.reached_s.tolist() == [80.0] * 3
    assert (in_time.chance.share, late.chance.share) == (1.0, 0.0)
    assert in_time.gpu_hours == pytest.approx(30.0 / 3600.0)


def test_nodes_are_lost_and_come_back() -> None:
    """A job of 30 s on a node that is lost every minute: some futures are later, alike for each deadline."""
    moment, often = moment_of("A 1x50", "1x1"), Breakdowns(60.0, 5.0)
    how = {**EXACT, "runs": 30, "breakdowns": often}
    one, other = asked(moment, (50.0, 30.0), [80.0, 200.0], **how).promises
    assert one.reached_s.min() == 80.0
    assert 0.0 < one.chance.share < 1.0
    assert (one.reached_s == other.reached_s).all()
    again = asked(moment, (50.0, 30.0), [80.0], **how).promises[0]
    assert (one.reached_s == again.reached_s).all()


@pytest.mark.parametrize(
    ("work_s", "after_s", "chance", "lost"), [(10.0, 20.0, 1.0, 0.0), (15.0, 25.0, 0.0, -1.0)]
)
def test_example_a5_what_it_means_to_others(
    work_s: float, after_s: float, chance: float, lost: float
) -> None:
    """The new job, due first, goes before X, which was to be done at 10 and has time until 20."""
    moment = moment_of("X 1x10", "1x1", "edf", deadline_s=[20.0])
    (one,) = asked(moment, (10.0, work_s), [work_s], **EXACT).promises
    (other,) = one.others
    assert (other.id, other.before_s, other.after_s) == ("X", 10.0, after_s)
    assert (other.chance_before, other.chance_after) == (1.0, chance)
    assert (one.externality, one.delay_s) == (lost, after_s - 10.0)


@pytest.mark.parametrize(
    ("hits", "low", "is_accepted"), [(180, 0.8506, False), (188, 0.8981, False), (189, 0.9042, True)]
)
def test_example_a6_to_be_sure_is_more_than_to_expect(hits: int, low: float, is_accepted: bool) -> None:
    ends_s = np.array([1.0] * hits + [math.inf] * (200 - hits))
    one = sampled(10.0, ends_s)
    outlook = PromiseOutlook(0.0, "fifo", (one,), 200, 0.0, target=0.9, least=0.5)
    assert one.chance.low == pytest.approx(low, abs=5e-5)
    assert bool(outlook.accepted) is is_accepted
    assert outlook.pick is one
    assert outlook.is_picked_in_time, "the share itself is enough for all three"


def test_part_of_the_work() -> None:
    """Half of its 30 s are done 15 s after it starts, at 50."""
    agreement = ByDeadline(65.0, min_fraction=0.5)
    half, whole = asked(moment_of("A 1x50", "1x1"), (50.0, 30.0), [agreement, 65.0], **EXACT).promises
    assert (half.reached_s[0], half.chance.share) == (65.0, 1.0)
    assert (whole.reached_s[0], whole.chance.share) == (80.0, 0.0)


def test_who_is_not_done_within_the_horizon_is_late() -> None:
    (one,) = asked(moment_of("A 1x50", "1x1"), (50.0, 30.0), [20.0], **EXACT).promises
    assert one.reached_s.tolist() == [math.inf] * 3, "80 is beyond three times 20"
    assert (one.chance.share, one.reward) == (0.0, 0.0)


def test_cpu_time_is_a_limit() -> None:
    outlook = asked(moment_of("A 1x50", "1x1"), (50.0, 30.0), [80.0], runs=200, cpu_s=0.0)
    assert outlook.runs == 1


@pytest.mark.parametrize(("deadlines", "says"), [((), "no agreement"), ((5.0,), "is over already")])
def test_questions_without_an_answer(deadlines: tuple[float, ...], says: str) -> None:
    with pytest.raises(InputError, match=says):
        asked(moment_of("A 1x50", "1x1", at_s=10.0) if deadlines else moment_of("A 1x50"), (), deadlines)


# -- draws -----------------------------------------------------------------------------------------


def test_estimates_are_the_median() -> None:
    jobs = table_of(moment_of("A 1x50").snapshot(frozenset())).jobs
    ratios = Misjudgement(0.3).draw(jobs, np.zeros(4000, dtype=np.int64), np.random.default_rng(1))
    assert np.median(ratios) == pytest.approx(1.0, abs=0.03)
    assert np.log(ratios).std() == pytest.approx(0.3, abs=0.02)


@pytest.mark.parametrize(("past", "is_drawn_from"), [(ENOUGH, True), (ENOUGH - 1, False)])
def test_enough_of_a_past_is_drawn_from(past: int, is_drawn_from: bool) -> None:
    jobs = table_of(moment_of("A 1x50").snapshot(frozenset())).jobs
    misjudgement = Misjudgement(0.0, {"default": np.full(past, 2.5)})
    ratios = misjudgement.draw(jobs, np.zeros(5, dtype=np.int64), np.random.default_rng(1))
    assert ratios.tolist() == [2.5 if is_drawn_from else 1.0] * 5


def test_a_spread_below_nothing_is_refused() -> None:
    with pytest.raises(InputError, match=r"-0\.1 is no spread"):
        Misjudgement(-0.1)


def test_what_is_drawn_from_past_runs_is_not_made_wrong_again() -> None:
    """Nobody knows how long A runs: each future takes one of four past jobs as it was."""
    moment = moment_of("A 1x50", "1x1")
    durations = Durations(RemainingSource.HISTORY, PAST, {1: 30.0})
    request = PromiseRequest(
        ForecastRequest(durations), runs=12, misjudgement=Misjudgement(0.0), arrivals=False
    )
    (one,) = promise(moment, job("NEW"), [ByDeadline(500.0)], request).promises
    """Or longer than the longest of them, by up to five times."""
    known = {reached_s for reached_s in one.reached_s.tolist() if reached_s <= 190.0}
    assert known <= {50.0, 70.0, 110.0, 190.0}
    assert one.reached_s.max() <= 30.0 + LONGEST * 160.0
    assert len(set(one.reached_s.tolist())) > 1


# -- who else comes --------------------------------------------------------------------------------


def test_without_arrivals_a_promise_is_too_good() -> None:
    """On a full cluster that serves the shortest first, those to come are in the way of the new job."""
    jobs = " ".join(f"J{i} 1x9@{10 * i}" for i in range(11))
    moment = moment_of(jobs, "1x1", "srtf", at_s=100.0)
    seconds = [*[9.0] * 11, 60.0]
    alone, among = (asked(moment, seconds, [300.0], arrivals=come) for come in (False, True))
    assert alone.promises[0].chance.share == 1.0
    assert among.promises[0].chance.share < 0.5
    assert among.arrivals_per_s == 0.1
