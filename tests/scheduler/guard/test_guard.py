"""One deliberately bad decision per rule: the guard names rule, job and device."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pytest

from play import play, trace_of
from rota.errors import GuardError
from rota.model.cluster import Cluster, NodeShape
from rota.model.grants import Grant, Reservation, Role
from rota.model.job_columns import AllowedCounts
from rota.model.promises import Offer
from rota.model.tenants import Tenant, Tenants
from rota.scheduler.decision import Decision
from rota.scheduler.guard.check import RULES, check, is_plainly_sound
from rota.table.state import Phase
from scripted import Scripted, state_of

PACKED, TURNS, BELOW, GUARANTEED = Role.PACKED, Role.TURNS, Role.OPPORTUNISTIC, Role.GUARANTEED

MEMORY = Cluster.build([NodeShape(count=1, gpus=4, gpu_memory_gib=16, cpus=8, memory_gib=64)])
QUOTA = Cluster.build(
    [NodeShape(count=1, gpus=4, gpu_type="A")],
    Tenants.of(Tenant("team", quota_gpus=2, hard=True)),
)
BY_TYPE = Cluster.build(
    [NodeShape(count=1, gpus=4, gpu_type=kind) for kind in "AB"],
    Tenants.of(Tenant("team", quota_gpus=4, hard=True, quota_by_type={"A": 1.0})),
)


class Bad(NamedTuple):
    """A decision that breaks `rule`; job A is row 0, B row 1, ...; devices are numbered from 0."""

    rule: str
    says: str
    """Words the message must hold: the job, and the device if one is concerned."""
    decision: dict[str, Any]
    jobs: str = "A 1x9 B 1x9 C 2x9"
    cluster: Any = "2x2"
    running: tuple[Grant, ...] = ()
    columns: dict[str, Any] = {}  # noqa: RUF012 - never written


def grants(*given: Grant) -> dict[str, Any]:
    return {"grants": list(given)}


DUE: dict[str, Any] = {"columns": {"deadline_s": 50.0}}
BAD = [
    Bad("named-twice", "job A", grants(Grant(0, (0,)), Grant(0, (1,)))),
    Bad("named-twice", "job A", {"grants": [Grant(0, (0,))], "reject": {0: "no"}}),
    Bad("named-twice", "job A", {"preempt": [0, 0]}, running=(Grant(0, (0,)),)),
    Bad("named-twice", "job A", {"preempt": [0, 0]}, jobs="A 0x9", running=(Grant(0, (), node=0),)),
    Bad("not-live", "job 9", grants(Grant(9, (0,)))),
    Bad("not-live", "job -1", grants(Grant(-1, (0,)))),
    Bad("not-live", "job 9", {"cancel": {9: "gone"}}),
    Bad("not-running", "job A", {"preempt": [0]}),
    Bad("not-waiting", "job A", {"reject": {0: "no"}}, running=(Grant(0, (0,)),)),
    Bad("no-device", "job A is granted device 4", grants(Grant(0, (4,)))),
    Bad("no-device", "job A is granted device -1", grants(Grant(0, (-1,)))),
    Bad("no-device", "job C is granted device 7", grants(Grant(2, (0, 7)))),
    Bad("no-device", "job A", grants(Grant(0, ()))),
    Bad("no-device", "job A", grants(Grant(0, (), node=2)), jobs="A 0x9"),
    Bad("device-twice", "job C is granted device 1 twice", grants(Grant(2, (1, 1)))),
    Bad("gang", "job C asks for 2", grants(Grant(2, (0,)))),
    Bad("gang", "job A asks for 1", grants(Grant(0, (0, 1)))),
    Bad("gang", "job A asks for 0", grants(Grant(0, (0,))), jobs="A 0x9"),
    Bad("gang", "job C asks for 2", grants(Grant(2, (), node=0))),
    Bad("size", "job A can use 2 to 4", grants(Grant(0, (0,))), "A 4x9", columns={"gpus_min": 2}),
    Bad(
        "size",
        "job A can use 1 to 4 GPUs in powers of two",
        grants(Grant(0, (0, 1, 2))),
        "A 4x9",
        columns={"gpus_min": 1, "counts": int(AllowedCounts.POWERS_OF_TWO)},
    ),
    Bad("size", "job C can use 1 to 2", grants(Grant(2, (0, 1, 2))), columns={"gang": False}),
    Bad("size", "job C can use 1 to 2", grants(Grant(2, (), node=0)), columns={"gang": False}),
    Bad(
        "type",
        "job A accepts B and is granted device 1, a A",
        grants(Grant(0, (1,))),
        cluster="1x2:A,1x2:B",
        columns={"type_names": ("A", "B"), "gpu_types": 2},
    ),
    Bad(
        "node-set",
        "job A asks for nodes n1 and is granted n0",
        grants(Grant(0, (1,))),
        cluster="2x2",
        columns={"node_set": 0, "node_set_names": ("n1",)},
    ),
    Bad("share", "job A asks for a share of 1 and is granted 0.5 of device 0", grants(Grant(0, (0,), 0.5))),
    Bad("share", "job A", grants(Grant(0, (0,), 1.5, PACKED))),
    Bad("share", "job A", grants(Grant(0, (0,), 0.0, PACKED))),
    Bad("share", "job A", grants(Grant(0, (0,), -0.5, BELOW))),
    Bad("oversubscribed", "job B would claim device 0", grants(Grant(0, (0,)), Grant(1, (0,)))),
    Bad("oversubscribed", "job C would claim device 1", grants(Grant(2, (0, 1))), running=(Grant(0, (1,)),)),
    Bad(
        "oversubscribed",
        "job B would claim device 0 (node n0), whose shares would sum to 1.2",
        grants(Grant(0, (0,), 0.6, PACKED), Grant(1, (0,), 0.6, PACKED)),
    ),
    Bad(
        "alone",
        "job B is to be alone on device 0, where A stays",
        grants(Grant(1, (0,))),
        running=(Grant(0, (0,), 1.0, BELOW),),
    ),
    Bad(
        "alone",
        "job B is to share device 0, where A is alone",
        grants(Grant(1, (0,), 1.0, BELOW)),
        running=(Grant(0, (0,)),),
    ),
    Bad("alone", "job B", grants(Grant(0, (0,)), Grant(1, (0,), 0.5, BELOW))),
    Bad("alone", "job B", grants(Grant(0, (0,), 0.5, BELOW), Grant(1, (0,)))),
    Bad("alone", "job B", grants(Grant(1, (0,), 0.0, TURNS)), running=(Grant(0, (0,)),)),
    Bad(
        "memory",
        "job B would bring device 2 to 20 of 16 GiB",
        grants(Grant(0, (2,), 0.5, PACKED), Grant(1, (2,), 0.5, PACKED)),
        cluster=MEMORY,
        columns={"gpu_memory_gib": 10.0},
    ),
    Bad(
        "memory",
        "job B would bring device 2 to 20 of 16 GiB",
        grants(Grant(0, (2,), 0.0, TURNS), Grant(1, (2,), 1.0, TURNS)),
        cluster=MEMORY,
        columns={"gpu_memory_gib": 10.0},
    ),
    Bad(
        "cpu",
        "job B would bring device 1, node n0 to 10 of 8 CPUs",
        grants(Grant(0, (0,)), Grant(1, (1,))),
        cluster=MEMORY,
        columns={"cpus": 5.0},
    ),
    Bad(
        "cpu",
        "job B would bring node n0 to 80 of 64 GiB",
        grants(Grant(1, (), node=0)),
        jobs="A 0x9 B 0x9",
        cluster=MEMORY,
        running=(Grant(0, (), node=0),),
        columns={"memory_gib": 40.0},
    ),
    Bad(
        "quota",
        "job C on device 1, would bring tenant team 1 GPU above its quota",
        grants(Grant(2, (1, 2))),
        cluster=QUOTA,
        running=(Grant(0, (0,)),),
        columns={"tenant_names": ("team/ann",)},
    ),
    Bad(
        "quota",
        "job B on device 1",
        grants(Grant(0, (0,)), Grant(1, (1,))),
        cluster=BY_TYPE,
        columns={"tenant_names": ("team",)},
    ),
    Bad(
        "reserved",
        "job A is granted device 1, reserved for C",
        {"grants": [Grant(0, (1,))], "reservations": [Reservation(2, (0, 1), 50.0)]},
    ),
    Bad("offer", "job A has no deadline", {"offers": {0: Offer(90.0, 9.0, "")}}),
    Bad("offer", "job A is offered the moment inf s", {"offers": {0: Offer(math.inf, 9.0, "")}}, **DUE),
    Bad("offer", "job A is offered the moment 0 s", {"offers": {0: Offer(0.0, 9.0, "")}}, **DUE),
    Bad("offer", "job A is made an offer valid until 0 s", {"offers": {0: Offer(90.0, 0.0, "")}}, **DUE),
    Bad(
        "not-waiting", "job A does not wait", {"offers": {0: Offer(90.0, 9.0, "")}}, running=(Grant(0, (0,)),)
    ),
    Bad("reservation", "job C has device 9", {"reservations": [Reservation(2, (9,), 50.0)]}),
    Bad("reservation", "job 5", {"reservations": [Reservation(5, (0,), 50.0)]}),
    Bad(
        "reservation",
        "job B has device 0 kept for it, which is kept for A",
        {"reservations": [Reservation(0, (0,), 50.0), Reservation(1, (0, 1), 50.0)]},
    ),
]


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: f"{bad.rule}: {bad.says}")
def test_a_bad_decision_is_refused_with_the_rule_it_breaks(bad: Bad) -> None:
    state = state_of(bad.jobs, bad.cluster, bad.running, **bad.columns)
    breaches = check(state, Decision({}, **bad.decision))
    assert [breach.rule for breach in breaches] == [bad.rule], breaches
    assert bad.says in breaches[0].message
    assert RULES[bad.rule] in breaches[0].message


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: f"{bad.rule}-{bad.says}")
def test_the_quick_look_takes_no_bad_decision_for_sound(bad: Bad) -> None:
    """It comes first in the loop: a row that is no job's must not end the run before the guard names it."""
    state = state_of(bad.jobs, bad.cluster, bad.running, **bad.columns)
    assert not is_plainly_sound(state, Decision({}, **bad.decision))


