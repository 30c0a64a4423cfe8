"""ElasticFlow: a user moves the deadline of a job that was admitted, or gives it its first one.

Admission control decides again.  What was promised to others is never broken for it, and what was promised to
the job itself stands until the new deadline can be promised.
"""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

import pytest
from crowds import crowd

from changed_moments import decided, goes_on, moments_of
from play import trace_of
from rota.model.cluster import parse_cluster
from rota.model.columns import read_only
from rota.scheduler.moments.frozen import Frozen
from rota.scheduler.moments.values import copied
from rota.testing.scenes import Scene
from rota.worlds.simulated.run import Setting
from tiers import each_seed

POLICY = "elasticflow:slot_s=10,margin_slots=0,restart_s=0"
WITH_MARGIN = "elasticflow:slot_s=10,restart_s=0"
"""Who ends inside a slot makes nobody late."""
NEVER = math.inf
NONE = math.nan


def _moved(moment: Frozen, deadlines: dict[int, float]) -> Frozen:
    """The moment at which each of these jobs has another deadline."""
    column = moment.packed["jobs"]["deadline_s"].copy()
    for row, at_s in deadlines.items():
        column[row] = at_s
    jobs = {**moment.packed["jobs"], "deadline_s": read_only(column)}
    return replace(moment, packed={**moment.packed, "jobs": jobs})


def _promised(memory: dict[str, list[float]]) -> dict[int, float]:
    return {int(row): due_s for row, due_s in zip(memory["rows"], memory["due_s"], strict=True)}


def _promised_next(moment: Frozen) -> dict[int, float]:
    """What is promised once the policy has been asked at the moment."""
    memory = copied(moment.memory)
    decided(moment, memory)
    return _promised(memory)


@pytest.mark.parametrize(
    ("was_s", "becomes_s", "promised_s"),
    [
        (NONE, 150.0, NEVER),  # too soon for the job itself
        (NONE, 350.0, NEVER),  # for B, which would end at 500
        (NONE, 600.0, 600.0),
        (1000.0, 350.0, 1000.0),  # for B; what was promised stands
        (1000.0, 600.0, 600.0),
        (600.0, 1000.0, 1000.0),
        (600.0, NONE, NEVER),
    ],
)
def test_admission_decides_again_and_breaks_no_promise(
    was_s: float, becomes_s: float, promised_s: float
) -> None:
    """A needs 200 s of the one GPU, and B 300 s until 400 s; at 20 s the deadline of A is moved."""
    trace = trace_of("A 1x200 B 1x300 C 1x50@20", deadline_s=[was_s, 400.0, NONE])
    scene = Scene(0, trace, parse_cluster("1x1"), Setting())
    (moment,) = [one for one in moments_of(POLICY, scene) if one.packed["state"]["now"] == 20.0]
    after = _moved(moment, {0: becomes_s})
    promised = _promised_next(after)
    assert promised[0] == pytest.approx(promised_s)
    assert promised[1] == pytest.approx(400.0)
    loop, recorder = goes_on(after, scene)
    loop.run()
    assert recorder.ends[1][1] <= 400.0
    assert recorder.ends[0][1] <= promised_s
    assert len(recorder.ends) == 3


def test_a_first_deadline_counts_where_there_is_plenty_as_well() -> None:
    """A has all that it can use when it gets a deadline; what comes later may not break it."""
    trace = trace_of("A 1x200 B 1x10@20 C 1x300@30", deadline_s=[NONE, NONE, 330.0])
    scene = Scene(0, trace, parse_cluster("1x2"), Setting())
    (moment,) = [one for one in moments_of(POLICY, scene) if one.packed["state"]["now"] == 20.0]
    assert all(due_s == NEVER for due_s in moment.memory["due_s"])
    assert _promised_next(_moved(moment, {0: 300.0}))[0] == pytest.approx(300.0)


def _crowd(draw: Random) -> Scene:
    """Most of them with a deadline that may be promised."""
    return Scene(0, crowd(draw, without=0.3, factors=(0.4, 4.0)), parse_cluster("1x4"), Setting())


@each_seed(10, 30, 100, at_once=5)
def test_every_promise_is_kept_whatever_is_moved(seed: int) -> None:
    draw = Random(seed)
    scene = _crowd(draw)
    moments = moments_of(WITH_MARGIN, scene)
    for moment in draw.sample(moments, min(3, len(moments))):
        now = moment.packed["state"]["now"]
        rows = [row for row in moment.memory.get("rows", []) if draw.random() < 0.4]
        moves = {row: draw.choice([NONE, now + draw.randint(1, 600)]) for row in rows}
        after = _moved(moment, moves)
        before, promised = _promised(moment.memory) if moment.memory else {}, _promised_next(after)
        at_risk = moment.memory.get("at_risk", [])
        loop, recorder = goes_on(after, scene)
        loop.run()
        for row, (_, end_s) in recorder.ends.items():
            if row in before and row not in at_risk:
                asked_s = moves.get(row, before[row])
                stood_s = NEVER if math.isnan(asked_s) else max(before[row], asked_s)
                assert end_s <= stood_s + 1e-6, f"{row} at {now:g} s"
                assert end_s <= promised.get(row, NEVER) + 1e-6, f"{row} at {now:g} s, as promised anew"
