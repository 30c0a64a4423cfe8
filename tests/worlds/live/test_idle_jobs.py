"""Jobs that hold devices and do nothing: told once, suspended if that is set, left alone if they say so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from live_stage import EPOCH_S, SETTINGS, SUSPENDS, Stage

from rota.wire.sync import Capability, Mechanism, PartStatus, Usage, Wanted

TELLS = replace(SETTINGS, idle_after_s=60.0)
TAKES = replace(TELLS, suspend_idle=True)
RESTARTS = Capability(suspend=Mechanism.RESTART)


def looks(stage: Stage, row: int, node: str, idle_s: float | None) -> None:
    """The agent of `node` has just looked."""
    usage = Usage(at_s=EPOCH_S + stage.now, idle_s=idle_s)
    stage.tell(node, stage.report(row, PartStatus.RUNNING, usage=usage))
    stage.wait(1.0)


def begun(settings: Any = TELLS, can: Capability = SUSPENDS, **spec: Any) -> tuple[Stage, int]:
    """A job that has run for 200 s on one slot, and does nothing."""
    stage = Stage(settings=settings, n1=2)
    row = stage.submit(**spec)
    stage.start(row, 0)
    stage.run(row, capability=can)
    stage.wait(200.0)
    return stage, row


def notices(stage: Stage) -> list[str]:
    return [text for news in stage.news for _, text in news.idle]


def test_it_is_told_once_until_it_works_again() -> None:
    stage, row = begun()
    looks(stage, row, "n1", 59.0)
    assert stage.job(row).idle_since_s is None
    looks(stage, row, "n1", 61.0)
    said = "it holds 1 device and has done nothing for 1m 1s"
    assert (stage.events("idle"), notices(stage)) == ([said], [said])
    assert stage.job(row).idle_since_s == pytest.approx(stage.now - 62.0)
    looks(stage, row, "n1", 500.0)
    assert notices(stage) == [said]
    looks(stage, row, "n1", 0.0)
    assert (stage.job(row).idle_since_s, stage.events("idle")) == (None, [said, "it works again"])
    looks(stage, row, "n1", 60.0)
    assert len(notices(stage)) == 2
    assert stage.state(row) == "RUNNING"


def test_its_devices_are_taken_after_as_long_again() -> None:
    stage, row = begun(TAKES)
    looks(stage, row, "n1", 60.0)
    assert notices(stage) == ["it holds 1 device and has done nothing for 1m; at 2m it is suspended"]
    looks(stage, row, "n1", 119.0)
    assert stage.state(row) == "RUNNING"
    looks(stage, row, "n1", 120.0)
    assert stage.wanted("n1", row, 1) is Wanted.SUSPEND
    assert stage.holds(row) == ["suspended"]
    assert stage.free() == [0, 1]
    assert stage.job(row).idle_since_s is None
    assert notices(stage)[1:] == [
        f"suspended, since it did nothing for 2m; `rota resume {row + 1}` lets it run again"
    ]
    assert stage.ask("resume", row) == {}


def test_what_it_did_before_it_was_suspended_counts_no_more() -> None:
    stage, row = begun(TAKES)
    looks(stage, row, "n1", 120.0)
    stage.tell("n1", stage.report(row, PartStatus.SUSPENDED))
    stage.ask("resume", row)
    stage.start(row, 0)
    assert stage.newest(row).number == 1
    looks(stage, row, "n1", None)
    stage.wait(300.0)
    assert stage.state(row) == "RUNNING"


@pytest.mark.parametrize(
    ("settings", "can", "spec", "told", "taken"),
    [
        (TELLS, SUSPENDS, {}, True, False),
        (TAKES, SUSPENDS, {}, True, True),
        (SETTINGS, SUSPENDS, {}, False, False),
        (TAKES, SUSPENDS, {"idle_after_s": 0.0}, False, False),
        (TAKES, SUSPENDS, {"idle_after_s": 1000.0}, False, False),
        (SETTINGS, SUSPENDS, {"idle_after_s": 60.0}, True, False),
        (TAKES, SUSPENDS, {"preemptible": False}, True, False),
        (TAKES, RESTARTS, {}, True, False),
        (TAKES, RESTARTS, {"checkpoint": "own"}, True, True),
        (TAKES, RESTARTS.model_copy(update={"checkpoint": True}), {}, True, True),
        (TAKES, Capability(), {}, True, False),
    ],
    ids=[
        "told",
        "taken",
        "nobody asks",
        "never",
        "own limit",
        "only its own limit",
        "may not be stopped",
        "would lose its work",
        "saves itself",
        "has a checkpoint",
        "nothing is known of it",
    ],
)
def test_who_is_told_and_who_is_suspended(
    settings: Any, can: Capability, spec: dict[str, Any], told: bool, taken: bool
) -> None:
    stage, row = begun(settings, can, **spec)
    looks(stage, row, "n1", 130.0)
    assert (bool(stage.events("idle")), bool(stage.events("suspend"))) == (told, taken)


@pytest.mark.parametrize(
    ("first", "second", "is_idle"),
    [(100.0, 100.0, True), (100.0, 3.0, False), (100.0, None, True), (None, None, False)],
)
def test_a_gang_is_idle_if_all_of_it_is(first: float | None, second: float | None, is_idle: bool) -> None:
    """As far as it can be measured."""
    stage = Stage(settings=TELLS, n1=1, n2=1)
    row = stage.submit(gpus=2)
    stage.start(row, 0, 1)
    stage.wait(200.0)
    looks(stage, row, "n2", second)
    looks(stage, row, "n1", first)
    assert bool(stage.events("idle")) is is_idle


def test_a_job_without_devices_holds_none() -> None:
    stage = Stage(settings=TELLS, n1=1)
    row = stage.submit(gpus=0)
    stage.decide(grants=[])
    assert stage.events("idle") == []
    assert stage.job(row).idle_since_s is None
