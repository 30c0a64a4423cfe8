"""Who is tried, and that everybody else has a reason."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from advice_play import busy

from rota.errors import InputError
from rota.knowledge.needs import Knowledge
from rota.model.cluster import parse_cluster
from rota.model.trace import Trace
from rota.reports.advice.adoption import adoption
from rota.reports.advice.candidates import Situation, candidates
from rota.scheduler.policy import parse_policy, systems
from rota.traces.deadlines import parse_deadlines, with_deadlines

CLUSTER = parse_cluster("2x8")
FIFO = parse_policy("fifo")


def names(trace: Trace, goals: str = "jct", told: frozenset[Knowledge] = frozenset()) -> list[str]:
    found = candidates(Situation(trace, CLUSTER, frozenset(goals.split(",")), told), FIFO)
    return [str(spec) for spec in found.specs]


def test_every_system_is_tried_or_has_a_reason() -> None:
    found = candidates(Situation(busy(), CLUSTER, frozenset({"jct"})), FIFO)
    tried = {spec.name for spec in found.specs}
    reasons = dict(found.left_out)
    assert {name for name in systems() if name not in tried} <= set(reasons)
    assert all(reasons.values())
    assert "fifo" not in [str(spec) for spec in found.specs], "it is there already"


def test_who_is_tried_depends_on_trace_and_goal() -> None:
    due = with_deadlines(busy(), parse_deadlines("1:3"))
    one = replace(busy(), jobs=replace(busy().jobs, tenant=np.zeros(len(busy()), np.int32)))
    assert "edf" in names(due, "deadlines")
    assert "edf" not in names(due)
    assert "edf" not in names(busy(), "jct")
    assert "drf" in names(busy())
    assert "drf" not in names(one)
    assert "themis" in names(busy(), "fairness")
    assert "afs" not in names(busy())
    elastic = replace(busy(), jobs=replace(busy().jobs, gpus_max=busy().jobs.gpus * 2))
    assert "afs" not in names(elastic)
    assert "afs" in names(elastic, told=frozenset({Knowledge.SCALING}))


def test_named_ones() -> None:
    situation = Situation(busy(), CLUSTER, frozenset({"jct"}))
    found = candidates(situation, FIFO, ["tiresias:promote=2,srtf", "fifo"])
    assert [str(spec) for spec in found.specs] == ["tiresias:promote=2", "srtf"]
    for asked, sentence in [(["fifo"], "fifo is what is there"), (["srtf,srtf"], "'srtf' is named twice")]:
        with pytest.raises(InputError, match=sentence):
            candidates(situation, FIFO, asked)


LINES = [
    # policy                    told          lines
    ("las",                     "predicted",  "rota policy set las", ""),
    ("srtf", "predicted", "rota policy set srtf", "rota up --knowledge duration=predicted"),
    ("srtf",                    "user",       "rota policy set srtf", ""),
    ("partition:policy=fifo[skip=yes]", "user", "rota policy set 'partition:policy=fifo[skip=yes]'", ""),
]  # fmt: skip


@pytest.mark.parametrize(("policy", "told", "line", "knowledge"), LINES)
def test_lines_to_adopt_it(policy: str, told: str, line: str, knowledge: str) -> None:
    lines = adoption(parse_policy(policy), {"duration": told})
    assert (lines.set_line, lines.knowledge_line) == (line, knowledge)
