"""`rota why` of a job with a deadline: the plan by which its policy means to keep it."""

from __future__ import annotations

from pathlib import Path

import pytest
from answers_play import AskedSite, site
from site_play import EPOCH_S

from rota.cli.live import job_rows
from rota.cli.live.show import plan_lines
from rota.model.units import format_duration
from rota.server.answers.why import as_planned_now
from rota.server.views import job_view
from rota.wire.views import JobView, PlannedSlotView, PlanView

EF = "elasticflow:slot_s=10,margin_slots=0,restart_s=0,surplus=no"
CHRONUS = "chronus:lease_s=60,slot_s=10"


def planned(s: AskedSite, row: int) -> PlanView:
    plan = s.why(row).plan
    assert plan is not None
    return plan


@pytest.mark.parametrize("policy", [EF, CHRONUS, "hived:policy=chronus", "deadline_sla"])
def test_a_running_job_is_to_be_done_in_time(tmp_path: Path, policy: str) -> None:
    s = site(tmp_path / "site", policy, {"n1": 2})
    row = s.submit(100.0, time_s=100.0, deadline_s=s.store.epoch_s + s.time.now + 9000.0)
    s.until(row, "RUNNING")
    plan = planned(s, row)
    work_s = sum((slot.to_s - slot.from_s) * slot.gpus for slot in plan.slots)
    assert work_s >= 95.0
    assert plan.slack_s == pytest.approx(plan.due_s - plan.slots[-1].to_s)
    assert plan.slack_s >= 0.0
    assert all(a.to_s <= b.from_s for a, b in zip(plan.slots, plan.slots[1:], strict=False))


def test_who_waits_is_told_when_its_turn_is_planned(tmp_path: Path) -> None:
    """The device is taken for a lease or two; the second job has later ones, before its deadline."""
    s = site(tmp_path / "site", CHRONUS, {"n1": 1})
    first = s.submit(100.0, time_s=100.0, deadline_s=s.store.epoch_s + s.time.now + 400.0)
    s.until(first, "RUNNING")
    due_s = s.store.epoch_s + s.time.now + 700.0
    later = s.submit(100.0, time_s=100.0, deadline_s=due_s)
    while s.why(later).plan is None:
        s.turn()
        assert s.time.now < 100.0
    plan = planned(s, later)
    assert s.why(later).state == "PENDING"
    assert EPOCH_S + s.time.now < plan.slots[0].from_s
    assert plan.slots[-1].to_s <= plan.due_s == pytest.approx(EPOCH_S + due_s - s.store.epoch_s, abs=1e-3)


def test_without_a_deadline_or_a_plan_nothing_is_said(tmp_path: Path) -> None:
    s = site(tmp_path / "site", "fifo", {"n1": 1})
    with_one = s.submit(100.0, time_s=100.0, deadline_s=s.store.epoch_s + 1000.0)
    s.until(with_one, "RUNNING")
    assert s.why(with_one).plan is None


def test_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.cli.live.tables.CLOCK", lambda: 0.0)
    slots = [PlannedSlotView(from_s=i * 600.0, to_s=i * 600.0 + 300.0, gpus=i + 1) for i in range(10)]
    kept = plan_lines(PlanView(due_s=7200.0, slots=slots, slack_s=1500.0))
    assert kept[0].endswith("(in 2h), planned to be kept with 25m to spare:")
    assert kept[1].endswith("  1 GPU for 5m")
    assert kept[-1].startswith("  and 2 more, the last until ")
    late = plan_lines(PlanView(due_s=7200.0, slots=slots[:1], slack_s=-60.0))
    assert late[0].endswith("(in 2h), planned 1m too late:")
    assert plan_lines(PlanView(due_s=7200.0, slots=[]))[0].endswith("no plan keeps it")


@pytest.mark.parametrize(("policy", "in_s"), [(EF, 400.0), (CHRONUS, 640.0)])
def test_a_promise_that_a_lost_node_puts_at_risk_is_said(tmp_path: Path, policy: str, in_s: float) -> None:
    """Two jobs on two nodes, both to be done soon: without the second node one of them will be late.

    That is said in the turn in which the node is lost, and by whoever is asked.
    """
    s = site(tmp_path / "site", policy, {"n1": 1, "n2": 1})
    due_s = s.store.epoch_s + s.time.now + in_s
    rows = [s.submit(300.0, time_s=300.0, deadline_s=due_s) for _ in range(2)]
    for row in rows:
        s.until(row, "RUNNING")
    s.machines["n2"].is_up = False
    told: list[str] = []
    while not any("risk" in text for text in told):
        s.turn()
        told = [event.text for event in s.store.events(limit=1000) if event.kind == "promise"]
        assert s.time.now < in_s, told
    lost = next(event.at_s for event in s.store.events(limit=1000) if event.kind == "lost")
    said = next(event for event in s.store.events(limit=1000) if "risk" in event.text)
    assert said.at_s - lost < 2.0
    row = int(said.job) - 1
    assert said.text in (
        f"its promised deadline is {job_rows.RISK.removeprefix('deadline ')}: {why}"
        for why in ("no plan keeps it", late_of(s, row))
    )
    told = job_rows.jobs_text([view(s, other) for other in rows])
    assert [job_rows.RISK in line for line in told.splitlines()[1:]] == [other == row for other in rows]


def late_of(s: AskedSite, row: int) -> str:
    """How late a job is said to be by `rota show`, once `rota why` has said the same."""
    seen, plan = view(s, row), planned(s, row)
    if seen.expected_s is None or seen.promised_s is None:
        assert plan.slack_s is None
        return ""
    assert plan.slack_s == pytest.approx(seen.promised_s - seen.expected_s, abs=1e-3)
    return f"{format_duration(-plan.slack_s)} late as it looks"


def view(s: AskedSite, row: int) -> JobView:
    """As `rota show` has it."""
    stored = s.store.job(row)
    assert stored is not None
    return as_planned_now(s.scheduler, stored, job_view(stored, None, EPOCH_S, s.time.now))


@pytest.mark.parametrize("policy", [EF, CHRONUS])
def test_show_and_why_have_the_same_to_spare_when_plans_have_changed(tmp_path: Path, policy: str) -> None:
    """A job that is due sooner comes and is served first, if it can: what was told of the first is over."""
    s = site(tmp_path / "site", policy, {"n1": 1})
    first = s.submit(300.0, time_s=300.0, deadline_s=s.store.epoch_s + s.time.now + 3000.0)
    s.until(first, "RUNNING")
    told_s = view(s, first).expected_s
    urgent = s.submit(80.0, time_s=100.0, deadline_s=s.store.epoch_s + s.time.now + 400.0)
    s.until(urgent, "COMPLETED")
    s.until(first, "RUNNING")
    seen = view(s, first)
    assert seen.expected_s is not None
    assert told_s is not None
    assert seen.expected_s > told_s + 60.0 or policy == CHRONUS, "Chronus had planned the last leases"
    assert seen.promised_s is not None
    assert planned(s, first).slack_s == pytest.approx(seen.promised_s - seen.expected_s, abs=1e-3)
