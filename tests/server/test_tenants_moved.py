"""Quotas and cells on a cluster that runs: what is said of them, what moving them does, what is refused."""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from answers_play import AskedSite, site

from rota.errors import InputError
from rota.model.tenants import CellQuota, Tenant, Tenants
from rota.scheduler.moments.frozen import load, to_bytes
from rota.server.answers import worker
from rota.server.answers.present_moment import gather
from rota.server.answers.questions import AskTenants, Looking
from rota.server.answers.tenant_losses import losses
from rota.server.api.forms import TenantsMove
from rota.server.callers import Caller
from rota.server.refusals import Conflict
from rota.server.tenants.accounts import TenantAccounts
from rota.server.tenants.settings import plain_tenants
from rota.wire.tenants import TenantView
from rota.worlds.live.inbox import Begun

ADMIN = Caller(user="root", admin=True)


def cells(**devices: int) -> Tenants:
    return Tenants.of(*(Tenant(path, cells=(CellQuota("device", n),)) for path, n in devices.items()))


class Asked:
    """The service over a site: commands are carried out in a few turns."""

    def __init__(self, s: AskedSite) -> None:
        self.s = s
        answers = SimpleNamespace(losses=lambda new: losses(s.scheduler, s.store, s.estimator, new))
        commands = SimpleNamespace(give=self.give)
        self.service = TenantAccounts(s.store, s.scheduler, commands, answers)  # type: ignore[arg-type]

    def give(self, who: Caller, kind: str, args: dict[str, Any], about: str) -> dict[str, Any]:
        self.s.command(kind, **args)
        for _ in range(4):
            self.s.turn()
        return {}

    def view(self, path: str) -> TenantView:
        return next(view for view in self.service.tenants().tenants if view.path == path)

    def move(self, tenants: Tenants, **how: bool) -> Any:
        return self.service.move_tenants(ADMIN, TenantsMove(tenants=plain_tenants(tenants), **how))


def made(folder: Path, policy: str, tenants: Tenants, nodes: dict[str, int] | None = None) -> AskedSite:
    s = site(folder / "site", policy, nodes or {"n1": 4})
    s.with_tenants(tenants)
    return s


@pytest.fixture
def s(tmp_path: Path) -> AskedSite:
    """Four devices; a and b own two each and run a job of two each, and a has another that waits."""
    s = made(tmp_path, "hived", cells(a=2, b=2))
    for tenant in ("a", "b"):
        s.until(s.submit(900.0, gpus=2, tenant=tenant), "RUNNING")
    s.submit(900.0, gpus=1, tenant="a")
    s.turn()
    return s


def test_what_each_has(s: AskedSite) -> None:
    asked, view = Asked(s), Asked(s).view("a")
    assert (view.entitled, view.own, view.held, view.free, view.borrowed) == (2.0, 2.0, 2.0, 0.0, 0.0)
    assert (view.running, view.waiting, view.waiting_gpus) == (1, 1, 1.0)
    assert view.cells[0].gpus == 2
    s.time.now += 3600.0
    assert asked.view("b").gpu_hours == pytest.approx(2.0, abs=0.1)


def test_cells_that_cannot_be_had_are_refused_with_the_level(s: AskedSite) -> None:
    with pytest.raises(InputError, match=r"promised 5 device cells .* the cluster has 4"):
        Asked(s).move(cells(a=3, b=2))
    assert Asked(s).view("a").entitled == 2.0


def test_who_would_be_worse_off_is_named_first(s: AskedSite) -> None:
    asked = Asked(s)
    told = asked.move(cells(a=3, b=1), dry_run=True)
    assert not told.applied
    assert told.changes == ["a: cells 2 devices to 3 devices", "b: cells 2 devices to 1 device"]
    assert [(loss.job, loss.what) for loss in told.losses] == [("2", "preempted")]
    with pytest.raises(Conflict, match=r"1 job would be worse off \(2\); .*--dry-run.*--yes"):
        asked.move(cells(a=3, b=1))
    assert asked.view("a").entitled == 2.0


def test_moved_cells_count_at_once_and_after_a_kill(s: AskedSite) -> None:
    """b's job goes for a's, and runs on idle devices once there are some: its tenant cannot hold it now."""
    asked = Asked(s)
    assert asked.move(cells(a=3, b=1), yes=True).applied
    s.until(2, "RUNNING")
    s.until(1, "PENDING")
    assert asked.view("a").own == 3.0
    s.kill_controller()
    s.turn()
    again = Asked(s)
    assert again.view("a").entitled == 3.0
    assert again.service.tenants().by == "u"
    s.command("cancel", 0)
    s.until(1, "RUNNING")
    assert again.view("b").borrowed == 2.0


