"""Claims entered and taken away again leave nothing behind; recounting them from scratch gives the same."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from play import trace_of
from rota.model.cluster import Cluster, NodeShape, parse_cluster
from rota.model.grants import Grant, Role
from rota.model.tenants import Tenant, Tenants
from rota.scheduler.moments.packing import pack_occupancy
from rota.table.device_memory import memory_of
from rota.table.occupancy import Occupancy
from tiers import examples

CLUSTER = Cluster.build(
    [
        NodeShape(count=2, gpus=4, gpu_type=kind, cpus=32, memory_gib=256, gpu_memory_gib=16)
        for kind in ("A", "B")
    ],
    Tenants.of(Tenant("team", quota_gpus=8, hard=True), Tenant("team/ann", quota_gpus=4)),
)
JOBS = trace_of(
    " ".join(f"J{row} {gpus}x9" for row, gpus in enumerate([1, 1, 2, 4, 0, 1, 1, 3])),
    tenant_names=("team/ann", "team/bob", "other"),
    tenant=[0, 1, 2, 0, 1, 2, 0, 1],
    cpus=[2, 0, 8, 16, 4, 1, 1, 6],
    memory_gib=[8.5, 0, 16, 64, 1, 0, 2, 3],
    gpu_memory_gib=[4, 0, 8, 0, 0, 2, 1, 5],
    gpu_persistent_gib=[0, 0, 3, 1, 0, 0.5, 0.25, 5],
).jobs

ROLES = [(Role.ALONE, 1.0), (Role.PACKED, 0.25), (Role.TURNS, 0.5), (Role.TURNS, 0.0),
         (Role.GUARANTEED, 0.75), (Role.OPPORTUNISTIC, 1.0), (Role.OPPORTUNISTIC, 0.3)]  # fmt: skip


@st.composite
def grants(draw: st.DrawFn, row: int) -> Grant:
    """Any devices, share and role for `row`; a node for the CPU job."""
    count = JOBS.gpus.item(row)
    if not count:
        return Grant(row, (), node=draw(st.integers(0, 3)))
    devices = draw(st.permutations(range(16)))[:count]
    role, share = draw(st.sampled_from(ROLES))
    return Grant(row, tuple(sorted(devices)), share, role)


def fits(occupancy: Occupancy, grant: Grant) -> bool:
    """True if the shares allow `grant`; whoever is alone has the device to itself."""
    for device in grant.devices:
        counted = 0.0 if grant.role is Role.OPPORTUNISTIC else grant.share
        alone = occupancy.claimed[device] == 1.0 and device not in occupancy.sharers
        if alone or occupancy.claimed[device] + counted > 1.0:
            return False
        if grant.role is Role.ALONE and device in occupancy.sharers:
            return False
    return True


def contents(occupancy: Occupancy) -> dict[str, Any]:
    """Everything it counts, rounded, without zeros."""
    free = occupancy.free
    return {
        "claimed": [round(claim, 9) for claim in occupancy.claimed],
        "free": [device for device in range(len(free.node_of)) if free.is_free(device)],
        "spare": {device: round(left, 9) for device, left in sorted(occupancy.spare.items())},
        "sharers": {device: sorted(rows) for device, rows in sorted(occupancy.sharers.items())},
        "memory": {
            d: round(gib, 9) for d, gib in sorted(occupancy.device_memory.used.items()) if abs(gib) > 1e-9
        },
        "turns": dict(sorted(occupancy.device_memory.in_turns.items())),
        "cpus": [round(cpus, 9) + 0.0 for cpus in occupancy.cpus_used],
        "host": [round(gib, 9) + 0.0 for gib in occupancy.memory_used],
        "tenants": {key: round(n, 9) for key, n in sorted(occupancy.tenant_gpus.items()) if abs(n) > 1e-9},
        "down": sorted(occupancy.down),
    }


@given(st.data())
@examples(200)
def test_holding_and_releasing_is_a_round_trip(data: st.DataObject) -> None:
    """Jobs come and go in any order; what is kept always equals a recount of who is there."""
    occupancy = Occupancy(CLUSTER, JOBS)
    held: dict[int, Grant] = {}
    for row in data.draw(st.lists(st.sampled_from(range(len(JOBS))), max_size=25)):
        if row in held:
            occupancy.release(held.pop(row))
        elif fits(occupancy, grant := data.draw(grants(row))):
            before = contents(occupancy)
            twin = occupancy.copy()
            twin.hold(grant)
            assert contents(occupancy) == before, "a copy is independent"
            occupancy.hold(grant)
            assert contents(occupancy) == contents(twin)
            held[row] = grant
        fresh = Occupancy(CLUSTER, JOBS)
        for grant in held.values():
            fresh.hold(grant)
        assert contents(occupancy) == contents(fresh)
    for grant in held.values():
        occupancy.release(grant)
    assert contents(occupancy) == contents(Occupancy(CLUSTER, JOBS))


def exactly(occupancy: Occupancy) -> dict[str, Any]:
    """Everything it counts, to the last bit."""
    free = occupancy.free
    return {
        **pack_occupancy(occupancy),
        "spares": occupancy.spares,
        "free": (free.devices, free.count, free.buckets, free.nonempty, free.total),
    }


def try_one(data: st.DataObject, occupancy: Occupancy, held: dict[int, Grant]) -> None:
    """Something that happens to a cluster, or that somebody tries: a job comes or goes, a node is closed."""
    node, row = data.draw(st.integers(0, 3)), data.draw(st.sampled_from(range(len(JOBS))))
    what = data.draw(st.sampled_from(["job", "job", "job", "node", "devices"]))
    if what == "node":
        (occupancy.regain if node in occupancy.down_nodes else occupancy.lose)(node)
    elif what == "devices":
        (occupancy.open if 5 in occupancy.down else occupancy.close)([5, 6])
    elif row in held:
        occupancy.release(held.pop(row))
    elif fits(occupancy, grant := data.draw(grants(row))):
        occupancy.hold(grant)
        held[row] = grant


@given(st.data())
@examples(200)
def test_the_scratch_that_is_kept_is_brought_back_exactly(data: st.DataObject) -> None:
    """Whatever was tried on it, and whatever happened meanwhile; and trying things changes nothing."""
    truth, held = Occupancy(CLUSTER, JOBS), dict[int, Grant]()
    for _ in range(data.draw(st.integers(1, 6))):
        for _ in range(data.draw(st.integers(0, 4))):
            try_one(data, truth, held)
        before = exactly(truth)
        scratch, tried = truth.scratch(), held.copy()
        assert exactly(scratch) == before
        for _ in range(data.draw(st.integers(0, 4))):
            try_one(data, scratch, tried)
        assert exactly(truth) == before
        truth.take_back()


def test_the_kept_scratch_is_lent_to_one_at_a_time() -> None:
    truth = Occupancy(CLUSTER, JOBS)
    first, second = truth.scratch(), truth.scratch()
    first.hold(Grant(0, (0,)))
    assert (first.free.total, second.free.total) == (15, 16)
    truth.take_back()
    assert truth.scratch() is first
    assert first.free.total == 16


def test_limits_that_were_tried_are_forgotten_where_nobody_else_has_any() -> None:
    shape = NodeShape(count=2, gpus=4, cpus=8.0)
    truth = Occupancy(Cluster.build([shape]), trace_of("A 2x9").jobs)
    before = exactly(truth)
    scratch = truth.scratch()
    scratch.hold(Grant(0, (0, 4), cpus=4.0, memory_gib=8.0, gpu_memory_gib=5.0))
    assert (scratch.cpus_used, scratch.device_memory.used) == ([2.0, 2.0], {0: 5.0, 4: 5.0})
    truth.take_back()
    assert exactly(truth.scratch()) == before
    assert not scratch.counts_hosts


@pytest.mark.parametrize(
    ("shape", "counts"),
    [
        (NodeShape(count=1, gpus=4), False),
        (NodeShape(count=1, gpus=4, cpus=8.0), True),
        (NodeShape(count=1, gpus=4, memory_gib=64.0), True),
        (NodeShape(count=1, gpus=4, gpu_memory_gib=16.0), True),
    ],
)
def test_what_cannot_run_out_is_not_counted(shape: NodeShape, counts: bool) -> None:
    """Traces of sites state CPUs and memory of each job, and clusters taken from them no capacity."""
    asks = {"cpus": [4.0, 4.0], "memory_gib": [8.0, 8.0], "gpu_memory_gib": [2.0, 2.0]}
    jobs = trace_of("A 2x9 B 2x9", **asks).jobs
    occupancy = Occupancy(Cluster.build([shape]), jobs)
    occupancy.hold(Grant(0, (0, 1)))
    assert (occupancy.counts_hosts, occupancy.cpus_used == [4.0]) == (counts, counts)
    empty = Occupancy(Cluster.build([shape]), trace_of("A 2x9 B 2x9").jobs)
    assert not empty.counts_hosts
    empty.jobs = jobs
    empty.enter(1)
    assert empty.counts_hosts is counts


HELD = [
    # grants                                                free of 4   spare           why
    ([Grant(0, (0,))], 3, {}, "alone"),
    ([Grant(0, (0,), 0.25, Role.PACKED)], 3, {0: 0.75}, "claimed in part"),
    ([Grant(0, (0,), 0.5, Role.PACKED), Grant(1, (0,), 0.5, Role.PACKED)], 3, {}, "claimed in two halves"),
    ([Grant(0, (0,), 1.0, Role.OPPORTUNISTIC)], 4, {}, "opportunistic: still free for others"),
    ([Grant(0, (0,), 0.0, Role.TURNS)], 4, {}, "suspended in place claims no time"),
    ([Grant(0, (0,), 1.0, Role.TURNS), Grant(1, (0,), 0.0, Role.TURNS)], 3, {}, "one runs, one is suspended"),
]


@pytest.mark.parametrize(("held", "free", "spare", "why"), HELD, ids=[row[3] for row in HELD])
def test_what_is_left(held: list[Grant], free: int, spare: dict[int, float], why: str) -> None:
    occupancy = Occupancy(parse_cluster("1x4"), trace_of("A 1x1 B 1x1").jobs)
    for grant in held:
        occupancy.hold(grant)
    assert (occupancy.free.total, occupancy.spare) == (free, spare), why


# -- device memory in turns ------------------------------------------------------------------------

SALUS = {"A": (1.0, 6.0), "B": (0.5, 5.0), "C": (0.5, 3.0), "D": (0.5, 4.0)}
"""Jobs of the first worked example on the page of Salus: GiB kept, GiB needed besides in turn."""


def in_turns(kept: list[float], rest: list[float]) -> Occupancy:
    """One device of 16 GiB, for jobs that keep and need so much."""
    cluster = Cluster.build([NodeShape(count=1, gpus=1, gpu_memory_gib=16)])
    jobs = trace_of(
        " ".join(f"J{row} 1x9" for row in range(len(kept))),
        gpu_memory_gib=[p + e for p, e in zip(kept, rest, strict=True)],
        gpu_persistent_gib=kept,
    ).jobs
    return Occupancy(cluster, jobs)


def turn(row: int, gpu_memory_gib: float = math.nan) -> Grant:
    return Grant(row, (0,), 0.25, Role.TURNS, gpu_memory_gib=gpu_memory_gib)


def test_what_takes_turns_counts_once() -> None:
    """All keep what they keep, and the largest rest is there for whoever has its turn."""
    occupancy = in_turns(*map(list, zip(*SALUS.values(), strict=True)))
    used = []
    for row in range(4):
        assert (
            occupancy.device_memory.with_more(0, *memory_of(occupancy.jobs, turn(row)))
            == 2.5 - 0.5 * (3 - row) + 6.0
        )
        occupancy.hold(turn(row))
        used.append(occupancy.device_memory.used[0])
    assert used == [7.0, 7.5, 8.0, 8.5]
    for row in (0, 1, 3):  # the largest of those that stay is what counts
        occupancy.release(turn(row))
        used.append(occupancy.device_memory.used[0])
    assert used[4:] == [1.5 + 5.0, 1.0 + 4.0, 0.5 + 3.0]
    occupancy.release(turn(2))
    assert (occupancy.device_memory.used, occupancy.device_memory.in_turns) == ({0: 0.0}, {})


def test_who_does_not_say_what_it_keeps_keeps_all() -> None:
    """Nor does anybody in another role take turns; a limit that is granted counts for what was asked."""
    occupancy = in_turns([0.0, 2.0, 2.0], [7.0, 9.0, 9.0])
    assert memory_of(occupancy.jobs, turn(0)) == (7.0, 0.0)
    assert memory_of(occupancy.jobs, turn(1)) == (2.0, 9.0)
    assert memory_of(occupancy.jobs, Grant(1, (0,), 0.5, Role.PACKED)) == (11.0, 0.0)
    assert memory_of(occupancy.jobs, turn(1, gpu_memory_gib=5.0)) == (2.0, 3.0)
    assert memory_of(occupancy.jobs, turn(1, gpu_memory_gib=1.0)) == (1.0, 0.0)
    for row in range(3):
        occupancy.hold(turn(row))
    assert occupancy.device_memory.used[0] == 7.0 + 2.0 + 2.0 + 9.0


def test_a_lost_node_has_nothing_free_until_it_is_back() -> None:
    occupancy = Occupancy(parse_cluster("2x2"), trace_of("A 1x1").jobs)
    occupancy.lose(0)
    occupancy.lose(0)
    assert (occupancy.free.total, occupancy.down, occupancy.down_nodes) == (2, {0, 1}, {0})
    occupancy.regain(0)
    occupancy.regain(0)
    assert (occupancy.free.total, occupancy.down, occupancy.down_nodes) == (4, set(), set())


def test_quotas_count_for_the_tenant_and_its_parents_by_type() -> None:
    occupancy = Occupancy(CLUSTER, JOBS)
    occupancy.hold(Grant(0, (0,), 0.5, Role.PACKED))
    occupancy.hold(Grant(1, (8,), 1.0, Role.ALONE))
    occupancy.hold(Grant(6, (9,), 1.0, Role.OPPORTUNISTIC))
    assert occupancy.tenant_gpus == {
        ("team/ann", -1): 0.5, ("team/ann", 0): 0.5, ("team", -1): 1.5, ("team", 0): 0.5, ("team", 1): 1.0,
    }  # fmt: skip


def test_host_resources_follow_the_gpus() -> None:
    """Job 3: 4 GPUs with 16 CPUs, three of them on node 0."""
    occupancy = Occupancy(CLUSTER, JOBS)
    grant = Grant(3, (0, 1, 2, 4))
    assert occupancy.parts(grant) == [(0, 0.75), (1, 0.25)]
    occupancy.hold(grant)
    assert occupancy.cpus_used == [12.0, 4.0, 0.0, 0.0]
    assert occupancy.parts(Grant(4, (), node=2)) == [(2, 1.0)]


def test_an_elastic_job_takes_the_host_along_in_proportion() -> None:
    """16 CPUs for 4 GPUs: 4 for each, on however many it runs."""
    occupancy = Occupancy(CLUSTER, JOBS)
    for devices, cpus in (((0, 1), 8.0), ((0, 1, 2, 3), 16.0), ((0, 1, 4), 8.0)):
        occupancy.hold(Grant(3, devices))
        assert occupancy.cpus_used[0] == cpus
        occupancy.release(Grant(3, devices))
