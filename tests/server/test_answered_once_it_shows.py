"""Whoever is answered asks next about what the answer was about: by then everything shows it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from site_play import Site
from store_place import node_info

import rota.server.scheduler_view
from rota.server.commands import CommandOutcomes
from rota.server.overview import Overview
from rota.server.readiness import LoopStanding
from rota.server.refusals import Busy
from rota.server.store.rows import AttemptRow, TokenRow
from rota.server.tenants.settings import plain_tenants
from rota.server.turn import TurnChanges
from rota.worlds.live.inbox import Changed, Inbox


def _policy(site: Site) -> Any:
    scheduler = site.scheduler
    assert scheduler.view.policy is not None
    assert scheduler.host is not None
    return scheduler.view.policy.spec, type(scheduler.host.policy).__name__  # type: ignore[attr-defined]


def _tenants(site: Site) -> Any:
    assert site.scheduler.world is not None
    two = site.scheduler.view.tenants.tenants, site.scheduler.world.cluster.tenants
    return tuple(tuple(plain_tenants(one)) for one in two)


def _node(site: Site) -> Any:
    """Of n1: as the store, the view and the world have it, and whether its devices are counted."""
    stored, world = site.store.node("n1"), site.scheduler.world
    assert stored is not None
    assert world is not None
    live = world.live.machines.nodes[stored.position]
    return stored.state, site.scheduler.view.nodes["n1"].state, live.state, list(world.cluster.gone)


def _job(site: Site) -> Any:
    """Of the job: as the store has it and the world."""
    job, world = site.store.job(0), site.scheduler.world
    assert job is not None
    assert world is not None
    live = world.live.get(0)
    holds = [] if live is None else sorted(live.holds)
    asked = world.live.table.jobs
    return (
        job.now.state,
        sorted(plain["kind"] for plain in job.now.hold),
        holds,
        0 in site.scheduler.view.holding,
        (job.asked.gpus, asked.gpus.item(0)),
    )


RUNS: dict[str, Any] = {"gpus": 1}
HELD: dict[str, Any] = {"gpus": 1, "hold": True}
LARGE: dict[str, Any] = {"gpus": 8}


@pytest.mark.parametrize(
    ("kind", "args", "job", "look", "shows"),
    [
        ("policy", {"policy": "srtf"}, RUNS, _policy, ("srtf", "srtf")),
        ("tenants", {"tenants": {"t": {"quota": 1}}}, RUNS, _tenants, (("t",), ("t",))),
        ("drain", {"node": "n1"}, RUNS, _node, ("drained",) * 3 + ([],)),
        ("undrain", {"node": "n1"}, RUNS, _node, ("up",) * 3 + ([],)),
        ("forget", {"node": "n1"}, RUNS, _node, ("forgotten",) * 3 + ([1],)),
        ("hold", {}, LARGE, _job, ("PENDING", ["infeasible", "user"], ["infeasible", "user"], False, (8, 8))),
        ("release", {}, HELD, _job, ("RUNNING", [], [], True, (1, 1))),
        ("suspend", {}, RUNS, _job, ("PENDING", ["suspended"], ["suspended"], False, (1, 1))),
        ("requeue", {}, RUNS, _job, ("RUNNING", [], [], True, (1, 1))),
        ("cancel", {}, RUNS, _job, ("COMPLETING", [], [], False, (1, 1))),
        ("update", {"gpus": 2}, HELD, _job, ("PENDING", ["user"], ["user"], False, (2, 2))),
        ("update", {"gpus": 2}, LARGE, _job, ("RUNNING", [], [], True, (2, 2))),
    ],
)  # fmt: skip
def test_what_a_command_did_shows_when_it_is_told(
    tmp_path: Path,
    kind: str,
    args: dict[str, Any],
    job: dict[str, Any],
    look: Callable[[Site], Any],
    shows: Any,
) -> None:
    site = Site(tmp_path, {"n0": 2, "n1": 2}, "fifo:skip=yes")
    site.machines["n1"].is_up = kind != "forget"
    site.submit(1e9, **job)
    for _ in range(20):
        site.turn()
    seen: list[Any] = []

    def told(turn: TurnChanges) -> None:
        seen.extend((outcome, look(site)) for _, outcome in turn.done)

    site.scheduler.told = told  # type: ignore[assignment]
    node = args.get("node")
    site.command(kind, None if node or kind in ("policy", "tenants") else 0, **args)
    for _ in range(3):
        site.turn()
    assert seen == [({}, shows)]


def test_who_could_run_on_a_forgotten_node_only_is_held_for_that(tmp_path: Path) -> None:
    """No policy keeps anything for it, and `rota why` says what is lacking, until a node comes."""
    site = Site(tmp_path, {"n0": 2, "n1": 4}, "fifo")
    site.submit(1e9, gpus=6)
    site.submit(1e9, gpus=2, hold=True)
    for _ in range(10):
        site.turn()
    site.machines["n1"].is_up = False
    while site.store.jobs()[0].now.state == "RUNNING":
        site.turn()
    site.command("forget", node="n1")
    for _ in range(4):
        site.turn()
    (hold,) = site.store.jobs()[0].now.hold
    assert (hold["kind"], hold["requested"], hold["provided"]) == ("infeasible", 6, 2)
    assert [one["kind"] for one in site.store.jobs()[1].now.hold] == ["user"]


def test_what_jobs_hold_shows_while_the_loop_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks for the status then is not told that no GPU is in use."""
    site = Site(tmp_path, {"n0": 2}, "fifo:skip=yes")
    rows = [site.submit(1e9), site.submit(1e9)]
    for _ in range(10):
        site.turn()
    seen: list[int] = []
    as_ever = rota.server.scheduler_view.attempt_row

    def looks(attempt: Any) -> AttemptRow:
        seen.append(len(site.scheduler.view.holding_by_node()["n0"]))
        return as_ever(attempt)

    monkeypatch.setattr(rota.server.scheduler_view, "attempt_row", looks)
    site.scheduler._build()
    assert seen == [len(rows)] * 2