def test_every_rule_has_a_bad_decision() -> None:
    assert {bad.rule for bad in BAD} | {"unhealthy", "lever"} == set(RULES)


@pytest.mark.parametrize(
    ("jobs", "grant", "says"),
    [
        ("A 1x9", Grant(0, (3,)), "job A is granted device 3, which is lost"),
        ("A 0x9", Grant(0, (), node=1), "job A is granted node n1, which is lost"),
    ],
)
def test_a_lost_node_is_not_granted(jobs: str, grant: Grant, says: str) -> None:
    state = state_of(jobs, "2x2")
    state.occupancy.lose(1)
    (breach,) = check(state, Decision({}, [grant]))
    assert breach.rule == "unhealthy"
    assert says in breach.message


GOOD = [
    # why                                       decision in the state where A runs alone on device 0
    ("swap within one decision", {"preempt": [0], "grants": [Grant(1, (0,))]}),
    ("move", {"grants": [Grant(0, (3,)), Grant(2, (0, 1))]}),
    ("two share in turns", {"grants": [Grant(1, (1,), 0.5, TURNS), Grant(2, (1, 2), 0.5, TURNS)]}),
    ("below the guaranteed", {"grants": [Grant(1, (1,), 1.0, GUARANTEED), Grant(2, (1, 2), 1.0, BELOW)]}),
    ("becomes shared itself", {"grants": [Grant(0, (0,), 0.5, PACKED), Grant(1, (0,), 0.5, PACKED)]}),
    ("cancel makes room", {"cancel": {0: "asked"}, "grants": [Grant(2, (0, 1))]}),
    ("may stay where others reserve", {"reservations": [Reservation(2, (0, 1), 9.0)]}),
    ("own reservation", {"reservations": [Reservation(1, (1,), 9.0)], "grants": [Grant(1, (1,))]}),
    ("reservation that is over", {"reservations": [Reservation(2, (1,), 0.0)], "grants": [Grant(1, (1,))]}),
]


