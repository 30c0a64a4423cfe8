"""Whoever gives a command hears what became of it at the turn that carried it out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from site_play import Site

from rota.server.turning import TurnChanges


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ({"priority": 3, "name": "b"}, "priority 3, name b"),
        ({"time_s": 5400.0, "deadline_s": None}, "time 1h 30m, deadline none"),
        ({"begin_s": 1_900_000_000.0}, "begin 2030-03-17 17:46:40 UTC"),
        ({"gpus": 2, "gpus_min": None, "gpus_max": 4}, "gpus 2, gpus_min none, gpus_max 4"),
    ],
)
def test_an_update_is_on_record_in_words(tmp_path: Path, args: dict[str, Any], text: str) -> None:
    site = Site(tmp_path, {"n0": 4}, "fifo:skip=yes")
    row = site.submit(5.0, hold=True)
    site.turn()
    site.command("update", row, **args)
    for _ in range(3):
        site.turn()
    assert [event.text for event in site.store.events() if event.kind == "update"] == [text]


@pytest.mark.parametrize(
    ("kind", "args", "error"),
    [
        ("policy", {"policy": "tiresias"}, ""),
        ("policy", {"policy": "no-such-policy"}, "no-such-policy"),
        ("shadow", {"policy": ""}, ""),
        ("update", {"priority": 3}, ""),
        ("update", {"gpus": -1}, "greater than or equal to 0"),
    ],
)
def test_changes_are_answered(tmp_path: Path, kind: str, args: dict[str, Any], error: str) -> None:
    """Also those after which the loop is built anew, and those that fail."""
    site = Site(tmp_path, {"n0": 1}, "fifo:skip=yes")
    first, second = site.submit(5.0), site.submit(5.0)
    outcomes: list[dict[str, Any]] = []

    def told(turn: TurnChanges) -> None:
        outcomes.extend(outcome for _, outcome in turn.done)  # type: ignore[misc]

    def ask(turn: int) -> None:
        if turn == 2:
            site.scheduler.told = told
            site.command(kind, second if kind == "update" else None, **args)

    site.run(between=ask)
    assert first != second
    assert len(outcomes) == 1
    assert error in outcomes[0].get("error", "")
    assert bool(error) == ("error" in outcomes[0])
