"""ElasticFlow: the card's examples, promises that are kept, and what becomes of the others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from play import finishes, play, trace_of
from rota.knowledge.scaling import ScalingCurves
from rota.model.cluster import parse_cluster
from rota.model.job_columns import AllowedCounts, Deadline
from rota.model.jobs import Truth
from rota.scheduler.decision import Event
from rota.scheduler.policy import parse_policy
from rota.worlds.simulated.answers import UserAnswers
from rota.worlds.simulated.costs import CostModel, Costs
from rota.worlds.simulated.retries import parse_retries
from rota.worlds.simulated.run import Setting, prepare
from rota.worlds.simulated.semantics import semantics
from rota.worlds.simulated.speed_table import ScalingSpeed

CURVES = ScalingCurves.build(
    {
        "card": {1: 1.0, 2: 1.5, 4: 2.0},
        "good": {1: 1.0, 2: 2.0, 4: 3.6},
        "linear": {1: 1.0, 8: 8.0},
    },
    clean=False,
)
PLAIN = "elasticflow:slot_s=60,margin_slots=0,restart_s=0"


def elastic(text, workloads, due_s=None, most=4, least=1, **columns):
    """Jobs whose durations are minutes on one GPU, with deadlines in seconds (NaN: none)."""
    names = tuple(CURVES.workloads)
    codes = [names.index(name) for name in workloads.split()]
    columns = {
        "gpus_min": least,
        "gpus_max": most,
        "counts": int(AllowedCounts.POWERS_OF_TWO),
        "workload": codes,
        "workload_names": names,
        **({} if due_s is None else {"deadline_s": due_s}),
        **columns,
    }
    trace = trace_of(text, **columns)
    work = np.asarray(trace.truth.duration_s) * 60.0
    return replace(trace, truth=Truth.build(np.full(len(trace), np.nan), iterations=work))


def run(policy, trace, cluster="1x4", costs=None, answers=None):
    where = parse_cluster(cluster)
    speed = ScalingSpeed(trace, where, CURVES)
    setting = Setting(speed=speed, costs=costs or Costs(), answers=answers or UserAnswers())
    return play(policy, trace, where, setting)


def states(record):
    return dict(zip(record.jobs["job_id"], record.jobs["state"], strict=True))


def test_card_1_and_2_all_promises_or_none():
    """A, B and C are admitted; D would break C and is refused, though it could itself be in time."""
    trace = elastic("A 1x3 B 1x2 C 1x4 D 1x1@1", "card card card card", [120.0, 120.0, 180.0, 61.0])
    record = run(PLAIN + ",surplus=no", trace)
    assert states(record) == {"A": "COMPLETED", "B": "COMPLETED", "C": "COMPLETED", "D": "REJECTED"}
    done = finishes(record)
    assert [done[name] for name in "ABC"] == pytest.approx([120.0, 120.0, 180.0])
    held = record.intervals.filter(pl.col("job_id") == "C").sort("start_s")
    assert held["gpus"].to_list() == [1, 4]


@pytest.mark.parametrize(("cluster", "gpus"), [("1x4", {"A": 2, "B": 2}), ("1x3", {"A": 2, "B": 1})])
def test_card_3_surplus_goes_where_it_costs_least_gpu_time(cluster, gpus):
    """Two jobs that need one GPU each: first the one that scales, then the other with what is left."""
    trace = elastic("A 1x8 B 1x8", "good card", [480.0, 480.0])
    record = run(PLAIN, trace, cluster)
    first = record.intervals.filter(pl.col("start_s") == 0.0)
    assert dict(zip(first["job_id"], first["gpus"], strict=True)) == gpus


def test_card_4_buddies_are_moved_together():
    """Two jobs of 2 on two nodes of 4; the block of 4 that comes has both nodes' other halves free."""
    trace = elastic("W 2x10 X 2x10 Y 2x10 Z 4x10@120", "linear linear linear linear", most=2)
    trace = replace(
        trace,
        jobs=replace(
            trace.jobs, gpus_min=np.array([2, 2, 2, 4]), gpus_max=np.array([2, 2, 2, 4]), gpus=trace.jobs.gpus
        ),
    )
    trace = replace(
        trace, truth=Truth.build(np.full(4, np.nan), iterations=np.array([120.0, 2400.0, 2400.0, 240.0]))
    )
    record = run(PLAIN, trace, "2x4")
    assert finishes(record)["W"] == pytest.approx(60.0)
    z = record.intervals.filter(pl.col("job_id") == "Z")
    assert z["start_s"].to_list() == [120.0]
    assert record.jobs["migrations"].sum() == 1


