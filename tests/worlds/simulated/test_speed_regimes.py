"""Jobs whose batch size changes: between epochs, or at round ends as in Shockwave's simulator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from play import finishes, play, trace_of
from rota.errors import InputError
from rota.knowledge.needs import Knowledge
from rota.knowledge.regimes import Course, Regime, Regimes
from rota.knowledge.throughput import ThroughputTable
from rota.model.cluster import parse_cluster
from rota.model.jobs import Truth
from rota.scheduler.decision import Decision, Wake
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.semantics import semantics
from rota.worlds.simulated.speed_regimes import RegimeSpeed, StepRegimeSpeed

ONE = parse_cluster("1x1:V100")
TABLE = ThroughputTable.build(
    {("w (batch size 10)", "v100", 1): 1.0, ("w (batch size 20)", "v100", 1): 0.8, ("x", "v100", 1): 1.0}
)
EVEN = ThroughputTable.build({(f"w (batch size {n})", "v100", 1): 1.0 for n in (10, 20)})
GROWS = (Regime(0, 10), Regime(2, 20))


def _trace(text: str, iterations: list[float] | None = None):
    trace = trace_of(text, workload=0, workload_names=("w (batch size 10)",))
    n = len(trace)
    steps = iterations or [40.0] * n
    return replace(trace, truth=Truth.build(np.full(n, np.nan), iterations=np.array(steps)))


class _Watching:
    """First come, first served on one GPU; keeps what it is told of the first job."""

    needs = frozenset({Knowledge.REGIMES, Knowledge.DURATION, Knowledge.THROUGHPUT})

    def __init__(self, every_s: float) -> None:
        self.every_s, self.told = every_s, []

    def decide(self, snapshot, memory):
        from rota.model.grants import Grant

        known = Regimes.of(snapshot.know(Knowledge.REGIMES))
        rows = np.array([0])
        epochs = (snapshot.jobs.work_done(rows) / known.per_epoch[rows]).item()
        of_mode = known.seen[0].tolist()
        self.told.append((snapshot.now, round(epochs, 9), known.mode.item(0), of_mode))
        grants = [Grant(0, (0,))] if 0 in snapshot.waiting else []
        return Decision(memory, grants, wake=Wake(snapshot.now + self.every_s))


# an epoch has 100 samples: 10 s with batch size 10, 6.25 s with 20
def test_batch_size_changes_between_epochs_and_policies_are_told():
    trace = _trace("A 1x1")
    course = Course(100.0, 4.0, GROWS)
    speed = RegimeSpeed(trace, ONE, TABLE, [course])
    policy = _Watching(15.0)
    record = play(policy, trace, ONE, Setting(speed=speed))
    assert finishes(record) == {"A": pytest.approx(32.5)}
    assert policy.told[:3] == [
        (0.0, 0.0, 0, [1.0, 0.0]),
        (15.0, 1.5, 0, [2.0, 0.0]),
        (30.0, 3.6, 1, [2.0, 2.0]),
    ]
    assert speed.facts.alone_s.tolist() == pytest.approx([32.5])
    assert speed.knowledge[Knowledge.DURATION].known().tolist() == pytest.approx([32.5])


def test_every_run_begins_at_the_first_regime():
    trace = _trace("A 1x1")
    setting = Setting(speed=RegimeSpeed(trace, ONE, TABLE, [Course(100.0, 4.0, GROWS)]))
    assert [finishes(play("fifo", trace, ONE, setting))["A"] for _ in range(2)] == [pytest.approx(32.5)] * 2


# Rounds of 120 s, one iteration a second: the program asks at the end of the round in which its 20th epoch
# ends (240 s), and has it at the end of the next (360 s), where 36 of 40 epochs are done: 20 are left.
def test_at_round_ends_epochs_are_kept():
    trace = _trace("A 1x1", [400.0])
    course = Course(100.0, 40.0, (Regime(0, 10), Regime(20, 20)))
    speed = StepRegimeSpeed(trace, ONE, EVEN, [course])
    record = play("fifo", trace, ONE, Setting(speed=speed, semantics=semantics("shockwave")))
    assert finishes(record) == {"A": 380.0}


# 11 iterations an epoch, then 6: at 360 s the 33rd and last epoch has begun, and counts as done.  Four rounds
# fail, and the fifth is the end: all at once where nobody else works, each a round long where somebody does.
@pytest.mark.parametrize(
    ("jobs", "steps", "finish_s", "why"),
    [
        ("A 1x1", [362.0], 360.0, "alone"),
        ("A 1x1 B 1x1", [362.0, 5000.0], 840.0, "beside a job that works"),
    ],
)
def test_who_has_done_more_than_there_is_fails_five_rounds(jobs, steps, finish_s, why):
    trace = _trace(jobs, steps)
    course = Course(110.0, 33.0, (Regime(0, 10), Regime(20, 20)))
    steady = Course(110.0, 500.0, (Regime(0, 10),))
    courses = [course, steady][: len(steps)]
    two = parse_cluster("2x1:V100")
    speed = StepRegimeSpeed(trace, two, EVEN, courses)
    record = play("fifo", trace, two, Setting(speed=speed, semantics=semantics("shockwave")))
    assert finishes(record)["A"] == finish_s, why


class _Turns:
    """Runs the jobs that `order` names, round by round."""

    needs = frozenset()

    def __init__(self, *order: int) -> None:
        self.order = order

    def decide(self, snapshot, memory):
        from rota.model.grants import Grant

        turn = self.order[min(int(memory.get("round", 0)), len(self.order) - 1)]
        grants = [] if turn in snapshot.grants or turn not in snapshot.waiting else [Grant(turn, (0,))]
        leaves = [row for row in snapshot.grants if row != turn]
        round_ = int(memory.get("round", 0)) + 1
        return Decision({"round": round_}, grants, leaves, wake=Wake(snapshot.now + 120.0))


# one iteration a second
@pytest.mark.parametrize(
    ("order", "steps", "finish_s", "why"),
    [
        ((0, 0, 1), [240.0, 110.0], 240.0, "nobody pays in the very first round, nor who goes on"),
        ((0, 1, 0), [230.0, 110.0], 340.0, "the round between ends at 230 s, and 110 are left"),
        ((1, 0, 0), [150.0, 500.0], 290.0, "100 of 120 in the round after, the rest in the next"),
        ((1, 0, 0), [114.0, 500.0], 234.0, "who leaves more than 5 s of the round pays nothing"),
        ((1, 0, 0), [118.0, 500.0], 258.0, "118 become 98, and 20 are left when that round ends at 238 s"),
    ],
)
def test_restarts_scale_a_round(order, steps, finish_s, why):
    trace = _trace("A 1x1 B 1x1", steps)
    steady = Course(100.0, 100.0, (Regime(0, 10),))
    speed = StepRegimeSpeed(trace, ONE, EVEN, [steady, steady])
    record = play(_Turns(*order), trace, ONE, Setting(speed=speed, semantics=semantics("shockwave")))
    assert finishes(record)["A"] == pytest.approx(finish_s), why


def test_a_restart_takes_no_more_than_the_round():
    """Rounds of 15 s: A, which did not run in the first, does nothing in the second, then works."""
    trace = _trace("A 1x1 B 1x1", [30.0, 500.0])
    steady = Course(100.0, 100.0, (Regime(0, 10),))
    speed = StepRegimeSpeed(trace, ONE, EVEN, [steady, steady])
    setting = Setting(speed=speed, semantics=semantics("shockwave:round=15s"))
    assert finishes(play(_Turns(1, 0, 0, 0), trace, ONE, setting))["A"] == 60.0


def test_a_batch_size_that_nobody_measured_is_refused():
    with pytest.raises(
        InputError, match=r"job A comes to use batch size 40, .*'w .batch size 40.' on 1 GPUs"
    ):
        RegimeSpeed(_trace("A 1x1"), ONE, TABLE, [Course(100.0, 4.0, (Regime(0, 10), Regime(1, 40)))])
