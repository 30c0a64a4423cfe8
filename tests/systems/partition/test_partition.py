"""Partition: each virtual cluster by itself."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from naive_rebuild import stays
from play import finishes, play, starts, trace_of
from rota.errors import InputError
from rota.model.cluster import Cluster, NodeShape, parse_cluster
from rota.model.tenants import Tenant, Tenants
from rota.model.trace import Trace
from rota.scheduler.policy import parse_policy, split_policies, systems
from rota.worlds.simulated.answers import UserAnswers
from rota.worlds.simulated.faults import Fault
from rota.worlds.simulated.run import Setting, prepare, run
from tiers import first

UNITS = ("a", "b", "a/x", "nobody")
# Nodes of the two virtual clusters alternate, so that devices of a part are not consecutive.
SHAPES = [NodeShape(1, 4, levels={"vc": unit}) for unit in "abab"]
CLUSTER = Cluster.build(SHAPES)


def owned(jobs: str, owners: str, **columns: Any) -> Trace:
    """Jobs of tenants by their number in `UNITS`, one digit per job."""
    return trace_of(jobs, tenant=[int(c) for c in owners], tenant_names=UNITS, **columns)


@pytest.mark.parametrize(
    ("policy", "jobs", "owners", "expected", "why"),
    [
        ("fifo", "A 8x10 B 4x10 C 4x10", "010", {"A": 10, "B": 10, "C": 20}, "b idles while a waits"),
        ("fifo", "A 8x10 B 2x10 C 8x10@1 D 2x5@2", "0111", {"B": 10, "C": 20, "D": 25}, "strict in its part"),
        ("fifo[skip=yes]", "B 2x10 C 8x10@1 D 2x5@2", "111", {"C": 20, "D": 7}, "inner parameters"),
        ("fifo[placement=packed,skip=yes]", "A 3x9 B 3x9 C 2x9", "000", {"C": 18}, "two of them"),
        ("sjf", "A 8x10 B 8x5@1 C 8x3@2", "000", {"A": 10, "B": 18, "C": 13}, "shortest first"),
        ("srtf", "A 8x10 B 8x2@1 C 8x9", "001", {"A": 12, "B": 3, "C": 9}, "preemption stays within"),
        ("fifo", "A 4x10 B 8x10", "20", {"A": 10, "B": 20}, "a/x belongs to a"),
        (
            "fifo",
            "A 8x10 B 12x1 C 4x10",
            "000",
            {"A": 10, "B": None, "C": 20},
            "B would block a for ever",
        ),
        ("fifo", "A 1x10 B 1x10", "03", {"A": 10, "B": None}, "a tenant without a virtual cluster"),
        ("philly", "A 3x500 B 3x500 C 2x5@1", "000", {"C": 606}, "reservations are translated"),
        ("philly", "A 3x500 B 3x500 C 2x5@1 D 4x5", "0001", {"C": 606, "D": 5}, "and hold only there"),
    ],
)
def test_parts(policy: str, jobs: str, owners: str, expected: dict[str, float | None], why: str) -> None:
    """Finishes computed by hand; None is a job that is rejected."""
    record = play(f"partition:policy={policy}", owned(jobs, owners), CLUSTER)
    refused = set(record.jobs.filter(record.jobs["state"] == "REJECTED")["job_id"])
    found = {job: None if job in refused else end for job, end in finishes(record).items()}
    assert {job: found[job] for job in expected} == expected, why


@pytest.mark.parametrize(("factor", "state"), [(1.0, "REJECTED"), (9.0, "COMPLETED")])
def test_a_part_offers_and_promises_as_on_a_cluster_of_its_own(factor: float, state: str) -> None:
    """A has all of a when B comes, whose deadline cannot be kept beside it; b is idle."""
    jobs = owned("A 8x3600 B 8x1800@60", "00", deadline_s=[3660.0, 2760.0])
    policy = "partition:policy=elasticflow[slot_s=60,margin_slots=0,restart_s=0]"
    ended = play(policy, jobs, CLUSTER, Setting(answers=UserAnswers(factor))).jobs
    assert ended["state"].to_list() == ["COMPLETED", state]
    assert ended["offered_s"][1] == pytest.approx(5400.0, abs=60.0)
    assert ended["promised_s"].to_list() == [3660.0, ended["offered_s"][1] if factor > 1 else None]


def test_how_a_part_keeps_a_deadline_is_told() -> None:
    """A belongs to a, B to b, which knows of no deadline of A's; C has none."""
    jobs = owned("A 8x600 B 4x60 C 4x60", "011", deadline_s=[3600.0, 600.0, np.nan])
    loop, _ = prepare(parse_policy("partition:policy=elasticflow").make(), jobs, CLUSTER, Setting())
    loop.run(10.0)
    decision = loop.policy.decide(loop.snapshot(), loop.memory)
    plans = [decision.plan_of(row) for row in range(3)]
    assert [plan and plan.due_s for plan in plans] == [3600.0, 600.0, None]
    assert [slot.gpus for slot in plans[0].slots] == [8]


