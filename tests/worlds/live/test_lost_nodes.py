"""A lost node is one of a job's `retries`: who has none left is not begun anew elsewhere."""

from __future__ import annotations

import pytest
from live_stage import SETTINGS, Stage

from rota.wire.sync import PartStatus

LOST_S = SETTINGS.lost_after_s + 15.0


def lose(stage: Stage, *names: str) -> None:
    """Agents of these nodes are not heard of for too long; the others are."""
    stage.silent = frozenset(names)
    stage.wait(LOST_S)


def come_back(stage: Stage) -> None:
    """All agents are heard of again."""
    stage.silent = frozenset()
    for name in stage.heard:
        stage.tell(name)


@pytest.mark.parametrize("retries", [0, 1, 2])
def test_as_many_nodes_may_be_lost_as_there_are_retries(retries: int) -> None:
    stage = Stage(n0=1, n1=1)
    row = stage.submit(retries=retries)
    for tried in range(retries):
        stage.start(row, tried % 2)
        lose(stage, f"n{tried % 2}")
        assert stage.state(row) == "PENDING"
        come_back(stage)
    stage.start(row, retries % 2)
    lose(stage, f"n{retries % 2}")
    job = stage.job(row)
    assert (job.is_over, job.state, job.cause) == (True, "NODE_FAIL", f"node n{retries % 2} is not heard of")
    assert [attempt.how for attempt in job.attempts] == ["lost"] * (retries + 1)
    assert stage.free() == [(retries + 1) % 2]
    come_back(stage)
    assert stage.free() == [0, 1]


def test_a_gang_without_retries_frees_its_devices_elsewhere() -> None:
    stage = Stage(n0=1, n1=1)
    row = stage.submit(gpus=2, retries=0)
    stage.start(row, 0, 1)
    other = stage.submit(gpus=1, retries=0)
    lose(stage, "n0")
    assert (stage.job(row).state, stage.free()) == ("NODE_FAIL", [1])
    stage.start(other, 1)
    stage.end(other)
    assert stage.job(other).state == "COMPLETED"


def test_what_never_began_on_a_lost_node_has_not_failed() -> None:
    """Its agent may have been dead when the devices were granted."""
    stage = Stage(n0=1, n1=1)
    row = stage.submit(retries=0)
    stage.grant(row, 0)
    lose(stage, "n0")
    assert (stage.job(row).is_over, stage.state(row)) == (False, "PENDING")
    stage.start(row, 1)
    stage.end(row)
    assert stage.job(row).state == "COMPLETED"


def test_the_late_word_of_a_lost_attempt_changes_nothing() -> None:
    """Its program has run on, and says so when the network is back."""
    stage = Stage(n0=1, n1=1)
    row = stage.submit(retries=0)
    stage.start(row, 0)
    lose(stage, "n0")
    stage.tell("n0", stage.report(row, PartStatus.RUNNING, number=1))
    assert (stage.job(row).state, len(stage.job(row).attempts)) == ("NODE_FAIL", 1)


@pytest.mark.parametrize("by", ["decision", "owner"])
def test_who_was_suspended_on_a_lost_node_has_not_failed(by: str) -> None:
    """It had been told to go, and did nothing there: nobody's retry, however many nodes are lost."""
    stage = Stage(n0=1, n1=1)
    row = stage.submit(retries=0, checkpoint="auto")
    for number, place in ((1, 0), (2, 1)):
        stage.start(row, place)
        if by == "owner":
            stage.ask("suspend", row)
        else:
            stage.decide(preempt=[row])
        stage.tell(f"n{place}", stage.report(row, PartStatus.SUSPENDED, number=number, suspended_gib=0.5))
        assert stage.state(row) == "SUSPENDED"
        lose(stage, f"n{place}")
        if by == "owner":
            stage.ask("resume", row)
        come_back(stage)
        assert (stage.job(row).is_over, stage.job(row).infrastructure_failures) == (False, 0)
        assert stage.job(row).attempts[-1].how == "lost"
    stage.start(row, 0)
    stage.end(row, number=3)
    assert stage.job(row).state == "COMPLETED"