def test_nobody_loses_where_the_cells_still_hold_all(s: AskedSite) -> None:
    s.command("cancel", 2)
    s.turn()
    asked = Asked(s)
    moved = asked.move(Tenants.of(*cells(a=2, b=2).by_path.values(), Tenant("c", weight=2.0)))
    assert (moved.applied, moved.losses) == (True, [])
    assert asked.move(Tenants.of(*cells(a=2, b=2).by_path.values(), Tenant("c", weight=2.0))).changes == []


def test_a_running_job_may_lose_its_guarantee_and_run_on(tmp_path: Path) -> None:
    s = made(tmp_path, "hived", cells(a=2, b=2))
    s.until(s.submit(900.0, gpus=2, tenant="a"), "RUNNING")
    told = Asked(s).move(cells(a=1, b=3), dry_run=True)
    assert [(loss.job, loss.what) for loss in told.losses] == [("1", "guarantee")]


def test_a_hard_quota_holds_who_could_never_run_and_lets_go_again(tmp_path: Path) -> None:
    s = made(tmp_path, "fifo", Tenants.of(Tenant("a", 4, hard=True)))
    s.until(s.submit(900.0, gpus=3, tenant="b"), "RUNNING")
    s.submit(900.0, gpus=2, tenant="a")
    s.turn()
    asked = Asked(s)
    tight = Tenants.of(Tenant("a", 1, hard=True))
    told = asked.move(tight, dry_run=True)
    assert [(loss.job, loss.what) for loss in told.losses] == [("2", "held")]
    assert "quota" in told.losses[0].sentence
    assert asked.move(tight, yes=True).applied
    job = s.store.job(1)
    assert job is not None
    assert [hold["kind"] for hold in job.now.hold] == ["infeasible"]
    assert asked.move(Tenants.of(Tenant("a", 4, hard=True))).applied
    s.inbox.put(Begun())
    s.turn()
    job = s.store.job(1)
    assert job is not None
    assert not job.now.hold


def test_tenants_below_count_as_those_above(tmp_path: Path) -> None:
    s = made(tmp_path, "fifo", Tenants.of(Tenant("a", 3), Tenant("a/x", 1)))
    s.until(s.submit(900.0, gpus=2, tenant="a/x"), "RUNNING")
    asked = Asked(s)
    assert [(v.path, v.held, v.borrowed) for v in asked.service.tenants().tenants] == [
        ("a", 2.0, 0.0),
        ("a/x", 2.0, 1.0),
    ]
    view = asked.service.tenants()
    assert view.between == "nothing"
    assert view.notes == [
        "policy fifo does not ask whose a job is: soft quotas and weights count for nothing, caps do"
    ]


@pytest.mark.parametrize(
    ("policy", "lost", "note"),
    [
        ("fifo", False, "policy fifo assigns no cells; `rota policy set hived` would"),
        (
            "hived",
            True,
            "guarantees are at risk while n2 is gone: tenants are promised 4 device cells .* has 2",
        ),
    ],
)
def test_what_a_reader_should_know(tmp_path: Path, policy: str, lost: bool, note: str) -> None:
    s = made(tmp_path, policy, cells(a=2, b=2), {"n1": 2, "n2": 2})
    s.turn()
    if lost:
        s.machines["n2"].is_up = False
        for _ in range(60):
            s.turn()
    notes = Asked(s).service.tenants().notes
    assert [note.split(" ")[:2] for note in notes[1:]] == [["policy", policy]], "what it divides by"
    import re

    assert re.match(note, notes[0]), notes


def test_tenants_move_before_anybody_has_come(tmp_path: Path) -> None:
    """The policy is told durations with the first job: until then there are none, and nothing is at stake."""
    s = made(tmp_path, "srtf", Tenants.none())
    s.turn()
    moment = gather(s.scheduler)
    frozen = load(BytesIO(moment.frozen))
    frozen.packed["knowledge"].clear()
    looking = Looking(replace(moment, frozen=to_bytes(frozen)), budget_s=5.0)
    said = worker.tenants(AskTenants(looking, Tenants.of(Tenant("a", quota_gpus=2.0))))
    assert said["before"] == said["after"] == {"preempt": [], "reject": {}, "guaranteed": None}