def test_jobs_stay_on_the_nodes_of_their_part() -> None:
    jobs = " ".join(f"J{i} {1 + i % 5}x{5 + i % 7}@{i}" for i in range(60))
    record = play("partition:policy=srtf", owned(jobs, "01" * 30), CLUSTER)
    owner = dict(zip(record.jobs["job_id"], record.jobs["tenant"], strict=True))
    for row in record.intervals.iter_rows(named=True):
        assert {"ab"[node % 2] for node in row["nodes"]} == {owner[row["job_id"]]}


@pytest.mark.parametrize("kinds", ["GG", "GH"], ids=["one_type", "a_type_each"])
@pytest.mark.parametrize(
    "policy", first(4, ["fifo", "srtf[placement=spread]", "drf", "pai", "las", "philly", "synergy", "sia"])
)
def test_a_part_is_as_good_as_a_cluster_of_its_own(policy: str, kinds: str) -> None:
    """What a virtual cluster does does not depend on the others, nor on the types of GPU that they have."""
    draw = random.Random(17)
    jobs = [
        f"J{i} {draw.choice([1, 2, 2, 3, 7])}x{draw.randint(5, 99)}@{draw.randint(0, 200)}"
        for i in range(120)
    ]
    both = owned(" ".join(jobs), "01" * 60)
    shapes = [
        NodeShape(1, size, kinds[unit == "b"], levels={"vc": unit})
        for unit, size in zip("aabbaabb", [1, 1, 1, 2, 2, 4, 1, 4], strict=True)
    ]
    together = stays(play(f"partition:policy={policy}", both, Cluster.build(shapes)))
    spec = policy.replace("[", ":").rstrip("]")
    for code, unit in enumerate("ab"):
        own = [place for place, shape in enumerate(shapes) if shape.levels["vc"] == unit]
        rows = (both.jobs.tenant == code).nonzero()[0]
        alone = stays(play(spec, both.take(rows), Cluster.build([shapes[place] for place in own])))
        apart = [[(*when, tuple(own[node] for node in nodes)) for *when, nodes in of] for of in alone]
        assert [together[row] for row in rows] == apart


def test_a_fresh_instance_decides_the_same() -> None:
    """Parts are caches: dropping them at every step changes nothing."""
    jobs = " ".join(f"J{i} {1 + i % 4}x{5 + i % 17}@{i}" for i in range(60))
    trace, spec = owned(jobs, "01" * 30), parse_policy("partition:policy=srtf")
    loop, _ = prepare(spec.make(), trace, CLUSTER, Setting())
    while loop.step():
        loop.policy = spec.make()
    assert loop.state.first_start_s.tolist() == list(starts(play(spec, trace, CLUSTER)).values())


def test_a_lost_node_is_lost_to_its_part_only() -> None:
    """Node 0 of a is away from 2 to 50: A starts again on node 2 when B has left it."""
    setting = Setting(faults=[Fault(0, 2.0, 50.0)])
    trace = owned("A 4x10 B 4x10 C 4x10 D 4x10", "0011")
    found = finishes(play("partition:policy=fifo", trace, CLUSTER, setting))
    assert found == {"A": 18, "B": 10, "C": 10, "D": 10}


def test_quotas_within_a_part_still_hold() -> None:
    """The nodes of a are its quota; a/x has a hard one of 2 GPUs below it."""
    tenants = Tenants.of(Tenant("a", 8, hard=True), Tenant("b", 8, hard=True), Tenant("a/x", 2, hard=True))
    found = starts(play("partition", owned("A 2x10 B 2x10", "22"), Cluster.build(SHAPES, tenants)))
    assert found == {"A": 0, "B": 10}


