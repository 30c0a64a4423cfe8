"""A node on which nothing can begin takes no new jobs, with devices or without; what runs there runs on."""

from __future__ import annotations

import json
from typing import Any

import pytest
from live_stage import EPOCH_S, Stage

from rota.wire.sync import DeviceInfo, ProgressReport

FULL = "no attempt can begin in /var/lib/rota/agent: No space left on device; free some space there"


def says(stage: Stage, trouble: str) -> None:
    """The agent of n0, which has two devices, tells so."""
    devices = [DeviceInfo(index=k, type="cpu", healthy=not trouble, why=trouble) for k in range(2)]
    stage.tell("n0", devices=devices, trouble=trouble)


def closed(stage: Stage) -> list[int]:
    return sorted(stage.loop.state.occupancy.down_nodes)


def drain(stage: Stage, verb: str) -> None:
    stage.ask(verb, node="n0")


def test_it_is_closed_as_long_as_it_says_so() -> None:
    stage = Stage(n0=2, n1=1)
    row = stage.submit(gpus=1)
    stage.start(row, 0)
    says(stage, FULL)
    assert (closed(stage), stage.free()) == ([0], [2])
    assert stage.state(row) == "RUNNING"
    assert stage.events("trouble") == [f"node n0 takes no new jobs: {FULL}"]
    says(stage, FULL)
    assert len(stage.events("trouble")) == 1
    stage.tell("n0")  # of the machine nothing is said
    assert closed(stage) == [0]
    says(stage, "")
    assert (closed(stage), stage.free()) == ([], [1, 2])
    assert stage.events("well") == ["node n0 takes jobs again"]
    stage.end(row)
    assert stage.free() == [0, 1, 2]


def test_neither_an_operator_nor_its_return_opens_it_before() -> None:
    stage = Stage(n0=2, n1=1)
    says(stage, FULL)
    drain(stage, "drain")
    drain(stage, "undrain")
    assert closed(stage) == [0]
    stage.tell("n0", leaving=True)
    stage.tell("n0")
    assert closed(stage) == [0]
    drain(stage, "drain")
    says(stage, "")
    assert closed(stage) == [0], "it is drained"
    drain(stage, "undrain")
    assert (closed(stage), stage.free()) == ([], [0, 1, 2])


def test_a_job_without_devices_goes_elsewhere() -> None:
    limits: dict[str, Any] = {"cpus": 4.0, "memory_gib": 8.0}
    stage = Stage(policy="fifo", limits=limits, n0=0, n1=0)
    stage.tell("n0", devices=[], trouble=FULL)
    row = stage.submit(gpus=0, cpus=1.0)
    assert [place.name for place in stage.newest(row).places] == ["n1"]


TOLD = {"steps": 1, "at_s": EPOCH_S + 99.0}


@pytest.mark.parametrize(
    ("said", "speeds"),
    [
        ({}, [4.0]),
        ({"step_s": 5e-324, "batch_size": 1e12}, []),
        ({"step_s": 1e10, "batch_size": 5e-324}, [1e-10]),
    ],
    ids=["as always", "too short a step", "too small a batch"],
)
def test_what_no_step_can_be_is_not_seen(said: dict[str, float], speeds: list[float]) -> None:
    """Divided by one another these would be infinite, or nothing: neither can be stored, or divided by."""
    stage = Stage(n0=1)
    row = stage.submit()
    stage.start(row, 0)
    stage.now = 100.0
    progress = ProgressReport.model_validate({"step_s": 2.0, "batch_size": 8.0, **TOLD, **said})
    stage.run(row, progress=progress)
    observed = stage.job(row).observed
    assert list(observed.speeds.values()) == speeds
    json.dumps(observed.plain(), allow_nan=False)


def test_what_an_agent_cannot_do_for_a_job_is_an_event_of_that_job() -> None:
    stage = Stage(n0=1)
    row = stage.submit()
    stage.start(row, 0)
    why = "its program spoilt rank-0.json: at_step is -10, expected a whole number from 0 to 2**53"
    for _ in range(3):
        stage.run(row, why=why)
    assert stage.events("trouble") == [f"attempt 1 on n0: {why}"]
    assert stage.newest(row).places[0].why == why
    stage.run(row)
    assert stage.newest(row).places[0].why == "", "it does again"
