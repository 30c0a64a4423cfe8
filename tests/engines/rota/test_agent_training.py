"""Programs that import `rota.training`: suspended, resumed and sent away at a step boundary."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
import pytest
from agent_play import agent_at, python

from rota.testing.engine_controller import StandInController, part
from rota.wire.sync import Mechanism, Notice, PartStatus, Wanted

LOOP = """
import time, rota.training as rota
counter = {"n": 0}
job = rota.attach(counter=counter, batch_size=4)
for step in job.steps(100000):
    time.sleep(0.005)
    counter["n"] += 1
    job.step(loss=1.0 / (step + 1), samples=4)
"""
STUCK = LOOP.replace("time.sleep(0.005)", "step == 5 and (print('stuck', flush=True), time.sleep(600))")


@pytest.fixture(autouse=True)
def _attentive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress is news at once: these tests wait for it."""
    monkeypatch.setattr("rota.engines.rota.daemon.LOOK_S", 0.1)
    monkeypatch.setattr("rota.engines.shared.board.LAZY_S", 0.1)


def steps(controller: StandInController, row: int = 0) -> int:
    """Steps last reported."""
    report = controller.reports.get((row, 1))
    return report.progress.steps if report is not None and report.progress is not None else 0


def wait_for_stuck(home: Path, controller: StandInController) -> None:
    """Until the program of `STUCK` sleeps in the middle of a step."""
    log = home / "attempts" / "0" / "1" / "logs" / "rank-0.log"
    controller.until(lambda: log.exists() and "stuck" in log.read_text())
    controller.until(lambda: (r := controller.reports.get((0, 1))) and r.capability and r.capability.training)


def test_progress_capability_suspend_resume_leave(home: Path, controller: StandInController) -> None:
    with agent_at(home, controller):
        controller.order(part(0, run=python(LOOP)))
        controller.until(lambda: steps(controller) > 0)
        report = controller.reports[0, 1]
        assert report.capability is not None
        assert (report.capability.training, report.capability.suspend) == ("1", Mechanism.COOPERATIVE)
        assert report.capability.checkpoint
        assert report.capability.batch_size
        assert report.progress is not None
        assert (report.progress.batch_size, report.progress.total_steps) == (4, 100000)

        controller.change((0, 1), Wanted.RUN, batch_size=8)
        controller.until(lambda: (p := controller.reports[0, 1].progress) and p.batch_size == 8)

        asked_s = time.monotonic()
        controller.change((0, 1), Wanted.SUSPEND, notice=Notice(reason="preempted", text="for job 2"))
        suspended = controller.status((0, 1), PartStatus.SUSPENDED)
        took_s = time.monotonic() - asked_s
        assert psutil.Process(suspended.pids[0]).status() != psutil.STATUS_STOPPED
        assert suspended.suspended_gib > 0
        controller.order(part(1, run=["sleep", "600"]))
        controller.status((1, 1), PartStatus.RUNNING)

        controller.change((0, 1), Wanted.RUN, devices=[1])
        running = controller.status((0, 1), PartStatus.RUNNING)
        assert running.pids == suspended.pids
        controller.until(lambda: "resume" in {cost.kind for cost in controller.reports[0, 1].costs})
        costs = {cost.kind: cost for cost in controller.reports[0, 1].costs}
        assert {"start", "ready", "suspend", "resume"} <= set(costs)
        assert 0 < costs["suspend"].seconds < took_s
        assert report.started_s is not None
        assert 0 < costs["ready"].seconds < report.progress.at_s - report.started_s
        at = steps(controller)
        controller.until(lambda: steps(controller) > at)

        controller.change((0, 1), Wanted.LEAVE, notice=Notice(reason="preempted"))
        report = controller.status((0, 1), PartStatus.ENDED)
        assert report.end is not None
        assert report.end.code == 85
        assert "leave" in {cost.kind for cost in report.costs}
        assert list((home / "checkpoints" / "0" / "1").iterdir())


def test_two_ranks_stop_at_one_step(home: Path, controller: StandInController) -> None:
    loop = LOOP.replace("0.005", "0.002 * (1 + 2 * job.rank)")
    with agent_at(home, controller):
        controller.order(part(0, devices=(0, 1), run=python(loop)))
        for turn in range(2):
            at = steps(controller)
            controller.until(lambda at=at: steps(controller) > at + 3)  # type: ignore[misc]
            controller.change((0, 1), Wanted.SUSPEND)
            controller.status((0, 1), PartStatus.SUSPENDED)
            folder = home / "attempts" / "0" / "1" / "training"
            texts = [(folder / f"rank-{rank}.json").read_text() for rank in (0, 1)]
            stopped = [text.split('"at_step": ')[1].split(",")[0] for text in texts]
            assert stopped[0] == stopped[1], f"turn {turn}: {texts}"
            controller.change((0, 1), Wanted.RUN)
            controller.status((0, 1), PartStatus.RUNNING)


def test_another_agent_finishes_what_was_begun(home: Path, controller: StandInController) -> None:
    slow = LOOP.replace("0.005", "0.3")
    with agent_at(home, controller):
        controller.order(part(0, run=python(slow)))
        controller.until(lambda: steps(controller) > 0)
        controller.change((0, 1), Wanted.SUSPEND)
        directive = home / "attempts" / "0" / "1" / "training" / "directive.json"
        controller.until(directive.exists)
    controller.leave()
    controller.change((0, 1), Wanted.RUN)  # a new controller changed its mind meanwhile
    controller.come_back("two")
    with agent_at(home, controller):
        controller.until(lambda: "resume" in {c.kind for r in controller.reports.values() for c in r.costs})
        at = steps(controller)
        controller.until(lambda: steps(controller) > at)


def test_a_suspended_program_leaves_by_checkpoint(home: Path, controller: StandInController) -> None:
    with agent_at(home, controller):
        controller.order(part(0, run=python(LOOP)))
        controller.until(lambda: steps(controller) > 0)
        controller.change((0, 1), Wanted.SUSPEND)
        controller.status((0, 1), PartStatus.SUSPENDED)
        with controller.changed:
            controller.change((0, 1), Wanted.LEAVE)
            controller.order(part(1, run=["sleep", "600"]))
        report = controller.status((0, 1), PartStatus.ENDED)
        assert report.end is not None
        assert report.end.code == 85
        controller.status((1, 1), PartStatus.RUNNING)


def test_a_program_that_does_not_reach_a_step_is_stopped_by_signal(
    home: Path, controller: StandInController, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.engines.rota.mechanisms.LEAST_PATIENCE_S", 0.3)
    with agent_at(home, controller):
        controller.order(part(0, run=python(STUCK), grace_s=0.3))
        wait_for_stuck(home, controller)
        controller.change((0, 1), Wanted.SUSPEND)
        report = controller.status((0, 1), PartStatus.SUSPENDED)
        controller.until(lambda: psutil.Process(report.pids[0]).status() == psutil.STATUS_STOPPED)
        assert "did not stop at a step within" in report.why
        controller.change((0, 1), Wanted.RUN)
        controller.status((0, 1), PartStatus.RUNNING)


def test_a_program_that_does_not_leave_in_time_gets_the_signals(
    home: Path, controller: StandInController
) -> None:
    with agent_at(home, controller):
        controller.order(part(0, run=python(STUCK), grace_s=3.0))
        wait_for_stuck(home, controller)
        controller.change((0, 1), Wanted.LEAVE)
        report = controller.status((0, 1), PartStatus.ENDED)
        assert report.end is not None
        assert report.end.signal == 15