def test_a_refusal_says_what_could_be():
    trace = elastic("A 1x8 B 1x8@1", "linear linear", [120.0, 100.0], most=4)
    record = run(PLAIN, trace)
    assert states(record)["B"] == "REJECTED"


def test_without_refusals_and_soft_deadlines():
    """Who cannot be promised anything runs on what is left over; the later of two deadlines can be kept."""
    trace = elastic("A 1x8 B 1x8@1", "linear linear", [120.0, 100.0])
    record = run(PLAIN + ",refuse=no", trace)
    assert finishes(record)["A"] <= 120.0 + 1e-6
    assert states(record)["B"] == "COMPLETED"
    soft = elastic("A 1x8 B 1x8@1", "linear linear", [120.0, 100.0])
    moments = {1: (Deadline(100.0, 5.0), Deadline(250.0, 1.0))}
    soft = replace(soft, jobs=replace(soft.jobs, deadlines=moments))
    assert finishes(run(PLAIN, soft))["B"] <= 250.0 + 1e-6


@pytest.mark.parametrize(("min_run_s", "state"), [(0, "COMPLETED"), (30, "COMPLETED"), (90, "REJECTED")])
def test_no_plan_counts_on_who_has_just_begun(min_run_s, state):
    """One GPU, which A has just got when B comes: B's minute fits before its deadline if A stops in time."""
    trace = elastic("A 1x10 B 1x1@10", "linear linear", [3600.0, 140.0], most=1)
    record = run(f"{PLAIN},min_run_s={min_run_s}", trace, "1x1")
    assert states(record) == {"A": "COMPLETED", "B": state}
    first = record.intervals.filter(pl.col("job_id") == "A")["end_s"][0]
    assert first >= min_run_s


def test_jobs_without_deadline_get_what_is_left():
    trace = elastic("A 1x8 B 1x8", "linear linear", [180.0, np.nan])
    record = run(PLAIN, trace)
    assert finishes(record)["A"] <= 180.0 + 1e-6
    assert finishes(record)["B"] == pytest.approx(240.0)


jobs = st.tuples(
    st.sampled_from(["card", "good", "linear"]),
    st.integers(1, 40),
    st.integers(0, 900),
    st.one_of(st.none(), st.floats(0.6, 4.0)),
)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(jobs, min_size=1, max_size=14), st.sampled_from([0.0, 10.0]), st.sampled_from([0, 90, 200]))
def test_who_is_admitted_is_in_time(drawn, restore_s, min_run_s):
    """Whatever comes: an admitted job is late only by faults, and every job without a deadline ends.

    Nobody is stopped for others before `min_run_s`, on which plans may not count either.
    """
    drawn = sorted(drawn, key=lambda one: one[2])
    text = " ".join(f"J{i} 1x{minutes}@{at}" for i, (_, minutes, at, _) in enumerate(drawn))
    due = [np.nan if slack is None else at + 60.0 * minutes * slack for _, minutes, at, slack in drawn]
    trace = elastic(text, " ".join(name for name, *_ in drawn), due, most=8)
    costs = Costs(start=CostModel(restore_s), restore=CostModel(restore_s))
    record = run(f"elasticflow:min_run_s={min_run_s}", trace, "2x4", costs)
    ends = dict(record.jobs.select("job_id", "finish_s").rows())
    for name, start_s, end_s in record.intervals.select("job_id", "start_s", "end_s").rows():
        assert end_s == ends[name] or end_s - start_s >= min_run_s - 1e-6, f"{name} had just begun"
    for name, state, finish, deadline in record.jobs.select(
        "job_id", "state", "finish_s", "deadline_s"
    ).rows():
        assert state in ("COMPLETED", "REJECTED")
        if state == "COMPLETED" and deadline is not None:
            assert finish <= deadline + 1e-6, f"{name} was promised {deadline}"
        assert state == "COMPLETED" or deadline is not None


