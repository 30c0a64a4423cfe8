"""What-if over a stored moment: policies side by side, ranges where durations are drawn, reasons for gaps."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from play import trace_of
from rota.errors import InputError
from rota.forecast import fork as forks
from rota.forecast.altered import with_job
from rota.forecast.compare import Forecast, PolicyForecast, Range, forecast
from rota.forecast.estimate import estimate_start
from rota.forecast.futures import ForecastRequest
from rota.forecast.held import Wait
from rota.forecast.remaining import LONGEST, Durations, Past, RemainingSource
from rota.knowledge.needs import Knowledge, Provenance
from rota.model.cluster import parse_cluster
from rota.model.job_columns import GroupRule, JobKind
from rota.model.jobs import JobTable, PlainJob, Truth
from rota.model.trace import Trace
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.moments.frozen import Frozen, freeze, load, save
from rota.scheduler.policy import parse_policy
from rota.scheduler.snapshot import Snapshot
from rota.worlds.simulated.costs import CostModel, Costs
from rota.worlds.simulated.run import Setting, prepare

PAST = Past(
    run_s=np.array([20.0, 40.0, 80.0, 160.0]), tenant=("default",) * 4, group=("",) * 4, gpus=np.ones(4, int)
)


def moment_of(
    jobs: str,
    cluster: str = "1x2",
    policy: str = "fifo",
    at_s: float = 0.0,
    held: Mapping[int, str] | None = None,
    **columns: Any,
) -> Frozen:
    """The moment after everything at `at_s` has been decided, with the rows in `held` held by somebody."""
    loop, _ = prepare(
        parse_policy(policy).make(), trace_of(jobs, **columns), parse_cluster(cluster), Setting()
    )
    while loop.state.now < at_s or not loop.counts.events:
        assert loop.step(at_s) or loop.state.now == at_s
    for row, why in (held or {}).items():
        loop.state.hold(row, why)
    return freeze(loop.snapshot(), loop.memory, policy)


def given(*seconds: float) -> Durations:
    return Durations(given_s=dict(enumerate(seconds)))


def times(one: PolicyForecast) -> dict[str, tuple[float | None, float | None]]:
    return {job.id: (job.start.at_s, job.finish.at_s) for job in one.jobs}


def reasons(result: Forecast) -> dict[str, str]:
    return {job.id: job.why for job in result.policies[0].jobs if job.why}


def test_policies_side_by_side() -> None:
    """A has run for 10 s of 100 when B and C wait; shortest remaining time first stops it for both."""
    moment = moment_of("A 2x100 B 2x50@5 C 2x10@10", at_s=10.0)
    result = forecast(moment, ["srtf"], ForecastRequest(given(100.0, 50.0, 10.0)))
    now, srtf = result.policies
    assert (now.label, now.policy, srtf.label, result.now_s) == ("now", "fifo", "srtf", 10.0)
    assert times(now) == {"A": (0.0, 100.0), "B": (100.0, 150.0), "C": (150.0, 160.0)}
    assert (now.mean_jct_s, now.makespan_s, now.preemptions) == ((100 + 145 + 150) / 3, 150.0, 0)
    assert now.mean_wait_s == (0 + 95 + 140) / 3
    # It is asked again 30 s after it took over, and then acts: C runs at 40, B at 50, A goes on at 100.
    assert times(srtf) == {"A": (0.0, 160.0), "B": (50.0, 100.0), "C": (40.0, 50.0)}
    assert srtf.mean_wait_s == (60 + 45 + 30) / 3
    assert (srtf.preemptions, srtf.samples, result.samples, result.note) == (1, 1, 1, "")
    assert result.basis == {"given": 3}
    assert all(job.start.low_s is None for one in result.policies for job in one.jobs)


def test_the_next_start_of_a_preempted_job_is_told() -> None:
    moment = moment_of("A 2x100 B 2x10@5", policy="srtf", at_s=5.0)
    result = forecast(moment, (), ForecastRequest(given(100.0, 10.0)))
    assert times(result.policies[0]) == {"A": (15.0, 110.0), "B": (5.0, 15.0)}
    assert result.policies[0].jobs[0].state == "PENDING"


def test_more_gpus_stand_beside_the_cluster_as_it_is() -> None:
    moment = moment_of("A 2x100 B 2x50 C 2x10")
    result = forecast(moment, ["srtf"], ForecastRequest(given(100.0, 50.0, 10.0), extra_gpus=2))
    assert [one.label for one in result.policies] == ["now", "now +2", "srtf +2"]
    finishes = [[job.finish.at_s for job in one.jobs] for one in result.policies]
    # srtf would stop A at once; its second decision, after 30 s, does so for C.
    assert finishes == [[100.0, 150.0, 160.0], [100.0, 50.0, 60.0], [110.0, 50.0, 40.0]]


@pytest.mark.parametrize(
    ("policies", "asked", "sentence"),
    [
        (["fio"], ForecastRequest(), "did you mean 'fifo'"),
        ([], ForecastRequest(extra_gpus=-2), "-2 would take GPUs away"),
        ([], ForecastRequest(extra_gpus=3), r"\+3 is no whole number of nodes of 2 GPUs"),
    ],
)
def test_questions_that_make_no_sense(policies: list[str], asked: ForecastRequest, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        forecast(moment_of("A 2x100"), policies, asked)


def test_a_moment_without_a_policy_is_refused() -> None:
    with pytest.raises(InputError, match="does not name its policy"):
        forecast(replace(moment_of("A 2x100"), policy=""), ["fifo"])


# -- who never ends --------------------------------------------------------------------------------


def test_jobs_without_times_say_why() -> None:
    jobs = "RUN 1x50 SERVICE 1x50 HELD 1x5 DEP 1x5 CHAIN 1x5 BACKOFF 1x5 LARGE 1x5 ARRAY 1x5"
    held = {2: "ann", 3: "dependency", 4: "dependency", 5: "back-off", 6: "infeasible", 7: "array"}
    kind = [JobKind.TRAIN, JobKind.SERVICE, *[JobKind.TRAIN] * 6]
    moment = moment_of(jobs, held=held, kind=kind, limit_s=[50.0, math.nan, *[5.0] * 6])
    moment.packed["jobs"]["gpus"] = moment.packed["jobs"]["gpus_min"] = np.array([1, 1, 1, 1, 1, 1, 64, 1])
    waits = {
        3: Wait("dependency", after=(2,)),
        4: Wait("dependency", after=(3,)),
        5: Wait("back-off", until_s=60.0),
        6: Wait("infeasible", is_infeasible=True),
        7: Wait("array", beside=(1, 7), most=1),
    }
    result = forecast(moment, (), ForecastRequest(waits=waits))
    assert times(result.policies[0])["BACKOFF"] == (60.0, 65.0)
    assert times(result.policies[0])["SERVICE"] == (0.0, None)
    dep = "waits for job HELD, which does not end (is held by ann)"
    assert reasons(result) == {
        "SERVICE": "does not end by itself",
        "HELD": "is held by ann",
        "DEP": dep,
        "CHAIN": f"waits for job DEP, which does not end ({dep})",
        "LARGE": "could never run on this cluster",
        "ARRAY": "waits for jobs of its array, of which 1 may run at once",
    }
    assert result.policies[0].endless == 6
    assert result.basis == {"user": 7, "endless": 1}


def test_jobs_that_find_no_place_say_so() -> None:
    loop, _ = prepare(parse_policy("fifo").make(), trace_of("A 1x10 B 2x10"), parse_cluster("2x1"), Setting())
    loop.step()
    loop.state.lose(1)
    moment = freeze(loop.snapshot(), loop.memory, "fifo")
    result = forecast(moment, ["gandiva"], ForecastRequest(given(10.0, 10.0)))
    assert reasons(result) == {"B": "finds no place on the cluster as it is"}
    assert times(result.policies[1]) == {"A": (0.0, 10.0), "B": (None, None)}


def test_a_horizon_and_a_cut_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    moment = moment_of("A 2x100 B 2x50")
    near = forecast(moment, (), ForecastRequest(given(100.0, 50.0), until_s=60.0))
    assert reasons(near) == dict.fromkeys("AB", "does not come so far in the 1m looked ahead")
    monkeypatch.setattr("rota.forecast.futures.MOST_EVENTS", 2)
    cut = forecast(moment, (), ForecastRequest(given(100.0, 50.0)))
    assert cut.policies[0].is_cut
    assert times(cut.policies[0])["B"] == (100.0, None)
    assert "Under now: cut off after" in cut.note


# -- ranges ----------------------------------------------------------------------------------------


def test_sampled_durations_give_ranges_and_the_same_ones_for_the_same_seed() -> None:
    moment = moment_of("A 2x100 B 2x50 C 2x10", limit_s=[100.0, math.nan, 10.0])
    asked = ForecastRequest(Durations(RemainingSource.USER, PAST), samples=40, seed=3)
    result = forecast(moment, ["srtf"], asked)
    a, b, c = result.policies[0].jobs
    assert a.finish == Range(100.0, 100.0, 100.0)
    assert b.start == Range(100.0, 100.0, 100.0)
    assert b.finish.low_s == 120.0
    assert b.finish.at_s in (140.0, 180.0)
    assert 260.0 <= b.finish.high_s <= 100.0 + LONGEST * 160.0
    assert c.start == b.finish
    assert result.basis == {"user": 2, "history": 1}
    assert (result.samples, result.note) == (40, "")
    assert forecast(moment, ["srtf"], asked) == result
    assert forecast(moment, ["srtf"], replace(asked, seed=4)) != result


def test_what_runs_is_drawn_from_what_ran_longer() -> None:
    """A has run for 100 s: of the four past jobs only the one of 160 s is left to compare it with."""
    moment = moment_of("A 2x500 B 1x50@100", at_s=100.0)
    result = forecast(moment, (), ForecastRequest(Durations(RemainingSource.HISTORY, PAST)))
    assert result.policies[0].jobs[0].finish == Range(160.0, 160.0, 160.0)


def test_a_policy_that_needs_durations_is_told_estimates_and_no_draws(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The mean of the past for jobs that are drawn, under the provider's name; never what was drawn."""
    told: list[tuple[Provenance, list[float]]] = []
    inner = parse_policy("srtf").make()

    class Asking:
        needs = frozenset({Knowledge.DURATION})

        def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
            told.append((snapshot.provenance(Knowledge.DURATION), snapshot.know(Knowledge.DURATION).tolist()))
            return inner.decide(snapshot, memory)

    moment = moment_of("A 2x100 B 2x50", limit_s=[100.0, math.nan])
    monkeypatch.setattr("rota.scheduler.policy.PolicySpec.make", lambda spec: Asking())
    forecast(moment, ["srtf"], ForecastRequest(Durations(RemainingSource.USER, PAST), samples=5))
    assert {who for who, _ in told} == {Provenance.USER}
    assert {tuple(values) for _, values in told} == {(100.0, 75.0)}
    told.clear()
    forecast(moment, ["srtf"], ForecastRequest(Durations(RemainingSource.PREDICTED, PAST)))
    assert {who for who, _ in told} == {Provenance.PREDICTED}


