"""What the process that looks ahead is sent: costs, waits, work left; and what becomes of it when it dies."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
from serving_toys import eventually

from rota.errors import InputError
from rota.model.grants import Grant
from rota.server.answers.estimator import Estimator
from rota.server.answers.present_moment import costs_of, left_s, waits_of
from rota.server.answers.questions import AskStart, Looking, PresentMoment
from rota.server.store.rows import CostRow
from rota.wire.job import After, JobSpec
from rota.wire.sync import ProgressReport, Wanted
from rota.worlds.live.attempts import Attempt, LiveJob
from rota.worlds.live.holds import ARRAY, BACK_OFF, BEGIN, DEPENDENCY, INFEASIBLE, USER, Hold
from rota.worlds.live.jobs import Names


def cost(kind: str, seconds: float, workload: str = "w") -> CostRow:
    return CostRow(workload, "t", kind, seconds, 0.0, 0.0)


def test_costs_are_those_of_a_measured_simulation() -> None:
    measured = [cost("ready", seconds) for seconds in (2.0, 4.0, 9.0)]
    costs = costs_of([*measured, cost("start", 1.0), cost("step", 0.5), cost("leave", 0.25)])
    assert costs.start.of("w", 1) == 1.0 + 4.0 - 0.5
    assert costs.checkpoint.of("w", 8) == 0.25
    assert costs.restore.of("w", 1) == costs.start.of("w", 1)
    assert costs_of([]).free


def job(row: int, *holds: Hold, **spec: Any) -> LiveJob:
    made = LiveJob(row, str(row + 1), "u", JobSpec(command=["x"], **spec))
    made.holds = {hold.kind: hold for hold in holds}
    return made


def test_waits_say_what_has_to_happen() -> None:
    array = [job(5), job(6, Hold(ARRAY, provided=1))]
    for one in array:
        one.array_first, one.array_most = 5, 1
    jobs = [
        job(0),
        job(1, Hold(USER, "ann")),
        job(2, Hold(DEPENDENCY, "1"), after=[After(job="1"), After(job="99")]),
        job(3, Hold(BEGIN, "noon", 50.0), Hold(BACK_OFF, "it failed", 70.0)),
        job(4, Hold(INFEASIBLE, requested=9, provided=2)),
        *array,
    ]
    waits = waits_of(jobs, Names(["1"]))
    assert set(waits) == {1, 2, 3, 4, 6}
    assert (waits[1].is_held, waits[1].why) == (True, "is held by ann")
    assert waits[2].after == (0,)
    assert waits[3].until_s == 70.0
    assert waits[4].is_infeasible
    assert (waits[6].beside, waits[6].most) == ((5, 6), 1)


def test_work_left_is_counted_at_the_requested_allocation() -> None:
    """30 steps of 2 s on one device of the two it asked for are 30 s on both."""
    one = job(0, gpus=2, gpus_min=1)
    assert left_s(one) is None
    attempt = Attempt(0, 1, Grant(0, (0,)), [], Wanted.RUN, 0.0)
    one.attempts = [attempt]
    assert left_s(one) is None, "it tells nothing"
    attempt.progress = ProgressReport(steps=70, total_steps=100, step_s=2.0)
    assert left_s(one) == 30.0
    attempt.progress = ProgressReport(steps=170, total_steps=100, step_s=2.0)
    assert left_s(one) == 0.0


def test_the_process_is_replaced_when_it_dies_and_says_what_is_wrong() -> None:
    estimator = Estimator()
    try:
        assert estimator.ask("hello", 60.0)["said"] == "hello"
        assert estimator._process is not None
        first = estimator._process.pid
        os.kill(first, signal.SIGKILL)
        estimator._process._process.wait()
        assert estimator.ask("again", 60.0)["said"] == "again"
        assert estimator._process.pid != first
        with pytest.raises(InputError, match="is not a whole snapshot"):
            estimator.ask(AskStart(Looking(PresentMoment(b"no zip")), 0), 60.0)
    finally:
        estimator.close()
    assert estimator._process is None


def test_a_process_that_nobody_asks_is_ended() -> None:
    estimator = Estimator(idle_s=0.05)
    estimator.ask("hello", 60.0)
    eventually(lambda: estimator._process is None)
    assert estimator.ask("again", 60.0)["said"] == "again"
    estimator.close()
