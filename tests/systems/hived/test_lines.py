"""Lines of like requests: tried from their heads, and told row by row."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from rota.model.grants import Code, Constraint
from rota.systems.hived.lines import LineReasons, LineTurns

SMALL, LARGE = ("small",), ("large",)
WHY = Constraint(Code.POLICY, detail="no room")
OTHER = Constraint(Code.POLICY, detail="its turn")
ASKED: Any = SimpleNamespace(shape={1: SMALL, 3: SMALL, 5: SMALL, 2: LARGE, 4: LARGE, 7: SMALL})


def test_lines_are_tried_by_rank_and_fail_whole() -> None:
    lines = {SMALL: [1, 3, 5], LARGE: [2, 4]}
    turns = LineTurns(lines, lambda row: row)
    tried = []
    while (head := turns.next()) is not None:
        row, shape = head
        tried.append(row)
        if row == 3:
            turns.failed[shape] = WHY
        else:
            turns.leave(shape)
    assert tried == [1, 2, 3, 4]
    assert lines == {SMALL: [3, 5]}


def test_who_loses_its_place_is_served_in_its_rank() -> None:
    lines = {SMALL: [5], LARGE: [2]}
    turns = LineTurns(lines, lambda row: row)
    assert turns.next() == (2, LARGE)
    turns.leave(LARGE)
    turns.join(3, SMALL)
    assert turns.next() == (3, SMALL)
    turns.leave(SMALL)
    assert turns.next() == (5, SMALL)
    turns.failed[SMALL] = WHY
    turns.join(4, SMALL)
    turns.join(2, LARGE)
    assert turns.next() == (2, LARGE)
    turns.leave(LARGE)
    assert turns.next() is None
    assert lines == {SMALL: [4, 5]}


def test_reasons_are_those_of_the_lines_but_for_who_is_gone() -> None:
    reasons = LineReasons(
        ASKED, {SMALL: [1, 3, 5], LARGE: [2]}, {SMALL: WHY, LARGE: OTHER}, {9: OTHER, 4: WHY}, [3, 4]
    )
    assert dict(reasons) == {1: WHY, 2: OTHER, 5: WHY, 9: OTHER}
    assert list(reasons) == [1, 2, 5, 9]
    assert len(reasons) == 4
    assert 3 not in reasons
    assert 7 not in reasons  # which asks for the same, and has come since