def test_the_policy_in_force_keeps_what_it_was_told() -> None:
    """It orders by its own durations, jobs take those of the named provider; an oracle's are not kept."""
    moment = moment_of("A 2x5 B 2x50 C 2x10", policy="sjf")
    stored = {"provenance": "user", "values": np.array([5.0, 1.0, 2.0])}
    moment.packed["knowledge"]["duration"] = stored
    assert times(forecast(moment, (), ForecastRequest(given(5.0, 50.0, 10.0))).policies[0])["C"] == (
        55.0,
        65.0,
    )
    stored["provenance"] = "oracle"
    assert times(forecast(moment, (), ForecastRequest(given(5.0, 50.0, 10.0))).policies[0])["C"] == (
        5.0,
        15.0,
    )


def test_a_long_queue_gets_fewer_samples_and_a_budget_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    moment = moment_of("A 2x100 B 2x50 C 2x10")
    asked = ForecastRequest(Durations(RemainingSource.HISTORY, PAST))
    monkeypatch.setattr("rota.forecast.futures.JOBS_SAMPLED", 24)
    few = forecast(moment, ["srtf"], asked)
    assert few.samples == 4
    assert "Under now: 4 samples, in place of 20, to answer in time." in few.note
    late = forecast(moment, [], replace(asked, budget_s=0.0))
    assert late.policies[0].samples == 1
    assert late.policies[0].jobs[1].finish.low_s is None
    assert "Under now: 1 sample, which gives no range, in place of 20" in late.note


