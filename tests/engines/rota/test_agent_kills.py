"""The agent is killed again and again under load: no attempt runs twice, no slot is shared, no end lost."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from agent_play import OVER, process, served

from rota.testing.engine_controller import StandInController, part
from rota.wire.sync import PartStatus

JOBS, KILLS = 30, 12


@pytest.mark.soak
@pytest.mark.parametrize("seed", [1, 2])
def test_kills(home: Path, tmp_path: Path, controller: StandInController, seed: int) -> None:
    dice = random.Random(seed)
    diary = tmp_path / "diary"
    # Each job holds its slot's lock while it runs: a second one on the same slot is found out.
    script = (
        'flock -n {lock} sh -c \'echo "begin {row}" >> {diary}; sleep {nap}; echo "end {row}" >> {diary}\''
        ' || echo "shared {row}" >> {diary}'
    )
    with served(controller) as url:
        for row in range(JOBS):
            slot = row % 2
            text = script.format(
                lock=tmp_path / f"slot-{slot}", row=row, diary=diary, nap=round(dice.uniform(0.0, 0.4), 3)
            )
            controller.order(part(row, devices=(slot,), run=["sh", "-c", text], restore=[]))
        for _ in range(KILLS):
            heard = len(controller.requests)
            with process(home, url) as agent:
                if dice.random() < 0.8:  # else it dies while it starts
                    controller.until(lambda heard=heard: len(controller.requests) > heard)  # type: ignore[misc]
                time.sleep(dice.uniform(0.0, 0.8))
                agent.kill()
        with process(home, url):
            for row in range(JOBS):
                report = controller.status((row, 1), *OVER, timeout_s=60.0)
                if (
                    report.status is PartStatus.LOST
                ):  # killed in the instant between the shim's log and the shim
                    assert "died before it began" in report.why
                    controller.order(controller.parts[row, 1].model_copy(update={"attempt": 2}))
                    report = controller.status((row, 2), *OVER, timeout_s=60.0)
                assert report.status is PartStatus.ENDED, report.why
                assert report.end is not None
                assert report.end.code == 0
    begun = [report for at, report in controller.history if report.status is PartStatus.RUNNING]
    assert len({report.row for report in begun}) > KILLS / 2, "there was a load"
    lines = diary.read_text().splitlines()
    assert not [line for line in lines if line.startswith("shared")]
    for word in ("begin", "end"):
        assert sorted(line for line in lines if line.startswith(word)) == sorted(
            f"{word} {row}" for row in range(JOBS)
        )
    ends: dict[int, set[float]] = {}
    for _, report in controller.history:
        if report.end is not None and report.status is PartStatus.ENDED:
            ends.setdefault(report.row, set()).add(report.end.ended_s)
    assert {row: len(times) for row, times in ends.items()} == dict.fromkeys(range(JOBS), 1)
