"""Themis: worked examples of its page, leases, apps of several jobs, what waiting jobs are told."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from play import finishes, play, starts, trace_of
from rota.errors import InputError
from rota.knowledge.given import Given
from rota.knowledge.needs import Knowledge, Provenance
from rota.knowledge.placement import placement_table
from rota.model.cluster import Cluster, NodeShape, parse_cluster
from rota.model.grants import Grant
from rota.model.job_columns import GroupRule
from rota.scheduler.policy import parse_policy
from rota.scheduler.reasons.waiting import explain
from rota.systems.themis.apps import App, finish_s, rho
from rota.worlds.simulated.run import Setting, prepare
from tiers import examples

FIRST, ALL = int(GroupRule.FIRST), int(GroupRule.ALL)


class Watched:
    """Themis, and what it decided: moment, rows told to leave or move, leases before, grants, reasons."""

    def __init__(self, text="themis"):
        self.inner = parse_policy(text).make()
        self.needs, self.levers = self.inner.needs, self.inner.levers
        self.moments = []

    def decide(self, snapshot, memory):
        before = dict(memory.get("leases", {}))
        decision = self.inner.decide(snapshot, memory)
        moved = [grant.job for grant in decision.grants if grant.job in snapshot.grants]
        waiting = [row for row in snapshot.waiting.tolist() if row not in {g.job for g in decision.grants}]
        said = {row: explain(snapshot, decision, row) for row in waiting}
        grants = {grant.job: grant.devices for grant in decision.grants}
        self.moments.append((snapshot.now, [*decision.preempt, *moved], before, grants, said))
        return decision


def first_grants(text, jobs, cluster, setting=None, **columns):
    """Devices by job in the first decision that grants anything."""
    policy = Watched(text)
    trace = trace_of(jobs, **columns)
    play(policy, trace, cluster, setting)
    ids = trace.jobs.ids
    return next({ids[row]: devices for row, devices in g.items()} for _, _, _, g, _ in policy.moments if g)


# -- worked examples -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("apps", "knob", "inside"),
    [(10, 0.8, 2), (10, 0.0, 10), (3, 0.8, 1), (10, 0.7, 3), (1, 0.8, 1)],
)
def test_the_worst_part_of_all_apps_takes_part(apps, knob, inside):
    """Example 5; (1 - 0.7) * 10 is a little above 3 in binary."""
    assert max(math.ceil((1.0 - knob) * apps - 1e-9), 1) == inside


@pytest.mark.parametrize(("rule", "ends_s"), [("first", 400.0), ("all", 500.0)])
def test_an_app_of_two_jobs(rule, ends_s):
    """Example 7: 300 s passed; a has 400 GPU-seconds left on 2 GPUs, b 100 on 1."""
    app = App("group g", (0, 1), rule == "first", 0.0, 300.0, 1.0)
    holds = {0: Grant(0, (0, 1)), 1: Grant(1, (2,))}
    assert finish_s(app, None, holds, {0: 200.0, 1: 100.0}) == ends_s
    assert rho(app, ends_s, 2.0) == ends_s / 2.0


def test_whole_machines_go_to_whom_being_split_costs_something():
    """Example 6: I could run anywhere, V takes twice as long across machines."""
    cluster = parse_cluster("2x2")
    jobs = trace_of("V 2x200 I 2x200", workload=[0, 1], workload_names=("v", "i")).jobs
    table = placement_table(cluster, {"node": {"v": 0.5}}, jobs.workload_names, jobs.workload)
    told = Given(Knowledge.PLACEMENT, table, Provenance.USER)
    for text in ("themis:fairness=0", "themis:fairness=0,exact_steps=0"):
        columns = {"workload": [0, 1], "workload_names": ("v", "i")}
        grants = first_grants(text, "V 2x200 I 2x200", cluster, Setting(providers=(told,)), **columns)
        assert sorted(grants.values()) == [(0, 1), (2, 3)]


@pytest.mark.parametrize("text", ["themis:fairness=0", "themis:fairness=0,exact_steps=0"])
def test_two_alike_share_and_pay_and_get_back_what_both_paid(text):
    """Example 4: 2 and 2, each keeps 1; nobody is outside, so that the rest goes to them after all."""
    grants = first_grants(text, "A 4x25 B 4x25", "1x4", gpus_min=1, gpus_max=4)
    assert sum(map(len, grants.values())) == 4
    assert min(map(len, grants.values())) >= 1


def test_one_app_gets_all_it_can_use():
    assert first_grants("themis", "A 1x100", "1x4", gpus_min=1, gpus_max=4) == {"A": (0, 1, 2, 3)}


def test_slot_groups_count_where_the_job_says_so():
    """Two pairs in a node of 4, one GPU of the first is taken: a sensitive job of 2 takes the other pair."""
    cluster = Cluster.build([NodeShape(count=1, gpus=4, device_levels={"pair": 2})])
    columns = {"workload": [0, 1], "workload_names": ("other", "v")}
    jobs = trace_of("X 1x5000 V 2x50@1", **columns).jobs
    table = placement_table(cluster, {"pair": {"v": 0.8}}, jobs.workload_names, jobs.workload)
    policy, trace = Watched(), trace_of("X 1x5000 V 2x50@1", **columns)
    play(policy, trace, cluster, Setting(providers=(Given(Knowledge.PLACEMENT, table, Provenance.USER),)))
    given = {row: devices for _, _, _, grants, _ in policy.moments for row, devices in grants.items()}
    assert given == {0: (0,), 1: (2, 3)}


def test_faster_types_first_where_they_are_known():
    """B is twice as fast for both; the worse off has it."""
    cluster = parse_cluster("1x1:A,1x1:B")
    told = Given(Knowledge.THROUGHPUT, np.array([[1.0, 2.0], [1.0, 2.0]]), Provenance.USER)
    grants = first_grants("themis", "X 1x100 Y 1x400", cluster, Setting(providers=(told,)))
    assert set(grants.values()) == {(0,), (1,)}
    assert grants["X"] == (1,)


# -- leases ----------------------------------------------------------------------------------------


def test_a_lease_is_not_broken_before_its_end():
    """B comes at 10 s, and waits for the end of the lease; then it is worse off, and A goes on after it."""
    record = play("themis", "A 4x3000 B 4x100@10", "1x4")
    assert starts(record) == {"A": 0, "B": 1200}
    assert finishes(record) == {"A": 3100, "B": 1300}


def test_who_wins_again_is_not_moved():
    record = play("themis", "A 2x5000 B 2x5000", "1x4")
    assert finishes(record) == {"A": 5000, "B": 5000}
    assert record.jobs["preemptions"].sum() == 0


def test_leases_end_together_for_a_gang_that_waits():
    """C needs all 4; A's lease ends at 1200, and what B begins at 600 is leased until then only."""
    record = play("themis", "A 2x9000 X 2x600 C 4x100@100 B 2x9000@500", "1x4")
    assert starts(record)["B"] == 600
    assert starts(record)["C"] == 1200


