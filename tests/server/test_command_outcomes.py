"""Whoever gives a command hears what became of it at the turn that carried it out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from site_play import Site

from rota.server.api.forms import JobChange
from rota.server.tenants.settings import plain_tenants
from rota.server.turn import TurnChanges


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ({"priority": 3, "name": "b"}, "priority 3, name b"),
        ({"time_s": 5400.0, "deadline_s": None}, "time 1h 30m, deadline none"),
        ({"begin_s": 1_900_000_000.0}, "begin 2030-03-17 17:46:40 UTC"),
        ({"gpus": 2, "gpus_min": None, "gpus_max": 4}, "gpus 2, gpus_min none, gpus_max 4"),
        ({"weight": 2.5, "deadlines": []}, "weight 2.5, deadlines none"),
        (
            {"deadlines": [{"at_s": 1_900_000_000.0, "value": 4.0}]},
            "deadlines 2030-03-17 17:46:40 UTC = 4",
        ),
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
        ("update", {"batch_min": 8.0}, "batch_min and batch_max go together"),
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


@pytest.mark.parametrize(
    ("kind", "args", "shown"),
    [
        ("policy", {"policy": "srtf"}, ("srtf", {})),
        ("shadow", {"policy": "srtf"}, ("fifo:skip=yes", {})),
        ("tenants", {"tenants": {"t": {"quota": 1}}}, ("fifo:skip=yes", {"t": 1.0})),
    ],
)
def test_what_was_changed_is_shown_once_it_is_told(
    tmp_path: Path, kind: str, args: dict[str, Any], shown: tuple[str, dict[str, float]]
) -> None:
    """Who is answered may submit at once, or take it back: that is about the new policy, the new tenants."""
    site = Site(tmp_path, {"n0": 1}, "fifo:skip=yes")
    site.turn()
    seen: list[tuple[str, dict[str, float]]] = []

    def told(turn: TurnChanges) -> None:
        view = site.scheduler.view
        assert view.policy is not None
        quotas = {path: one["quota"] for path, one in plain_tenants(view.tenants.tenants).items()}
        seen.extend((view.policy.spec, quotas) for _ in turn.done)

    site.scheduler.told = told  # type: ignore[assignment]
    site.command(kind, **args)
    for _ in range(3):
        site.turn()
    assert seen == [shown]


def test_of_two_policies_at_once_each_is_told_after_the_one_before(tmp_path: Path) -> None:
    """The loop is built anew only after both."""
    site = Site(tmp_path, {"n0": 1}, "fifo:skip=yes")
    site.turn()
    for policy in ("srtf", "las"):
        site.command("policy", policy=policy)
    for _ in range(3):
        site.turn()
    said = [event.text for event in site.store.events() if event.kind == "policy"]
    assert said == ["srtf in place of fifo:skip=yes", "las in place of srtf"]


def test_policies_see_what_an_update_changes(tmp_path: Path) -> None:
    """Weight, batch range and deadlines reach the columns of the table that the loop is built upon."""
    site = Site(tmp_path, {"n0": 4}, "fifo:skip=yes")
    row = site.submit(50.0)
    site.turn()
    due = [{"at_s": 1_900_000_000.0, "value": 7.0}, {"at_s": 1_900_000_100.0, "value": 3.0}]
    site.command("update", row, weight=2.5, batch_min=8.0, batch_max=64.0, deadlines=due)
    for _ in range(3):
        site.turn()
    loop = site.scheduler.loop
    assert loop is not None
    jobs = loop.snapshot().jobs
    assert [jobs.weight[row], jobs.batch_min[row], jobs.batch_max[row]] == [2.5, 8.0, 64.0]
    first, second = jobs.deadlines(row)
    assert (second.at_s - first.at_s, first.value, second.value) == (100.0, 7.0, 3.0)


def test_what_cannot_be_changed_is_told_in_a_sentence() -> None:
    with pytest.raises(ValidationError, match="tenant cannot be changed; cancel the job and submit it again"):
        JobChange.model_validate({"priority": 1, "tenant": "other"})