def test_costs_and_rules_of_the_world_are_respected() -> None:
    moment = moment_of("A 2x100 B 2x50")
    costly = forecast(moment, (), ForecastRequest(given(100.0, 50.0), costs=Costs(start=CostModel(7.0))))
    assert times(costly.policies[0]) == {"A": (0.0, 100.0), "B": (100.0, 157.0)}


def test_a_stored_moment_gives_the_same_forecast(tmp_path: Any) -> None:
    moment = moment_of("A 2x100 B 2x50@5 C 2x10@10", policy="tiresias:limits=30/90", at_s=10.0)
    path = save(moment, tmp_path / "moment.rota")
    asked = ForecastRequest(Durations(RemainingSource.HISTORY, PAST), seed=9)
    assert forecast(load(path), ["las"], asked) == forecast(moment, ["las"], asked)


# -- one job ---------------------------------------------------------------------------------------


def new_job(gpus: int = 2) -> PlainJob:
    table = JobTable.build(["NEW"], submit_s=0.0, gpus=gpus, limit_s=20.0)
    return table.job(0)


def test_when_a_job_would_start() -> None:
    moment = moment_of("A 2x100 B 2x50 C 2x10", limit_s=[100.0, 50.0, 10.0])
    found = estimate_start(moment, 2)
    assert (found.start, found.position) == (Range(150.0), 2)
    assert found.basis == "simulated under fifo with the durations of 3 jobs: 3 from time limits"
    running = estimate_start(moment, 0)
    assert (running.start, running.position, running.basis) == (Range(0.0), None, "it runs")