@pytest.mark.parametrize("decision", [good[1] for good in GOOD], ids=[good[0] for good in GOOD])
def test_a_sound_decision_passes(decision: dict[str, Any]) -> None:
    state = state_of("A 1x9 B 1x9 C 2x9", "2x2", [Grant(0, (0,))])
    assert check(state, Decision({}, **decision)) == []


def test_only_the_offender_is_named_when_many_are_granted() -> None:
    state = state_of("A 1x9 B 1x9 C 1x9", "1x4")
    breaches = check(state, Decision({}, [Grant(0, (0,)), Grant(1, (0,)), Grant(2, (1,))]))
    assert [breach.job for breach in breaches] == [1]


def test_in_a_simulation_a_breach_stops_the_run() -> None:
    policy = Scripted({"grants": [Grant(0, (0,)), Grant(1, (0,))]})
    with pytest.raises(GuardError, match=r"at 0 s, job B would claim device 0 \(node n0\)") as error:
        play(policy, "A 1x9 B 1x9", "1x2")
    assert error.value.rule == "oversubscribed"


@pytest.mark.parametrize("cluster", ["2x4", "1x4:A,1x4:B"])
def test_the_quick_check_agrees_with_the_full_one(cluster: str) -> None:
    """Random plain decisions: the one-pass check accepts only what every rule accepts."""
    from rota.scheduler.guard import check as guard

    rng = np.random.default_rng(5)
    accepted = 0
    for _ in range(400):
        jobs = " ".join(f"J{i} {int(rng.integers(1, 4))}x9" for i in range(5))
        types = {"type_names": ("A", "B"), "gpu_types": rng.integers(0, 3, 5)} if ":" in cluster else {}
        trace = trace_of(jobs, **types)
        state = state_of(trace, cluster)
        first = rng.permutation(8)[: int(trace.jobs.gpus[0])]
        state.start(Grant(0, tuple(sorted(first.tolist()))))
        count = rng.integers(0, 3)
        given = [
            Grant(int(row), tuple(sorted(rng.integers(0, 8, int(trace.jobs.gpus[row])).tolist())))
            for row in rng.integers(0, 5, count)
        ]
        decision = Decision({}, given, [0] if rng.random() < 0.5 else [])
        quick = guard.is_plainly_sound(state, decision)
        full = [*guard._check_names(state, decision)]
        full = full or [b for g in given for b in guard.check_shape(state, g)]
        full = full or guard.check_claims(state, decision)
        assert not (quick and full), (decision, full)
        accepted += quick
    assert accepted > 50


