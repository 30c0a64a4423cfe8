"""A user gives jobs another number of devices: who leaves for it, who need not, who is refused."""

from __future__ import annotations

from typing import Any

import pytest
from live_stage import SUSPENDS, Stage

from rota.wire.job import JobSpec
from rota.wire.sync import Capability, PartStatus, Wanted
from rota.worlds.live.resize import changed

SAVES = Capability(training="1", checkpoint=True)


def update(stage: Stage, row: int, **args: Any) -> str:
    """Why it is refused; nothing if it is handed on to whoever changes what the job asks for."""
    handed = sum(len(news.asked) for news in stage.news)
    stage.ask("update", row, settle=False, **args)
    stage.settle()
    if sum(len(news.asked) for news in stage.news) > handed:
        return ""
    return str(stage.outcome(stage.seq)["error"])


def running(stage: Stage, capability: Capability | None = SAVES, **spec: Any) -> int:
    row = stage.submit(**spec)
    stage.start(row, 0)
    stage.run(row, capability=capability)
    return row


def test_one_that_saves_leaves_and_is_held_until_it_asks_for_the_new_number() -> None:
    stage = Stage(n0=4)
    row = running(stage)
    assert update(stage, row, gpus=2) == ""
    assert stage.wanted("n0", row, 1) is Wanted.LEAVE
    notice = stage.newest(row).notice
    assert notice is not None
    assert (notice.reason, notice.text) == ("resized", "resized by ann from 1 to 2 devices")
    assert stage.job(row).holds
    assert update(stage, row, gpus=3) == "", "it is on its way out already"


def test_fewer_devices_that_no_node_can_feed_are_refused() -> None:
    """Memory follows the devices: what two nodes have together, none has alone."""
    stage = Stage(n0=2, n1=2, memory_gib=64.0)
    row = stage.submit(gpus=4, memory_gib=100.0)
    assert update(stage, row, gpus=2) == ""
    assert (
        update(stage, row, gpus=1) == "it needs 100 GiB of host memory on one node; the largest node has 64"
    )


@pytest.mark.parametrize(
    ("spec", "args"),
    [
        ({}, {"gpus": 2, "gpus_min": 1, "gpus_max": 4}),
        ({"gpus_min": 1, "gpus_max": 4}, {"gpus_min": 1, "gpus_max": 2}),
        ({}, {"gpus": -1}),
        ({}, {"priority": 3}),
    ],
    ids=["in the new range", "a narrower range", "wrong", "something else"],
)
def test_who_may_keep_its_devices_does(spec: dict[str, Any], args: dict[str, Any]) -> None:
    stage = Stage(n0=4)
    row = running(stage, None, **spec)
    assert update(stage, row, **args) == ""
    assert stage.wanted("n0", row, 1) is Wanted.RUN


def test_who_saves_nothing_is_refused_while_it_runs_and_while_it_is_suspended() -> None:
    stage = Stage(n0=4)
    row = running(stage, SUSPENDS)
    sentence = (
        "it is on 1 device and its program saves nothing, so it would begin anew; if that is meant, "
        f"`rota requeue {row + 1}` and change it while it waits"
    )
    assert update(stage, row, gpus=2) == sentence
    stage.decide(preempt=[row])
    stage.tell("n0", stage.report(row, PartStatus.SUSPENDED))
    assert update(stage, row, gpus=2) == sentence


def test_no_more_than_there_is() -> None:
    stage = Stage(n0=2)
    row = stage.submit()
    assert update(stage, row, gpus=3) == "it needs 3 devices at once; the cluster has 2 it could use"
    assert update(stage, row, gpus=2) == ""


def test_a_range_without_a_number_keeps_it_or_its_nearest_end() -> None:
    spec = JobSpec(command=["x"], gpus=4)
    assert changed(spec, {"gpus_min": 1, "gpus_max": 2}).gpus == 2
    assert changed(spec, {"gpus_min": 6, "gpus_max": 8}).gpus == 6
    assert changed(spec, {"gpus_min": 1, "gpus_max": 8}).gpus == 4
