"""A job that has run is never rejected: it has failed if its last attempt did, else it is cancelled."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from play import play, trace_of
from rota.model.grants import Grant
from rota.model.jobs import Truth
from rota.model.promises import Offer
from rota.reports.summary import summarise
from rota.scheduler.decision import Wake
from rota.scheduler.snapshot import Snapshot
from rota.worlds.simulated.faults import Fault
from rota.worlds.simulated.retries import parse_retries
from rota.worlds.simulated.run import Setting
from scripted import Scripted

START: dict[str, Any] = {"grants": [Grant(0, (0,))]}
REFUSE: dict[str, Any] = {"reject": {0: "too late now"}}
PREEMPT: dict[str, Any] = {"preempt": [0], "wake": Wake(9.0)}
NOTHING: dict[str, Any] = {"wake": Wake(5.0)}
FAILS = (5.0,)

ENDS = [
    # turns                            fails  faults             state       finish  intervals        why
    ([REFUSE], (), (), "REJECTED", 0.0, [], "it never ran"),
    ([START, REFUSE], FAILS, (), "FAILED", 5.0, ["failed"], "nobody tries again what failed"),
    ([START, REFUSE], (), [Fault(0, 3.0, 4.0)], "CANCELLED", 3.0, ["lost"], "it has not failed"),
    (
        [START, START | NOTHING, PREEMPT, REFUSE],
        (2.0,),
        (),
        "CANCELLED",
        9.0,
        ["failed", "preempted"],
        "its last attempt has not failed",
    ),
]


@pytest.mark.parametrize(
    ("turns", "fails", "faults", "state", "finish_s", "ends", "why"), ENDS, ids=[row[-1] for row in ENDS]
)
def test_what_a_refused_job_is_called(turns, fails, faults, state, finish_s, ends, why) -> None:
    trace = trace_of("A 1x30")
    trace = replace(trace, truth=Truth.build([30.0], failures={0: fails} if fails else {}))
    record = play(Scripted(*turns), trace, "1x1", Setting(faults=faults))
    row = record.jobs.row(0, named=True)
    assert (row["state"], row["finish_s"], row["why"]) == (state, finish_s, "too late now"), why
    assert record.intervals["end"].to_list() == ends
    numbers = summarise(record)
    counted = {name: numbers[name] for name in ("finished", "failed", "cancelled", "rejected")}
    word = {"REJECTED": "rejected", "FAILED": "failed", "CANCELLED": "cancelled"}[state]
    assert counted == {"finished": int(bool(ends)), "failed": 0, "cancelled": 0, "rejected": 0} | {word: 1}


def offer_later(snapshot: Snapshot) -> dict[str, Any]:
    return {"offers": {0: Offer(500.0, snapshot.now + 10.0, "too late")}}


@pytest.mark.parametrize(
    ("turns", "state", "finish_s"),
    [([offer_later], "REJECTED", 0.0), ([START, offer_later], "FAILED", 5.0)],
    ids=["as it comes", "after it failed"],
)
def test_a_declined_offer(turns: list[Callable[..., Any]], state: str, finish_s: float) -> None:
    """Nobody takes one here: whoever has run before has failed."""
    trace = trace_of("A 1x30", deadline_s=[40.0])
    trace = replace(trace, truth=Truth.build([30.0], failures={0: FAILS}))
    record = play(Scripted(*turns), trace, "1x1", Setting(retries=parse_retries("1")))
    assert record.jobs.select("state", "finish_s").rows() == [(state, finish_s)]
    assert record.jobs["promised_s"].to_list() == [None]
    assert math.isclose(record.jobs["offered_s"].item(), 500.0)