@pytest.mark.parametrize("cluster", ["2x4", "1x4:A,1x4:B"])
def test_the_quick_check_of_moves_agrees_with_the_full_one(cluster: str) -> None:
    """Random moves, starts and stops where three run, sometimes on other GPUs than they asked for."""
    from rota.scheduler.guard import check as guard

    rng = np.random.default_rng(7)
    accepted = 0
    for _ in range(600):
        sizes = rng.integers(1, 3, 6).tolist()
        types = {"type_names": ("A", "B"), "gpu_types": rng.integers(0, 3, 6)} if ":" in cluster else {}
        state = state_of(trace_of(" ".join(f"J{i} {n}x9" for i, n in enumerate(sizes)), **types), cluster)
        devices = rng.permutation(8).tolist()
        for row in range(3):
            role = Role.PACKED if rng.random() < 0.1 else Role.ALONE
            held = tuple(sorted(devices.pop() for _ in range(sizes[row] + (rng.random() < 0.05))))
            state.start(Grant(row, held, 1.0 if role is Role.ALONE else 0.5, role))
        among, given = rng.permutation(8).tolist(), []
        for row in rng.integers(0, 6, rng.integers(1, 5)).tolist():
            places = [among.pop() if among and rng.random() < 0.95 else 0 for _ in range(sizes[row])]
            given.append(Grant(row, tuple(sorted(places))))
        decision = Decision({}, given, rng.permutation(3)[: rng.integers(0, 3)].tolist())
        quick = guard.is_plainly_sound(state, decision)
        assert not (quick and guard.check(state, decision)), decision
        accepted += quick and any(grant.job < 3 for grant in given)
    assert accepted > 20


