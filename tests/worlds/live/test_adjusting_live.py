"""A decision changes the batch size, or the limits, of a job that runs: nothing of it restarts."""

from __future__ import annotations

import math

import pytest
from live_stage import Stage

from rota.model.grants import Grant, Purpose, Role
from rota.wire.sync import Capability

CAN = Capability(training="1", checkpoint=True, batch_size=True)
CANNOT = Capability(training="1", checkpoint=True)


def running(stage: Stage, capability: Capability) -> int:
    row = stage.submit()
    stage.start(row, 0)
    stage.run(row, capability=capability)
    stage.wait(3.0)
    return row


def test_its_agent_is_told_of_another_batch_size_and_it_runs_on() -> None:
    stage = Stage(n0=2)
    row = running(stage, CAN)
    ready_s, since_s = stage.newest(row).ready_s, stage.loop.state.since_s.item(row)
    attempt = stage.grant(row, 0, batch_size=64.0)
    assert (attempt.number, attempt.ready_s, attempt.wanted_s) == (1, ready_s, 0.0)
    assert stage.orders("n0")[row, 1].batch_size == 64.0
    assert stage.loop.state.since_s.item(row) == since_s
    assert [(one.start_s, one.end_s, one.how, one.batch_size) for one in stage.intervals] == [
        (0.0, 3.0, "adjusted", None)
    ]
    stage.wait(2.0)
    stage.end(row)
    last = stage.intervals[-1]
    assert (last.start_s, last.end_s, last.how, last.batch_size) == (3.0, 5.0, "finished", 64.0)


def test_another_claim_cuts_the_record_and_begins_nothing() -> None:
    stage = Stage(n0=2)
    row = running(stage, CAN)
    ready_s = stage.newest(row).ready_s
    attempt = stage.grant(row, 0, share=0.5, role=Role.PACKED)
    assert (attempt.number, attempt.ready_s, stage.orders("n0")[row, 1].share) == (1, ready_s, 0.5)
    assert stage.loop.state.progress.rate.item(row) == 0.5
    assert [(one.start_s, one.end_s, one.how, one.share) for one in stage.intervals] == [
        (0.0, 3.0, "adjusted", 1.0)
    ]


def test_the_end_of_a_measurement_asks_nothing_of_its_agent() -> None:
    stage = Stage(n0=2)
    row = stage.submit()
    stage.start(row, 0, purpose=Purpose.PROFILE)
    stage.run(row, capability=CANNOT)
    stage.grant(row, 0)
    assert not stage.loop.state.refused
    assert stage.loop.state.grants[row].purpose is Purpose.RUN


@pytest.mark.parametrize("capability", [CAN, CANNOT])
def test_cores_and_memory_follow_the_grant(capability: Capability) -> None:
    """Whatever its program says that it can do; nothing begins anew."""
    stage = Stage(n0=2)
    row = running(stage, capability)
    attempt = stage.grant(row, 0, cpus=3.0, memory_gib=8.0)
    assert row not in stage.loop.state.refused
    assert (attempt.number, attempt.is_over) == (1, False)
    order = stage.orders("n0")[row, 1]
    assert (order.own_cpus, order.own_gib) == (3.0, 8.0)
    assert stage.loop.state.grants[row].cpus == 3.0
    stage.grant(row, 0, cpus=1.0, memory_gib=2.0)
    assert stage.orders("n0")[row, 1].own_cpus == 1.0


@pytest.mark.parametrize(
    ("capability", "limits", "says"),
    [
        (CANNOT, {"batch_size": 64.0}, "cannot change it while it runs"),
        (CAN, {"gpu_memory_gib": 2.0}, "its agents cannot change"),
        (CAN, {"power_limit_w": 200.0, "batch_size": 64.0}, "its agents cannot change"),
    ],
)
def test_what_no_agent_can_change_is_refused_and_the_job_runs_on(
    capability: Capability, limits: dict[str, float], says: str
) -> None:
    stage = Stage(n0=2)
    row = running(stage, capability)
    attempt = stage.grant(row, 0, **limits)
    assert says in stage.loop.state.refused[row]
    assert (attempt.number, attempt.is_over) == (1, False)
    assert math.isnan(stage.loop.state.grants[row].batch_size)
    assert stage.orders("n0")[row, 1].batch_size is None
    assert stage.intervals == []


def test_turns_in_device_memory_are_refused() -> None:
    """Nobody here sees to it that only one at a time has all that it needs."""
    stage = Stage(n0=2)
    said = ""
    for persistent, is_refused in ((1.0, True), (0.0, False)):
        row = stage.submit(gpu_memory_gib=4.0, gpu_persistent_gib=persistent)
        stage.decide(grants=[Grant(row, (0,), 0.5, Role.TURNS)])
        said = said or stage.loop.state.refused.get(row, "")
        assert (row in stage.loop.state.refused) == is_refused
        assert (row in stage.loop.state.grants) != is_refused
    assert "would take turns in device memory, which no agent arranges" in said
