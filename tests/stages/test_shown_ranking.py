"""What inner rankings can answer, their wrappers answer; and no protocol of rankings is forgotten."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rota
from hearing import heard
from rota.model.cluster import parse_cluster
from rota.model.reasons import Code, Constraint
from rota.scheduler.policy import parse_policy
from rota.scheduler.reasons.order import KnowsOrder
from rota.scheduler.reasons.waiting import explain
from rota.scheduler.snapshot import Snapshot
from rota.stages.shown_ranking import ANSWERS, Shown, shown_ranking

SAID = Constraint(Code.TURN, detail="said")
ANSWER: dict[str, Any] = {"share": ("a", 2.0, 1.0), "turn": SAID, "size": SAID, "equal": True, "in_turn": [1]}


class Silent:
    """A ranking that answers no more than it must."""

    spreads = True

    def ahead(self, snapshot: Snapshot, row: int) -> list[int]:
        return []

    def fits(self, snapshot: Snapshot, scratch: Any, row: int) -> bool:
        return True


def answering(protocol: type) -> Silent:
    """A ranking that keeps this protocol and no other."""
    name = method_of(protocol)
    return type("Answering", (Silent,), {name: lambda self, snapshot, *rows: ANSWER[name]})()


def method_of(protocol: type) -> str:
    (name,) = {name for name in vars(protocol) if not name.startswith("_")}
    return name


@pytest.fixture(scope="module")
def moment() -> Snapshot:
    """A moment at which B waits for A."""
    return heard(parse_policy("fifo").make(), "A 1x100 B 1x100", parse_cluster("1x1"))[0]


@pytest.mark.parametrize("protocol", ANSWERS, ids=lambda protocol: protocol.__name__)
def test_what_a_part_answers_the_whole_answers(protocol: type, moment: Snapshot) -> None:
    name = method_of(protocol)
    own = Shown(answering(protocol), lambda moment: moment, lambda row: row < 2)
    silent = Shown(Silent(), lambda moment: moment, lambda row: row == 2)
    one, both, none = shown_ranking([own]), shown_ranking([silent, own]), shown_ranking([silent])
    assert [knows for knows in ANSWERS if isinstance(one, knows)] == [protocol]
    assert isinstance(both, protocol) == (protocol is not KnowsOrder)  # an order is of all or of nobody
    assert not any(isinstance(none, knows) for knows in ANSWERS)
    rows = {"in_turn": (), "equal": (0, 1)}.get(name, (1,))
    asked = one if protocol is KnowsOrder else both
    assert getattr(asked, name)(moment, *rows) == ANSWER[name]
    if rows:
        assert not getattr(both, name)(moment, 2, *rows[1:])  # nobody there knows


def test_no_protocol_of_rankings_is_forgotten() -> None:
    """Whatever somebody may ask a ranking by `isinstance`: a runtime protocol about rows of a snapshot."""
    asked: set[str] = set()
    for file in Path(rota.__file__).parent.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        if "@runtime_checkable" in text:
            classes = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
            asked |= {one.name for one in classes if _is_asked_of_moments(one)}
    assert asked == {protocol.__name__ for protocol in ANSWERS}


def _is_asked_of_moments(protocol: ast.ClassDef) -> bool:
    decorators = {ast.unparse(decorator) for decorator in protocol.decorator_list}
    methods = [node for node in protocol.body if isinstance(node, ast.FunctionDef)]
    return "runtime_checkable" in decorators and any(
        argument.annotation is not None and ast.unparse(argument.annotation) == "Snapshot"
        for method in methods
        for argument in method.args.args
    )


def test_the_order_of_parts_is_that_of_each(moment: Snapshot) -> None:
    """Rows that wait in no part come first; who does not wait is left out."""
    nobody = Shown(answering(KnowsOrder), lambda moment: moment, lambda row: False)
    ranking = shown_ranking([nobody, nobody])
    assert isinstance(ranking, KnowsOrder)
    assert ranking.in_turn(moment) == [1]


@pytest.mark.parametrize(
    ("policy", "cluster"),
    [
        ("drf", "1x4"),
        ("prerun:policy=drf,nodes=1,least_gpus=99", "2x4"),
        ("synergy:policy=drf", "1x4"),
    ],
)
def test_a_poorer_tenant_is_said_to_come_first(policy: str, cluster: str) -> None:
    """The tenant a has A, all of a node; C of the tenant b, which has nothing, is before B."""
    columns = {"tenant": np.array([0, 0, 1]), "tenant_names": ("a", "b")}
    jobs = "A 4x1000 B 4x1000@1 C 4x100@2"
    snapshot, decision = heard(parse_policy(policy).make(), jobs, parse_cluster(cluster), **columns)
    assert Code.SHARE in [constraint.code for constraint in explain(snapshot, decision, 1)]