JOBS = st.lists(
    st.tuples(st.integers(1, 4), st.integers(50, 4000), st.integers(0, 2000)), min_size=2, max_size=12
)


@examples(40)
@given(JOBS, st.sampled_from(["themis", "themis:lease_s=300", "themis:fairness=0", "themis:auction=no"]))
def test_jobs_are_stopped_and_moved_at_the_end_of_their_leases_only(jobs, text):
    policy = Watched(text)
    play(policy, trace_of(" ".join(f"j{i} {g}x{d}@{s}" for i, (g, d, s) in enumerate(jobs))), "2x2")
    for now, rows, leases, _, _ in policy.moments:
        assert all(leases[row] <= now for row in rows)


@examples(25)
@given(JOBS)
def test_no_gpu_is_idle_while_somebody_could_use_it(jobs):
    policy = Watched("themis:lease_s=300")
    trace = trace_of(" ".join(f"j{i} 1x{d}@{s}" for i, (_, d, s) in enumerate(jobs)))
    where = parse_cluster("1x3")
    loop, _ = prepare(policy, trace, where, Setting())
    while loop.step():
        state = loop.state
        assert not (len(state.waiting) and state.occupancy.free.total)


# -- apps of several jobs --------------------------------------------------------------------------


@pytest.mark.parametrize(("rule", "ends"), [(FIRST, {"A": 50, "B": 50, "C": 50, "D": 50}), (ALL, None)])
def test_the_first_trial_to_end_ends_the_others(rule, ends):
    trace = trace_of("A 1x300 B 1x50 C 1x200 D 1x400", group=0, group_names=("g",), group_rule=rule)
    record = play("themis", trace, "1x4")
    finished = finishes(record)
    assert finished == (ends or {"A": 300, "B": 50, "C": 200, "D": 400})


