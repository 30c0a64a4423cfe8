"""ElasticFlow: who stays without a promise, being refused by nobody, breaks nobody else's."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

import pytest
from crowds import crowd

from play import finishes, play, trace_of
from rota.model.job_columns import Deadline
from rota.model.jobs import Truth
from rota.model.record import Record
from rota.worlds.simulated.faults import Fault
from rota.worlds.simulated.retries import parse_retries
from rota.worlds.simulated.run import Setting
from tiers import each_seed

POLICY = "elasticflow:slot_s=10,margin_slots=0,restart_s=0"
NONE = math.nan


def _promised(record: Record) -> dict[str, float | None]:
    return dict(zip(record.jobs["job_id"], record.jobs["promised_s"], strict=True))


@pytest.mark.parametrize("soft", [False, True], ids=["refuse=no", "soft"])
def test_a_newcomer_that_fails_admission_breaks_no_promise(soft: bool) -> None:
    """A needs 100 s of the one GPU until 300 s; B, due before that, would take 250 s of it."""
    trace = trace_of("A 1x100 B 1x250@10", deadline_s=[300.0, 280.0])
    if soft:
        moments = {1: (Deadline(270.0, 5.0), Deadline(280.0, 1.0))}
        trace = replace(trace, jobs=replace(trace.jobs, deadlines=moments))
    record = play(POLICY if soft else f"{POLICY},refuse=no", trace, "1x1")
    assert finishes(record) == {"A": 100.0, "B": 350.0}
    assert _promised(record) == {"A": 300.0, "B": None}


def test_who_failed_admission_is_promised_its_deadline_once_it_can_be() -> None:
    """B fails for A, which ends before it is known to: C, due before B, may then not break B's promise."""
    columns = {"deadline_s": [350.0, 210.0, 200.0], "limit_s": [300.0, 100.0, 100.0]}
    trace = trace_of("A 1x20 B 1x100@10 C 1x100@30", **columns)
    record = play(f"{POLICY},refuse=no", trace, "1x1", Setting(knowledge={"duration": "user"}))
    assert finishes(record) == {"A": 20.0, "B": 120.0, "C": 220.0}
    assert _promised(record) == {"A": 350.0, "B": 210.0, "C": None}


@pytest.mark.parametrize("due_s", [[NONE, NONE], [50.0, 50.0]], ids=["no deadline", "too late"])
def test_without_a_surplus_who_has_no_promise_runs_on_the_least(due_s: list[float]) -> None:
    """They waited for ever beside idle GPUs.  P has no more than its promise needs, and leaves them one."""
    trace = trace_of(
        "A 2x100 P 2x100 B 2x100@1",
        gpus_min=[1, 2, 1],
        gpus_max=[4, 4, 4],
        deadline_s=[due_s[0], 100.0, due_s[1]],
    )
    record = play(f"{POLICY},surplus=no,refuse=no", trace, "1x3")
    assert finishes(record) == {"P": 100.0, "A": 200.0, "B": 299.0 + 1.0}
    assert record.intervals["gpus"].max() == 2


def test_who_comes_back_breaks_no_promise_that_was_made_meanwhile() -> None:
    """A, due first, fails at 60 s and pauses for a minute, in which B is promised 400 s until 480 s."""
    trace = trace_of("A 1x300 B 1x400@70", deadline_s=[470.0, 480.0])
    fails = {"failures": {0: (60.0,)}, "signatures": {0: ("GPU ECC error", "")}}
    trace = replace(trace, truth=Truth.build([300.0, 400.0], **fails))
    record = play(POLICY, trace, "1x1", Setting(retries=parse_retries("adaptive")))
    assert finishes(record)["B"] <= 480.0
    assert finishes(record)["A"] > 480.0
    assert _promised(record) == {"A": 470.0, "B": 480.0}


def test_a_node_that_returns_breaks_no_promise_that_was_made_without_it() -> None:
    """A gang of both nodes loses one, too late for its deadline; B, which is promised the other, keeps it."""
    trace = trace_of("A 2x300 B 1x200@20", deadline_s=[400.0, 230.0])
    record = play(POLICY, trace, "2x1", Setting(faults=[Fault(0, 10.0, 60.0)]))
    assert finishes(record)["B"] <= 230.0


def _crowd(draw: Random) -> Record:
    """Jobs that can use one to four GPUs of four, most with deadlines, not all of which can be kept."""
    trace = crowd(draw, without=0.2, factors=(0.3, 3.0))
    soft = {
        row: (Deadline(due, 5.0), Deadline(due + draw.randint(50, 500), 1.0))
        for row, due in enumerate(trace.jobs.deadline_s.tolist())
        if not math.isnan(due) and draw.random() < 0.5
    }
    trace = replace(trace, jobs=replace(trace.jobs, deadlines=soft))
    return play(f"{POLICY},refuse={draw.choice(['yes', 'no'])}", trace, "1x4")


@each_seed(10, 60, 200)
def test_every_promise_is_kept_whoever_stays_without(seed: int) -> None:
    jobs = _crowd(Random(seed)).jobs
    for name, state, finish_s, promised_s in jobs.select(
        "job_id", "state", "finish_s", "promised_s"
    ).iter_rows():
        assert state in ("COMPLETED", "REJECTED")
        assert promised_s is None or finish_s <= promised_s + 1e-6, f"{name} was promised {promised_s}"