def test_one_of_a_group_of_which_another_completes_first() -> None:
    """No policy cancels it: the rule of its group does."""
    both = {"group": 0, "group_names": ("sweep",), "group_rule": int(GroupRule.FIRST)}
    found = estimate_start(moment_of("A 2x100 B 2x50", limit_s=[100.0, 50.0], **both), 1)
    assert found.start.at_s is None
    assert found.basis == "it would be cancelled, since another of its group completes before it"


def test_a_dry_run_appends_the_job_and_leaves_the_moment_alone() -> None:
    moment = moment_of("A 2x100 B 2x50 C 2x10", limit_s=[100.0, 50.0, 10.0])
    longer = with_job(moment, new_job())
    found = estimate_start(longer, 3)
    assert (found.start.at_s, found.position) == (160.0, 3)
    assert forecast(longer, ()).policies[0].jobs[3].state == "NEW"
    assert len(forecast(moment, ()).policies[0].jobs) == 3
    refused = estimate_start(with_job(moment, new_job(gpus=64)), 3)
    assert (refused.start.at_s, refused.position) == (None, None)
    assert refused.basis == "it could never run on this cluster, or would be refused by the policy"


def test_a_held_job_has_a_reason_in_place_of_a_start() -> None:
    moment = moment_of("A 2x100 B 2x50", held={1: "ann"})
    assert estimate_start(moment, 1).basis == "it is held by ann"


def test_a_sampled_estimate_has_a_range_and_equals_the_forecast() -> None:
    moment = moment_of("A 2x100 B 2x50 C 2x10 D 2x5")
    asked = ForecastRequest(Durations(RemainingSource.HISTORY, PAST), seed=2)
    found = estimate_start(moment, 2, asked)
    same = forecast(moment, (), asked).policies[0].jobs[2].start
    assert (found.start.at_s, found.start.low_s) == (same.at_s, same.low_s)
    assert found.start.low_s < found.start.at_s < found.start.high_s
    assert found.basis.endswith("4 drawn from past jobs, 20 samples")


def test_a_job_that_does_not_live_has_no_estimate() -> None:
    moment = moment_of("A 2x10 B 2x50@5", at_s=10.0)
    for row in (0, 7):
        with pytest.raises(InputError, match=f"job {row} does not live"):
            estimate_start(moment, row)


# -- size ------------------------------------------------------------------------------------------


def test_a_thousand_jobs_on_a_hundred_gpus_take_seconds() -> None:
    rng = np.random.default_rng(5)
    n = 1000
    duration_s = rng.lognormal(8.5, 1.2, n)
    jobs = JobTable.build(
        [f"j{i}" for i in range(n)],
        submit_s=np.sort(rng.uniform(0.0, 60.0, n)),
        gpus=rng.choice([1, 1, 1, 2, 4, 8], n),
        limit_s=duration_s * 2.0,
    )
    trace = Trace(jobs, Truth.build(duration_s), source="test", format="test")
    loop, _ = prepare(parse_policy("tiresias").make(), trace, parse_cluster("12x8,1x4"), Setting())
    loop.run(60.0)
    moment = freeze(loop.snapshot(), loop.memory, "tiresias")
    began = time.process_time()
    result = forecast(moment, ["fifo", "srtf"])
    assert time.process_time() - began < 5.0
    assert [len(one.jobs) for one in result.policies] == [n] * 3
    assert all(one.endless == 0 for one in result.policies)


def test_forks_are_patient_for_long_enough() -> None:
    """A policy that looks every minute must be able to wait for hours."""
    assert forks.PATIENCE >= 24 * 60 / 2


def test_a_start_reckons_with_those_who_will_come() -> None:
    """Shortest first, and one short job every 10 s for 12 s of work each: a long one waits on and on."""
    short = " ".join(f"J{i} 1x12@{10 * i}" for i in range(40))
    moment = moment_of(f"{short} L 1x500@391", "1x1", "sjf", at_s=391.0)
    asked = ForecastRequest(given(*[12.0] * 40, 500.0), samples=5)
    found = estimate_start(moment, 40, asked)
    alone = forecast(moment, (), asked).policies[0].jobs[-1].start
    assert alone.at_s is not None
    assert found.start.at_s is not None
    assert "others come as they have before" in found.basis
    assert found.start.at_s > alone.at_s + 100.0  # it would start as soon as those in line are done
    assert estimate_start(moment, 40, asked) == found


def test_a_start_of_first_come_first_served_does_not_depend_on_who_comes() -> None:
    short = " ".join(f"J{i} 1x12@{10 * i}" for i in range(40))
    moment = moment_of(f"{short} L 1x500@391", "1x1", "fifo", at_s=391.0)
    found = estimate_start(moment, 40, ForecastRequest(given(*[12.0] * 40, 500.0), samples=5))
    assert "others come as they have before" in found.basis
    assert found.start == Range(480.0, 480.0, 480.0)  # 40 times 12 s