def test_questions_wait_for_what_has_just_joined() -> None:
    inbox = Inbox()
    trouble = ""
    standing = LoopStanding(inbox, lambda turn: None, lambda: trouble)
    assert not standing.wait(0.0)
    standing.rises()
    assert not standing.wait(0.0)
    standing.stands()
    standing.check()
    inbox.put(Changed("node n1 has joined"))
    assert not standing.wait(0.0)
    with pytest.raises(Busy):
        standing.check()
    standing.rises()
    builds = threading.Timer(0.01, standing.stands)
    builds.start()
    standing.check()
    builds.join()
    standing.falls()
    trouble = "the store does not answer"  # for long, maybe: nobody waits for it
    assert not standing.wait(1e6)


def test_the_status_counts_a_node_that_joined_a_moment_ago(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(tmp_path, {"n0": 2}, "fifo")
    site.turn()
    tidier = SimpleNamespace(troubles=list)
    overview = Overview("c", site.store, site.scheduler, tidier)  # type: ignore[arg-type]
    assert (overview.status().nodes, overview.status().gpus) == (1, 2)
    site.store.join(node_info("n1", devices=2), TokenRow("t-n1", "agent", "n1"))
    site.inbox.put(Changed("node n1 has joined"))

    def builds() -> None:
        for _ in range(2):
            site.turn()

    patient = partial(site.scheduler.standing.wait, 60.0)
    monkeypatch.setattr(site.scheduler.standing, "wait", patient)
    builder = threading.Timer(0.05, builds)
    builder.start()
    status = overview.status()
    builder.join()
    assert (status.nodes, status.gpus) == (2, 4)


def test_who_asks_does_not_wait_for_those_who_join_after_that() -> None:
    """Machines may join by the hundred, each with a change of its own."""
    inbox = Inbox()
    standing = LoopStanding(inbox, lambda turn: None, str)
    inbox.put(Changed("node n1 has joined"))
    standing.rises()
    asked = threading.Event()

    class Asked(threading.Condition):
        def wait_for(self, predicate: Any, timeout: float | None = None) -> Any:
            asked.set()
            return super().wait_for(predicate, timeout)

    standing._turned = Asked()
    answers: list[bool] = []
    asks = threading.Thread(target=lambda: answers.append(standing.wait(60.0)))
    asks.start()
    assert asked.wait(60.0)
    inbox.put(Changed("node n2 has joined"))
    standing.stands()
    asks.join(60.0)
    assert answers == [True]
    assert not standing.wait(0.0), "n2 does not show yet"


def test_what_is_done_is_told_although_the_loop_does_not_come_to_stand() -> None:
    told: list[TurnChanges] = []
    standing = LoopStanding(Inbox(), told.append, str)
    done = [(7, {})]
    standing.announce(TurnChanges(done=done, wanted=True), shows=False)
    assert [(turn.done, turn.wanted) for turn in told] == [((), True)]
    standing.falls()
    standing.tell()
    standing.tell()
    assert [turn.done for turn in told] == [(), done]


def test_who_begins_to_wait_after_its_command_was_done_hears_of_it() -> None:
    """A loop that is built anew finds the command on record and may be faster than its giver."""
    outcomes = CommandOutcomes()
    outcomes.tell(1, {"error": "it has ended"})
    outcomes.expect(1)
    assert outcomes.wait(1, 0.0) == {"error": "it has ended"}
    for seq in range(2000):
        outcomes.tell(seq, {})
    assert len(outcomes._early) == 1000
