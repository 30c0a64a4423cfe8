"""Who else comes, and what the past of a table tells of those who live."""

from __future__ import annotations

import numpy as np
import pytest
from test_forecast import given, moment_of, trace_of

from rota.forecast.altered import with_arrivals
from rota.forecast.futures import ForecastRequest
from rota.forecast.remaining import Past
from rota.forecast.sampling import SampledArrivals, future_of
from rota.model.cluster import parse_cluster
from rota.model.job_columns import Deadline
from rota.scheduler.moments.frozen import Frozen, freeze
from rota.scheduler.policy import parse_policy
from rota.scheduler.snapshot import table_of
from rota.worlds.simulated.run import Setting, prepare


def arrivals_of(moment: Frozen, seconds: float) -> SampledArrivals:
    state = table_of(moment.snapshot(frozenset()))
    return SampledArrivals.of(state, given(*[seconds] * state.submitted))


def test_arrivals_are_as_often_as_before() -> None:
    """Eleven jobs in 100 s: one each 10 s, alike in what they ask for."""
    jobs = " ".join(f"J{i} {1 + i % 2}x10@{10 * i}" for i in range(11))
    moment = moment_of(jobs, "1x2", at_s=100.0, deadline_s=[15.0 + 10 * i for i in range(11)])
    arrivals = arrivals_of(moment, 10.0)
    assert arrivals.per_s == 0.1
    assert not arrivals.tell(10.0)  # too few to say who comes
    come = arrivals.join(moment, 10_100.0, np.random.default_rng(1))
    jobs_to_come = table_of(come.moment.snapshot(frozenset())).jobs
    new = np.arange(11, len(jobs_to_come))
    assert len(new) == len(come.run_s) == len(come.like) == pytest.approx(1000, rel=0.1)
    assert set(come.run_s.tolist()) == {10.0}
    assert jobs_to_come.gpus[new].tolist() == jobs_to_come.gpus[come.like].tolist()
    assert (np.diff(jobs_to_come.submit_s[new]) >= 0.0).all()
    assert (jobs_to_come.deadline_s - jobs_to_come.submit_s)[new] == pytest.approx(15.0)
    assert len(set(jobs_to_come.ids)) == len(jobs_to_come)


def test_arrivals_keep_their_bursts() -> None:
    """Ten jobs at once each 1000 s come again ten at once, wherever in the past a future begins."""
    jobs = " ".join(f"J{i} 1x9@{1000 * (i // 10)}" for i in range(60))
    moment = moment_of(jobs, "1x8", at_s=5000.0)
    arrivals = arrivals_of(moment, 9.0)
    assert arrivals.tell(5000.0)
    assert not arrivals.tell(5001.0)
    begins = set()
    for seed in range(5):
        come = arrivals.join(moment, 9000.0, np.random.default_rng(seed))
        submit_s = table_of(come.moment.snapshot(frozenset())).jobs.submit_s[60:]
        moments, counts = np.unique(submit_s.round(6), return_counts=True)
        assert set(counts.tolist()) <= {10, 20}  # the last burst and the first meet on the circle
        assert len(submit_s) in (40, 50)
        begins.add(float(moments[0]))
    assert len(begins) == 5


def test_arrivals_come_at_the_hour_at_which_they_came() -> None:
    """One job a day at 10:00, for forty days; at 09:00 nobody is expected for an hour."""
    day = 86400
    jobs = " ".join(f"J{i} 1x9@{day * i + 36000}" for i in range(40))
    moment = moment_of(jobs, "1x8", at_s=float(day * 39 + 36000))
    arrivals = arrivals_of(moment, 9.0)
    for seed in range(5):
        come = arrivals.join(moment, day * 42.0, np.random.default_rng(seed))
        hours = table_of(come.moment.snapshot(frozenset())).jobs.submit_s[40:] % day / 3600.0
        assert hours.tolist() == pytest.approx([10.0] * len(hours))
        assert len(hours) in (2, 3, 4)


def test_of_those_to_come_a_policy_hears_what_it_heard_of_those_before() -> None:
    jobs = " ".join(f"J{i} 1x{9 + i % 2}@{10 * i}" for i in range(31))
    loop, _ = prepare(
        parse_policy("srtf").make(),
        trace_of(jobs, limit_s=[100.0 + i for i in range(31)]),
        parse_cluster("1x1"),
        Setting(knowledge={"duration": "user"}),
    )
    while loop.state.now < 300.0:
        loop.step()
    moment = freeze(loop.snapshot(), loop.memory, "srtf")
    request = ForecastRequest(given(*[9.0] * 31))
    future = future_of(moment, request, arrivals_of(moment, 9.0), 500.0, 1, 0)
    like = [int(name.removeprefix("J").partition("+")[0]) for name in future.state.jobs.ids[31:]]
    assert len(like) > 5
    assert future.told_s[31:].tolist() == [100.0 + row for row in like]
    assert set(future.draws[0][-len(like) :].tolist()) <= {9.0, 10.0}


def test_arrivals_keep_several_deadlines() -> None:
    values = {0: (Deadline(30.0, 2.0), Deadline(40.0, 1.0))}
    moment = moment_of("A 1x50", "1x1", deadlines=values)
    more = with_arrivals(moment, np.array([0]), np.array([100.0]))
    jobs = table_of(more.snapshot(frozenset())).jobs
    assert jobs.deadlines[1] == (Deadline(130.0, 2.0), Deadline(140.0, 1.0))


def test_nobody_comes_where_nobody_came() -> None:
    moment = moment_of("A 1x50", "1x1")
    assert arrivals_of(moment, 50.0).join(moment, 500.0, np.random.default_rng(1)).moment is moment


def test_the_past_of_a_table() -> None:
    moment = moment_of("A 1x10 B 2x30 C 1x99@40", "1x2", at_s=50.0)
    past = Past.of(table_of(moment.snapshot(frozenset())))
    assert past.run_s.tolist() == [10.0, 30.0, 10.0]
    assert past.is_over.tolist() == [True, True, False]
    assert (list(past.tenant), past.gpus.tolist()) == (["default"] * 3, [1, 2, 1])
    assert past.service_gpu_s.tolist() == [10.0, 60.0]
    before = Past(
        np.array([7.0, 8.0]), ("a", "b"), ("", ""), np.ones(2, int), is_over=np.array([True, False])
    )
    both = before.and_running(table_of(moment.snapshot(frozenset())))
    assert (both.run_s.tolist(), list(both.tenant)) == ([7.0, 10.0], ["a", "default"])
    assert both.is_over.tolist() == [True, False]