def test_an_exploration_serves_the_trial_that_will_end_first():
    """One GPU: the shortest of four has it."""
    trace = trace_of("A 1x300 B 1x50 C 1x200 D 1x400", group=0, group_names=("g",), group_rule=FIRST)
    record = play("themis", trace, "1x1")
    assert starts(record)["B"] == 0
    assert finishes(record)["B"] == 50
    assert record.jobs.filter(record.jobs["state"] == "COMPLETED")["job_id"].to_list() == ["B"]


def test_a_group_has_no_more_than_one_app():
    """Three jobs of one group and one by itself: at the end of the lease the single one is next."""
    jobs = "A 1x2000 B 1x2000 C 1x2000 Z 1x2000@1"
    columns = {"group": [0, 0, 0, -1], "group_names": ("g",)}
    assert starts(play("themis", trace_of(jobs, **columns), "1x1"))["Z"] == 1200
    alone = starts(play("themis:groups=none", trace_of(jobs, **columns), "1x1"))
    assert alone["B"] == 1200
    apart = "A 1x2000 B 1x2000@1 C 1x2000@2 Z 1x2000@3"  # a series that recurs is no app
    assert starts(play("themis", trace_of(apart, **columns), "1x1"))["B"] == 1200
    assert starts(play("themis:groups=every", trace_of(apart, **columns), "1x1"))["Z"] == 1200


# -- what is said, and what is refused -------------------------------------------------------------


def test_who_waits_is_told_its_rho_and_until_when():
    policy = Watched()
    play(policy, trace_of("A 4x3000 B 4x100@10"), "1x4")
    _, _, _, _, said = policy.moments[1]
    told = said[1][-1].sentence()
    assert "would finish, if it began now, at ρ = 0.5" in told
    assert "the worst of 1 that want GPUs" in told
    assert "A, leased for another 19m 50s" in told


@pytest.mark.parametrize(
    ("jobs", "at_s", "row", "said"),
    [
        (
            "A 4x3000 B 4x100@10",
            700,
            0,
            ["ρ = ", "has run 100% of", "ends in 8m 20s", "offered to job B as well"],
        ),
        ("A 4x3000 B 4x100@10", 700, 1, ["ρ = ", "has run 0% of", "A, leased for another 8m 20s"]),
        ("A 4x3000 B 4x900@10 C 4x950@20", 700, 2, ["2nd worst of 2 that want", "before it: job B"]),
        ("A 4x3000", 1300, 0, ["finishes at ρ = 1", "ends in 18m 20s, to be renewed: nobody waits"]),
    ],
)
def test_whoever_asks_is_told_its_lease_at_any_moment(jobs, at_s, row, said):
    """Also of a lease that was only renewed, and some time after the last decision."""
    policy, sentences = parse_policy("themis").make(), []

    class Asked:
        needs, levers, ranking = policy.needs, policy.levers, None

        def decide(self, snapshot, memory):
            """Asks what is in force before the next decision, as people do."""
            if snapshot.now == at_s:
                sentences.append(self.ranking.turn(snapshot, row).sentence())
            decision = policy.decide(snapshot, memory)
            self.ranking = decision.ranking
            return decision

    loop, _ = prepare(Asked(), trace_of(f"{jobs} Z 1x1@{at_s}"), parse_cluster("1x4"), Setting())
    loop.run(at_s + 1.0)
    (sentence,) = sentences
    assert all(part in sentence for part in said), sentence


@pytest.mark.parametrize("text", ["themis:fairness=1.5", "themis:lease_s=0", "themis:lease_s=-3"])
def test_parameters_out_of_range_are_refused(text):
    with pytest.raises(InputError, match="themis"):
        parse_policy(text)