def test_the_quick_check_of_what_is_kept_agrees_with_the_full_one() -> None:
    """Random starts and stops with devices kept for others, for nobody who lives, or twice."""
    from rota.scheduler.guard import check as guard

    rng = np.random.default_rng(8)
    accepted = 0
    for _ in range(800):
        state = state_of(" ".join(f"J{i} {int(rng.integers(1, 3))}x9" for i in range(6)), "1x8")
        state.start(Grant(0, tuple(range(state.gpus_of[0]))))
        if rng.random() < 0.1:
            state.withdraw(5, Phase.CANCELLED)
        among = rng.permutation(9 if rng.random() < 0.1 else 8).tolist()
        given, kept = [], []
        for row in rng.permutation(6)[: rng.integers(1, 5)].tolist():
            places = [among.pop() if rng.random() < 0.95 else 3 for _ in range(state.gpus_of[row])]
            if rng.random() < 0.4:
                given.append(Grant(row, tuple(sorted(places))))
            else:
                kept.append(Reservation(row, tuple(places), 9.0 if rng.random() < 0.9 else 0.0))
        before = rng.random() < 0.2
        state.reservations = tuple(kept) if before else ()
        decision = Decision(
            {}, given, [0] if rng.random() < 0.3 else [], reservations=None if before else kept
        )
        quick = guard.is_plainly_sound(state, decision)
        assert not (quick and guard.check(state, decision)), decision
        accepted += quick and bool(given) and bool(kept)
    assert accepted > 50


def test_the_quick_check_of_shared_devices_agrees_with_the_full_one() -> None:
    """Random starts of parts and of whole devices beside parts, turns and opportunists."""
    from rota.scheduler.guard import check as guard

    rng = np.random.default_rng(6)
    accepted = 0
    shares = [1.0, 0.5, 0.5, 0.25]
    beside = [(Role.ALONE, 1.0), (Role.PACKED, 0.5), (Role.PACKED, 0.75), (Role.TURNS, 0.0), (BELOW, 1.0)]
    for _ in range(600):
        asked = np.array([1.0, *rng.choice(shares, 4)])
        state = state_of(trace_of(" ".join(f"J{i} 1x9" for i in range(5)), gpu_share=asked), "1x3")
        role, share = beside[rng.integers(len(beside))]
        state.start(Grant(0, (int(rng.integers(3)),), share, role))
        given = []
        for row in rng.permutation(5)[: rng.integers(1, 4)].tolist():
            share = float(rng.choice([*shares, asked[row]]))
            role = rng.choice([Role.ALONE, Role.PACKED]) if rng.random() < 0.2 else None
            role = role if role is not None else Role.ALONE if share == 1.0 else Role.PACKED
            given.append(Grant(row, (int(rng.integers(3)),), share, Role(role)))
        decision = Decision({}, given, [0] if rng.random() < 0.3 else [])
        quick = guard.is_plainly_sound(state, decision)
        assert not (quick and guard.check(state, decision)), decision
        accepted += quick and any(grant.share < 1.0 for grant in given)
    assert accepted > 50