@pytest.mark.parametrize(
    ("units", "quota", "jobs", "expected", "why"),
    [
        (("o/a", "o/b"), Tenant("o", 4, hard=True), "A 4x9 B 4x9", [0, 9], "4 of 8 GPUs, whoever has them"),
        (("o/a", "o/b"), Tenant("o", 4, hard=True), "A 2x9 B 4x9 A 2x9", [0, 9, 0], "all that fits beside A"),
        (("o/a", "o/b"), Tenant("o", 8, True, 1.0, {"GPU": 4.0}), "A 4x9 B 4x9", [0, 9], "of a type"),
        (("a", "a/x"), Tenant("a", 4, hard=True), "B 4x9 A 4x9", [0, 9], "a unit below another"),
        (("o/a", "p/b"), Tenant("o", 2, hard=True), "A 2x9 A 2x9 B 4x9", [0, 9, 0], "above one unit only"),
        (("o/a", "o/b"), Tenant("o", 4), "A 4x9 B 4x9", [0, 0], "a soft one bars nobody"),
    ],
)
@pytest.mark.parametrize("policy", ["fifo[skip=yes]", "srtf"])
def test_a_quota_over_several_parts_holds(
    policy: str, units: tuple[str, str], quota: Tenant, jobs: str, expected: list[float], why: str
) -> None:
    """Jobs of the first unit are A, of the second B; each has 4 GPUs."""
    cluster = Cluster.build([NodeShape(1, 4, levels={"vc": unit}) for unit in units], Tenants.of(quota))
    owners = ["AB".index(name) for name in jobs if name in "AB"]
    numbered = jobs.replace("A", "A{}").replace("B", "B{}").format(*range(len(owners)))
    trace = trace_of(numbered, tenant=owners, tenant_names=units)
    record = play(f"partition:policy={policy}", trace, cluster)
    assert record.jobs["start_s"].to_list() == expected, why


@pytest.mark.parametrize("policy", systems())
def test_who_was_held_back_for_such_a_quota_starts_once_it_has_room(policy: str) -> None:
    """B's part meant to start it at 0, and some policies never did again: they took it for running."""
    try:
        parse_policy(f"partition:policy={policy}").make()
    except InputError:
        pytest.skip("it cannot be the policy of a part")
    tenants = Tenants.of(Tenant("o", 5, hard=True))
    cluster = Cluster.build([NodeShape(1, 4, levels={"vc": unit}) for unit in ("o/a", "o/b")], tenants)
    trace = trace_of("A 4x10 B 4x10 C 1x10@1 D 2x10@2", tenant=[0, 1, 1, 0], tenant_names=("o/a", "o/b"))
    begun = starts(play(f"partition:policy={policy}", trace, cluster))
    assert max(begun.values()) <= (600.0 if policy == "chronus" else 60.0)


def test_it_takes_over_a_cluster_that_knew_no_parts() -> None:
    """A of tenant b runs on nodes of a: it keeps them, and they are not granted to others meanwhile."""
    trace = owned("A 8x10 B 8x10@1 C 8x10@2", "101")
    loop, recorder = prepare(parse_policy("fifo").make(), trace, CLUSTER, Setting())
    loop.step(0.5)
    loop.policy, loop.memory = parse_policy("partition").make(), {}
    loop.run()
    assert [grant.job for grant, *_ in recorder.intervals] == [0, 1, 2] or len(recorder.intervals) == 3
    assert loop.state.preemptions.tolist() == [0, 0, 0]
    assert loop.state.first_start_s.tolist() == [0, 10, 10]


def test_a_cluster_without_the_level_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"no level 'vc' for `partition` to cut along; expected nodes with levels"
    ):
        run("partition", owned("A 1x1", "0"), parse_cluster("1x4"))
    racks = Cluster.build([NodeShape(count=1, gpus=4, levels={"rack": "r1"})])
    with pytest.raises(InputError, match="to cut along; expected by=rack"):
        run("partition", owned("A 1x1", "0"), racks)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("partition:policy=fifo[skip=yes", "no closing bracket"),
        ("partition:policy=fifi", "did you mean 'fifo'"),
        ("partition:policy=fifo[skp=yes]", "did you mean 'skip'"),
    ],
)
def test_inner_policies_are_checked(text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        parse_policy(text).make()


def test_a_list_of_policies_keeps_brackets_together() -> None:
    text = "partition:by=vc,policy=fifo[skip=yes,placement=packed],srtf"
    assert len(split_policies(text)) == 2