def test_a_later_deadline_is_offered_and_kept_if_it_is_taken():
    """One GPU, which A has for an hour when B comes: 30 minutes of work, to be done in 45."""
    trace = elastic("A 1x60 B 1x30@60", "linear linear", [3600.0, 2760.0], most=1)
    for after_s, begins_s in ((0.0, 3600.0), (300.0, 3600.0)):
        jobs = run(PLAIN, trace, "1x1", answers=UserAnswers(3.0, after_s)).jobs
        offered_s = jobs["offered_s"][1]
        assert 5400.0 <= offered_s <= 5400.0 + 60.0
        assert jobs["promised_s"].to_list() == [3600.0, offered_s]
        assert jobs["start_s"][1] == begins_s
        assert jobs["finish_s"][1] <= offered_s
    refused = run(PLAIN, trace, "1x1").jobs
    assert refused["state"].to_list() == ["COMPLETED", "REJECTED"]
    assert refused["promised_s"].to_list() == [3600.0, None]


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(jobs, min_size=1, max_size=12), st.sampled_from([0.0, 90.0]))
def test_every_promise_is_kept_whoever_takes_offers(drawn, after_s):
    """Offers taken at once or after a while, and made again where others were promised the GPUs meanwhile."""
    drawn = sorted(drawn, key=lambda one: one[2])
    text = " ".join(f"J{i} 1x{minutes}@{at}" for i, (_, minutes, at, _) in enumerate(drawn))
    due = [np.nan if slack is None else at + 60.0 * minutes * slack for _, minutes, at, slack in drawn]
    trace = elastic(text, " ".join(name for name, *_ in drawn), due, most=8)
    record = run("elasticflow", trace, "2x4", answers=UserAnswers(100.0, after_s))
    for name, state, finish, promised in record.jobs.select(
        "job_id", "state", "finish_s", "promised_s"
    ).rows():
        assert state in ("COMPLETED", "REJECTED")
        assert promised is None or (state == "COMPLETED" and finish <= promised + 1e-6), name


def test_a_promise_is_kept_on_a_node_that_is_drained() -> None:
    """A goes on until it ends there: neither promise is at risk, though no other GPUs than B's are left."""
    trace = trace_of("A 4x400 B 4x400@5", deadline_s=[600.0, 605.0])
    loop, recorder = prepare(parse_policy("elasticflow").make(), trace, parse_cluster("2x4"), Setting())
    loop.run(20.0)
    loop.state.occupancy.close(list(loop.state.grants[0].devices))
    decision = loop.policy.decide(loop.snapshot(int(Event.CAPACITY)), loop.memory)
    assert not decision.promises
    assert not decision.preempt
    assert not decision.grants
    assert len(recorder.promises) == 2


PLANS = "elasticflow:slot_s=10,margin_slots=0,restart_s=0"


@pytest.mark.parametrize("policy", [PLANS, f"{PLANS},offer_s=0", "elasticflow@authors:slot_s=10"])
def test_a_job_that_was_admitted_is_not_refused_after_a_pause(policy):
    """A fails at 60 s and pauses for a minute, in which B is promised the GPU: A is late, but done."""
    trace = trace_of("A 1x300 B 1x400@70", deadline_s=[700.0, 480.0])
    fails = {"failures": {0: (60.0,)}, "signatures": {0: ("GPU ECC error", "")}}
    trace = replace(trace, truth=Truth.build([300.0, 400.0], **fails))
    rules = semantics("elasticflow-ef:round=10s" if "@" in policy else "exact")
    setting = Setting(retries=parse_retries("adaptive"), semantics=rules)
    record = play(policy, trace, "1x1", setting)
    assert states(record) == {"A": "COMPLETED", "B": "COMPLETED"}
    ends = finishes(record)
    if "@" not in policy:  # there a decision stops every job
        assert ends["B"] <= 480.0 + 1e-6, "its promise is not broken by one that comes back"
    assert ends["A"] > 700.0
    assert record.jobs["promised_s"].to_list() == [700.0, 480.0]
    assert record.jobs["offered_s"].to_list() == [None, None]
