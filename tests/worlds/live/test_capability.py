"""What a job's program can do is known from one attempt to the next."""

from __future__ import annotations

from live_stage import Stage

from rota.wire.sync import Capability, Mechanism

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
