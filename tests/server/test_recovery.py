"""The scheduler's memory built anew from the store is the memory it had."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from enum import StrEnum
from json import dumps
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from site_play import AllMayRun, Program, Site

from rota.model.tenants import Tenants
from rota.scheduler.decision import Event
from rota.server.recovery import LEAST_CAPACITY, cluster_of, rebuild, wake_of
from rota.server.step_recorder import plain_wake
from rota.server.store.rows import NewJob, NodeRow
from rota.table.progress import COLUMNS as PROGRESS
from rota.table.state import COLUMNS, Phase, State
from rota.wire.job import JobSpec
from rota.wire.sync import DeviceInfo, NodeInfo, SyncRequest
from rota.worlds.live import lifecycle
from rota.worlds.live.inbox import ReportTold
from rota.worlds.live.world import LiveWorld
from tiers import examples


def test_a_machine_without_devices_brings_no_type() -> None:
    """Else whoever waits for a device would be told of two types, one of which nobody has."""
    bare = {"address": "a", "cpus": 1, "memory_gib": 1, "boot_id": "b", "kind": "cpu"}
    info = {"head": [], "worker": [DeviceInfo(index=0, type="H100")]}
    rows = [
        NodeRow(k, name, NodeInfo(name=name, devices=devices, **bare), "up", k, 0.0)
        for k, (name, devices) in enumerate(info.items())
    ]
    assert [cluster_of(nodes, Tenants()).type_names for nodes in (rows, rows[:1])] == [("H100",), ("GPU",)]


def said(state: State) -> dict[str, Any]:
    """Everything of a table that a policy could tell apart."""
    seen = slice(0, state.submitted)
    live = state.phase[seen] <= Phase.RUNNING
    progress = {name: getattr(state.progress, name)[seen] for name in PROGRESS}
    programs = {name: progress.pop(name)[live].tolist() for name in ("batch", "can")}
    return {
        **{name: getattr(state, name)[seen].tolist() for name in COLUMNS},
        **{f"progress {name}": column.tolist() for name, column in progress.items()},
        **{f"{name} of live jobs": column for name, column in programs.items()},
        "waiting": state.waiting.sorted().tolist(),
        "running": state.running.sorted().tolist(),
        "gpus wanted": state.waiting_gpus,
        "grants": sorted(map(repr, state.grants.values())),
        "held": sorted(state.held.items()),
        "reservations": state.reservations,
        "special": state.special,
        "closed": sorted(state.occupancy.down),
        "closed nodes": sorted(state.occupancy.down_nodes),
        "claimed": [round(float(claim), 9) for claim in state.occupancy.claimed],
        "spare": sorted(state.occupancy.spare.items()),
    }


def jobs_of(world: LiveWorld) -> dict[int, Any]:
    """All that is known of live jobs; what is derived when a world begins left aside."""
    found = {}
    for row, job in sorted(world.live.items()):
        attempts = []
        for attempt in job.attempts:
            plain = {name: getattr(attempt, name) for name in attempt.__slots__}
            attempts.append({k: _repr(v) for k, v in plain.items() if k != "is_ordered"})
        plain = {name: getattr(job, name) for name in job.__slots__ if name != "attempts"}
        found[row] = {k: _repr(v) for k, v in plain.items()}, attempts
    return found


def _repr(value: Any) -> str:
    return repr(value.value if isinstance(value, StrEnum) else value)


def check(site: Site) -> None:
    """What the scheduler has in mind is what it would have after a crash."""
    loop, world = site.scheduler.loop, site.scheduler.world
    assert loop is not None
    assert world is not None
    built = rebuild(site.store.load(), Tenants.none(), AllMayRun(), loop.state.now)
    old, new = said(loop.state), said(built.state)
    for name, value in old.items():
        np.testing.assert_equal(new[name], value, err_msg=name)
    assert built.unseen.jobs == []
    assert built.state.trace == [], "a replica begins with the whole"
    again = LiveWorld(
        built.table, built.cluster, built.nodes, built.jobs,
        inbox=world.inbox, directives=world.live.directives, clock=world.clock,
        epoch_unix_s=world.live.epoch_unix_s, heard=world.heard,
    )  # fmt: skip
    assert dumps(jobs_of(again), indent=1) == dumps(jobs_of(world), indent=1)
    nodes = [(n.position, n.state, n.reason, n.drained_by, n.sick) for n in world.live.machines.nodes]
    assert [(n.position, n.state, n.reason, n.drained_by, n.sick) for n in built.nodes] == nodes
    assert plain_wake(built.wake) == plain_wake(loop.wake)


def settle(site: Site, turns: int = 3) -> None:
    for _ in range(turns):
        site.turn()
    while site.inbox._events:
        site.turn()
    if site.scheduler.loop is None:
        site.turn()


spec = st.fixed_dictionaries(
    {"gpus": st.sampled_from([1, 1, 2, 3, 9]), "work_s": st.integers(1, 30).map(float)},
    optional={
        "ends": st.sampled_from(["ok", "fail"]),
        "saves": st.booleans(),
        "hold": st.booleans(),
        "user_retries": st.integers(0, 2),
        "time_s": st.integers(5, 20).map(float),
        "priority": st.integers(-2, 2),
        "gpu_types": st.sampled_from([["cpu"], ["H100"]]),
        "trial": st.booleans(),
        "memory_gib": st.sampled_from([0.1, 0.7]),
    },
)
deed = st.one_of(
    st.tuples(st.just("submit"), spec),
    st.tuples(
        st.sampled_from(["cancel", "hold", "release", "suspend", "resume", "requeue"]), st.integers(0, 5)
    ),
    st.tuples(st.sampled_from(["drain", "undrain"]), st.sampled_from(["n0", "n1"])),
    st.tuples(st.just("sick"), st.tuples(st.sampled_from(["n0", "n1"]), st.booleans())),
    st.tuples(st.just("run"), st.integers(1, 8)),
    st.tuples(st.just("kill"), st.just(0)),
    st.tuples(st.just("share"), st.sampled_from([0.3, 0.7])),
)


def do(site: Site, kind: str, what: Any) -> None:
    if kind == "submit":
        site.submit(**what)
    elif kind == "share":
        site.submit(5.0, gpus=1, gpu_share=what)
    elif kind in ("drain", "undrain"):
        site.command(kind, node=what)
    elif kind == "sick":
        name, healthy = what
        device = DeviceInfo(index=0, type="cpu", healthy=healthy, why="" if healthy else "hot")
        request = SyncRequest(incarnation=name, seen=0, controller="", devices=[device])
        site.inbox.put(ReportTold(name, request))
    elif kind == "run":
        settle(site, what)
    elif kind == "kill":
        site.kill_controller()
    elif site.programs:
        site.command(kind, row=what % len(site.programs))


@pytest.mark.soak
@examples(30)
@given(
    policy=st.sampled_from(["fifo:skip=yes", "las:quantum=3", "tiresias:limits=10"]),
    deeds=st.lists(deed, min_size=3, max_size=14),
)
def test_the_same_table_to_the_bit(policy: str, deeds: list[tuple[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        site = Site(Path(folder), {"n0": 2, "n1": 1}, policy)
        try:
            for kind, what in deeds:
                do(site, kind, what)
                settle(site)
                check(site)
        finally:
            site.store.close()


# -- what nobody had seen yet ----------------------------------------------------------------------


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path, {"n0": 2})
    settle(site)
    yield site
    site.store.close()


@pytest.mark.parametrize(
    ("extra", "kind"),
    [
        ({"hold": True}, "user"),
        ({"after": [{"job": "1"}]}, "dependency"),
        ({"begin_s": 1_900_000_000.0}, "begin"),
        ({"gpus": 7}, "infeasible"),
        ({"memory_gib": 999.0}, "infeasible"),
    ],
)
def test_jobs_submitted_just_before_a_crash_are_held_as_they_ask(
    site: Site, extra: dict[str, Any], kind: str
) -> None:
    first = site.submit(1e9)
    settle(site)
    row = site.submit(1.0, **extra)
    site.kill_controller()
    settle(site, 5)
    job = site.rows()[row]
    assert [hold["kind"] for hold in job.now.hold] == [kind]
    assert Phase(job.now.phase) is Phase.HELD
    assert site.rows()[first].now.state == "RUNNING"


def test_an_array_submitted_just_before_a_crash_keeps_its_limit(site: Site) -> None:
    spec = JobSpec(command=["work"], array="0-4%1")
    rows = site.store.add_jobs("u", "t", [NewJob(spec, index) for index in range(5)], 0.0)
    for row in rows:
        site.programs[row.row] = Program(1e9)
    site.kill_controller()
    settle(site, 5)
    running = [row.id for row in site.rows() if not row.now.hold]
    assert running == ["1_0"]


def test_a_full_table_is_replaced_and_nothing_agents_said_is_lost(site: Site) -> None:
    """An end and more jobs than the table has room for come at one moment."""
    first = site.submit(5.0)
    settle(site)
    for machine in site.machines.values():
        site.time.now += 10
        machine.happen()
        machine.sync()
    for _ in range(LEAST_CAPACITY):
        site.submit(1.0, hold=True)
    settle(site)
    assert site.rows()[first].now.state == "COMPLETED"
    assert site.rows()[-1].now.phase == Phase.HELD
    assert site.scheduler.world is not None
    assert site.scheduler.world.live.table.capacity > LEAST_CAPACITY


def test_a_resumed_attempt_holds_what_it_holds_and_not_what_the_withdrawn_one_would_have(
    site: Site,
) -> None:
    """The newest attempt was withdrawn before it began; the one that runs has moved since."""
    row = site.submit(1e9)
    settle(site)
    loop, world = site.scheduler.loop, site.scheduler.world
    assert loop is not None
    assert world is not None
    job = world.live[row]
    lifecycle.begin(world.live, job, job.attempts[0].grant._replace(devices=(1,)))
    lifecycle.withdraw(world.live, job.attempts[1])
    settle(site)
    check(site)


def test_the_last_word_about_a_job_outlives_the_controller(site: Site) -> None:
    """It was cancelled; a controller that came later sees its processes go."""
    row = site.submit(1e9)
    site.programs[row].leave_s = 60.0
    settle(site)
    site.command("cancel", row=row)
    settle(site, 1)
    assert site.rows()[row].now.state == "COMPLETING"
    site.kill_controller()
    settle(site, 30)
    assert site.rows()[row].now.state == "CANCELLED"


def test_a_job_that_its_group_needs_no_more_is_cancelled_by_the_next_controller(site: Site) -> None:
    """It failed in the moment in which another one completed, and was to be cancelled in the next one."""
    group = {"group": "g", "group_rule": "first"}
    failed = site.submit(1e4, ends="fail", user_retries=3, **group)
    first = site.submit(1e4, **group)
    settle(site)
    site.time.now += 2e4
    site.happen()
    site.turn()
    assert [site.rows()[row].now.state for row in (first, failed)] == ["COMPLETED", "PENDING"]
    site.kill_controller()
    settle(site, 5)
    assert site.rows()[failed].now.state == "CANCELLED"


def test_a_command_is_carried_out_once_however_often_it_is_read(site: Site) -> None:
    """A policy command has everything built anew while others are in the inbox and on record."""
    row = site.submit(1e9)
    settle(site)
    site.command("hold", row=99)
    site.command("requeue", row=row)
    site.command("requeue", row=row)
    site.inbox.put_back([event for event in site.inbox.take(0.0) for _ in range(2)])
    site.scheduler._forget()
    settle(site, 6)
    kinds = [event.kind for event in site.store.events(job=str(row + 1))]
    assert kinds.count("requeue") <= 2


@pytest.mark.parametrize("begin_s", [None, 1_900_000_000.0, 1_000.0])
@pytest.mark.parametrize("before", [None, 1_900_000_500.0])
def test_an_update_of_the_beginning_holds(site: Site, before: float | None, begin_s: float | None) -> None:
    busy = site.submit(1e9, gpus=2)
    row = site.submit(1.0, begin_s=before)
    settle(site)
    site.command("update", row=row, begin_s=begin_s)
    wanted = (["begin"], "BeginTime") if begin_s == 1_900_000_000.0 else ([], "")
    for turns in (1, 5):  # as soon as whoever asked for it looks, and later
        settle(site, turns)
        now = site.rows()[row].now
        assert ([hold["kind"] for hold in now.hold], now.reason) == wanted
    assert site.rows()[busy].now.state == "RUNNING"


def test_without_nodes_there_is_a_cluster_all_the_same(tmp_path: Path) -> None:
    site = Site(tmp_path, {})
    row = site.submit(1.0)
    settle(site)
    assert [hold["kind"] for hold in site.rows()[row].now.hold] == ["infeasible"]
    site.store.close()


def test_a_policy_that_never_said_is_woken_by_everything() -> None:
    assert plain_wake(wake_of(None)) == [None, int(Event.ANY), False]
    assert plain_wake(wake_of([5.0, 3, True])) == [5.0, 3, True]
