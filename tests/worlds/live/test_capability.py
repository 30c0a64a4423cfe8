"""What a job's program can do is known from one attempt to the next."""

from __future__ import annotations

import math
from typing import Any

import pytest
from live_stage import Stage

from rota.model.grants import Can
from rota.scheduler.decision import Event, Wake
from rota.wire.sync import Capability, Mechanism, ProgressReport

SPEAKS = Capability(training="1", suspend=Mechanism.COOPERATIVE, checkpoint=True, resize=True)
SILENT = Capability(suspend=Mechanism.SIGNAL)
"""As an agent sees a program that still imports its libraries, or will never speak."""


def test_a_new_attempt_that_has_not_spoken_yet_can_what_the_one_before_could() -> None:
    stage = Stage(n0=1)
    row = stage.submit()
    stage.start(row, 0)
    stage.run(row, capability=SPEAKS)
    stage.end(row, 85)
    stage.start(row, 0)
    stage.run(row, capability=SILENT)
    kept = SPEAKS.model_copy(update={"suspend": Mechanism.SIGNAL, "attempt": 1})
    assert stage.job(row).capability == kept, "now it would be suspended by signal"
    stage.run(row, capability=SPEAKS)
    assert stage.job(row).capability == SPEAKS.model_copy(update={"attempt": 2})


def test_what_an_attempt_said_last_counts() -> None:
    """With another program under the same name, as after an update of its files."""
    stage = Stage(n0=1)
    row = stage.submit()
    stage.start(row, 0)
    stage.run(row, capability=SPEAKS)
    less = Capability(training="1", suspend=Mechanism.COOPERATIVE)
    stage.run(row, capability=less)
    assert stage.job(row).capability == less.model_copy(update={"attempt": 1})


def test_a_program_that_never_spoke_cannot_do_anything() -> None:
    stage = Stage(n0=1)
    row = stage.submit()
    stage.start(row, 0)
    stage.run(row, capability=SILENT)
    assert stage.job(row).capability == SILENT


BEARS = [
    # spec                       said    can                                   why
    ({}, None, Can.NOTHING, "nothing is known yet"),
    ({}, SILENT, Can.SUSPEND, "any program can be stopped by signal"),
    ({}, SPEAKS, Can.SUSPEND | Can.CHECKPOINT | Can.RESIZE, "it says so"),
    ({"checkpoint": "own"}, None, Can.CHECKPOINT | Can.RESIZE, "its user says that it saves by itself"),
    ({"checkpoint": "none"}, SILENT, Can.NOTHING, "nor is it suspended"),
    ({"preemptible": False}, SPEAKS, Can.NOTHING, "its user forbids all stops"),
    ({"preemptible": False}, Capability(training="1", batch_size=True), Can.BATCH, "a batch is none"),
]


@pytest.mark.parametrize(("spec", "said", "can", "why"), BEARS, ids=[row[-1] for row in BEARS])
def test_policies_see_what_a_job_bears(
    spec: dict[str, Any], said: Capability | None, can: Can, why: str
) -> None:
    stage = Stage(n0=1)
    row = stage.submit(**spec)
    stage.grant(row, 0)
    if said is not None:
        stage.run(row, capability=said)
    assert stage.loop.snapshot().jobs.can(row) == can, why


def test_a_policy_is_woken_when_a_program_has_said_what_it_bears() -> None:
    """Otherwise one that wanted to resize it would wait for somebody else to come or go."""
    stage = Stage(n0=1)
    row = stage.submit()
    stage.grant(row, 0)
    stage.plan({"wake": Wake(on=Event.SAID)})
    stage.run(row, capability=SILENT)
    assert not stage.causes() & Event.SAID, "it has not spoken"
    stage.run(row, capability=SPEAKS)
    assert stage.causes() & Event.SAID
    asked = len(stage.policy.seen)
    stage.run(row, capability=SPEAKS)
    assert not any(seen.cause & Event.SAID for seen in stage.policy.seen[asked:]), "nothing new"


def test_policies_see_when_a_job_works_and_with_which_batch() -> None:
    """Nobody knows when it will be ready, until it is; it says its batch; what it said is void elsewhere."""
    stage = Stage(n0=1, n1=1)
    row = stage.submit()
    stage.grant(row, 0, batch_size=32.0)
    jobs = stage.loop.snapshot().jobs
    assert (jobs.ready_s(row), jobs.batch_now(row)) == (math.inf, 32.0)
    stage.now += 7.0
    stage.run(row, progress=ProgressReport(steps=1, batch_size=64.0, at_s=stage.now))
    assert (jobs.ready_s(row), jobs.batch_now(row)) == (stage.now, 64.0)
    stage.grant(row, 1)
    assert math.isinf(jobs.ready_s(row))
    assert math.isnan(jobs.batch_now(row))
