"""Profiling runs: who is measured, where, for how long, and who goes without."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from play import finishes, play, starts, trace_of
from rota.model.cluster import parse_cluster
from rota.model.grants import Can, Purpose
from rota.model.jobs import Truth
from rota.model.record import Record
from rota.model.tenants import Tenant, Tenants
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.guard.live_rules import NoPreemption
from rota.scheduler.policy import parse_policy
from rota.scheduler.snapshot import Snapshot
from rota.stages.set_apart import SetApart
from rota.systems.chronus import profiling
from rota.systems.chronus.profiling import Trials
from rota.worlds.simulated.costs import parse_costs
from rota.worlds.simulated.faults import Fault
from rota.worlds.simulated.retries import parse_retries
from rota.worlds.simulated.run import Setting, prepare
from tiers import examples

MEASURED = {"duration": "measured"}


def profiled(policy: str = "fifo", **trials: Any) -> SetApart:
    """Parameters are those of `Trials`; one node is set apart."""
    return profiling.profiled(parse_policy(policy).make, Trials(**{"nodes": 1, **trials}))


def stays(record: Record) -> dict[str, list[tuple[float, float, tuple[int, ...]]]]:
    """From when to when each job was on which nodes."""
    found: dict[str, list[tuple[float, float, tuple[int, ...]]]] = {}
    columns = record.intervals.select("job_id", "start_s", "end_s", "nodes").iter_rows()
    for name, start_s, end_s, nodes in columns:
        found.setdefault(name, []).append((start_s, end_s, tuple(sorted(set(nodes)))))
    return found


def test_a_job_is_measured_for_half_a_minute_for_each_gpu_and_goes_on_elsewhere() -> None:
    record = play(profiled(), "A 2x1000 B 8x1000", "2x8")
    assert stays(record) == {
        "A": [(0.0, 60.0, (1,)), (60.0, 1000.0, (0,))],
        "B": [(60.0, 180.0, (1,)), (1000.0, 1880.0, (0,))],
    }, "what is done meanwhile counts; 8 GPUs for two minutes, not four"


class Forgotten(SetApart):
    """What its grants are for is lost at once, as when a live controller is started anew."""

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        decision = super().decide(snapshot, memory)
        decision.grants = [grant._replace(purpose=Purpose.RUN) for grant in decision.grants]
        return decision


def test_a_run_ends_even_if_nobody_remembers_what_its_grant_was_for() -> None:
    record = play(Forgotten(parse_policy("fifo").make, Trials(nodes=1), "", ""), "A 2x1000", "2x8")
    (first, then) = stays(record)["A"]
    assert first == (0.0, 60.0, (1,))
    assert then == (pytest.approx(60.0), pytest.approx(1000.0), (0,))


def test_who_fails_in_its_run_and_pauses_is_not_measured_again() -> None:
    """Nor does a pause of its retries make it a new one: it fails after 5 s, and may go on 60 s later."""
    trace = trace_of("A 1x100")
    truth = Truth.build([100.0], failures={0: (5.0,)}, signatures={0: ("MPI runtime failure", "")})
    record = play(profiled(), replace(trace, truth=truth), "2x8", Setting(retries=parse_retries("adaptive")))
    assert stays(record)["A"] == [(0.0, 5.0, (1,)), (65.0, 165.0, (0,))]


def test_a_short_job_ends_in_its_run() -> None:
    assert finishes(play(profiled(), "A 2x40", "2x8")) == {"A": 40.0}


def test_a_run_counts_from_when_the_job_has_begun() -> None:
    record = play(profiled(), "A 1x100", "2x8", Setting(costs=parse_costs("start=20s,restore=20s")))
    assert stays(record)["A"] == [(0.0, 50.0, (1,)), (50.0, 140.0, (0,))]


@pytest.mark.parametrize(
    ("jobs", "trials", "why"),
    [
        ("A 9x100", {}, "more GPUs than are measured"),
        ("A 8x100", {"most_gpus": 4}, "more GPUs than are measured"),
        ("A 8x1000 B 8x100", {"per_gpu_s": 9e9, "most_s": 9e9, "patience_s": 300.0}, "B has waited enough"),
        ("A 8x100", {"nodes": 3}, "no nodes would be left"),
    ],
)
def test_who_goes_without(jobs: str, trials: dict[str, float], why: str) -> None:
    last = stays(play(profiled(**trials), jobs, "3x8"))[jobs.split()[-2]]
    assert len(last) == 1, why
    assert last[0][2] != (2,) or "nodes" in trials, why


def test_who_cannot_save_its_work_begins_anew() -> None:
    record = play(profiled(), "A 1x500", "2x8", Setting(can={"*": Can.NOTHING}))
    assert [stay[2] for stay in stays(record)["A"]] == [(1,), (0,)]


def test_who_is_not_let_go_stays_where_it_is() -> None:
    """As live a job that is not preemptible; others are measured beside it."""
    loop, _ = prepare(profiled(), trace_of("A 1x500 B 1x50@40"), parse_cluster("2x8"), Setting())
    loop.rules, loop.strict = NoPreemption(lambda: {0}), False
    loop.run(600.0)
    assert np.array_equal(loop.state.run_s, [500.0, 50.0])
    assert loop.state.moves.tolist() == [0, 1]


def test_hard_quotas_hold_for_both_parts_together() -> None:
    tenants = Tenants.of(Tenant("default", 8.0, hard=True))
    cluster = replace(parse_cluster("2x8"), tenants=tenants)
    record = play(profiled(), "A 8x100 B 8x100", cluster)
    assert finishes(record) == {"A": 100.0, "B": 200.0}


def test_a_job_that_only_the_whole_cluster_could_hold_waits_and_the_others_do_not() -> None:
    record = play(profiled("fifo:skip=yes"), "A 16x100 B 1x100", "2x8", Setting(until_s=5000.0))
    assert finishes(record)["B"] == 100.0
    assert np.isnan(starts(record)["A"] or np.nan)


def test_what_was_seen_orders_the_queue() -> None:
    """C is shorter than its user says: known from its run, it goes before B."""
    trace = trace_of("A 1x500 B 1x600 C 1x100@1", limit_s=np.array([500.0, 600.0, 9000.0]))
    blind = play("sjf", trace, "1x1", Setting(knowledge={"duration": "user"}))
    assert starts(blind)["C"] == 1100.0
    seen = play(profiled("sjf", patience_s=1e9), trace, "2x1", Setting(knowledge=MEASURED))
    assert finishes(seen)["C"] < finishes(seen)["B"]


@given(
    jobs=st.lists(
        st.tuples(st.integers(1, 9), st.integers(1, 400), st.integers(0, 300)), min_size=1, max_size=8
    ),
    fault=st.none() | st.tuples(st.integers(0, 2), st.integers(1, 300), st.integers(1, 300)),
    policy=st.sampled_from(["fifo:skip=yes", "srtf", "las", "chronus:slot_s=60,lease_s=240"]),
)
@examples(60)
def test_nobody_is_lost_between_the_parts(
    jobs: list[tuple[int, int, int]], fault: tuple[int, int, int] | None, policy: str
) -> None:
    """Whatever comes, and whatever node is lost, all jobs are done, and the guard has nothing to say."""
    text = " ".join(f"j{i} {gpus}x{s}@{at_s}" for i, (gpus, s, at_s) in enumerate(jobs))
    faults = [] if fault is None else [Fault(fault[0], fault[1], fault[1] + fault[2])]
    record = play(profiled(policy), text, "3x8", Setting(faults=faults, knowledge=MEASURED))
    assert set(record.jobs["state"]) == {"COMPLETED"}
    assert all(end_s > 0.0 for end_s in finishes(record).values())
