"""A site under a policy that promises deadlines: kept on record, offered later ones, accepted or lapsed."""

from __future__ import annotations

from pathlib import Path

import pytest
from answers_play import AskedSite, site

from rota.client.saying import spare
from rota.server.store.rows import JobRow
from rota.server.views import job_view
from rota.wire.views import JobView
from rota.worlds.live.inbox import CommandAsked

POLICY = "elasticflow:slot_s=1,margin_slots=0,restart_s=0,offer_s=60"


def first(s: AskedSite) -> None:
    """A job of 100 s that is to be done in 120 holds the only device."""
    s.until(s.submit(100.0, time_s=100.0, deadline_s=s.store.epoch_s + s.time.now + 120.0), "RUNNING")


@pytest.fixture
def s(tmp_path: Path) -> AskedSite:
    """One device; job 1 holds it for 100 s, which its deadline allows it to."""
    made = site(tmp_path / "site", POLICY, {"n1": 1})
    made.until(
        made.submit(100.0, time_s=100.0, deadline_s=made.store.epoch_s + made.time.now + 120.0), "RUNNING"
    )
    return made


def stored(s: AskedSite, row: int) -> JobRow:
    job = s.store.job(row)
    assert job is not None
    return job


def view(s: AskedSite, row: int) -> JobView:
    return job_view(stored(s, row), None, s.store.epoch_s, s.time.now)


def too_tight(s: AskedSite, **spec: object) -> int:
    """A job of 50 s that is to be done in 60 s, while job 1 runs for 100."""
    return s.submit(44.0, time_s=50.0, deadline_s=s.store.epoch_s + s.time.now + 60.0, **spec)


def test_a_promise_is_on_record_and_survives_the_controller(s: AskedSite) -> None:
    before = view(s, 0)
    assert before.promised_s == pytest.approx(before.deadline_s, abs=1e-6)
    assert before.expected_s is not None
    assert before.promised_s is not None
    assert before.expected_s <= before.promised_s
    s.kill_controller()
    s.turn()
    assert view(s, 0).promised_s == before.promised_s
    said = [event.text for event in s.store.events(limit=100) if event.kind == "promise"]
    assert said == ["its deadline is promised"]


def test_who_cannot_be_in_time_is_offered_a_later_deadline(s: AskedSite) -> None:
    row = too_tight(s)
    s.until(row, "OFFERED")
    offered = view(s, row)
    now = s.store.epoch_s + s.time.now
    assert offered.offered_s is not None
    assert offered.offered_until_s == pytest.approx(now + 60.0, abs=2.0)
    assert 140.0 <= offered.offered_s - now <= 165.0, "after job 1, and with time to answer"
    assert s.sentences(row)[0].startswith("can be done by 2023-")
    assert "if that is accepted within 1m: its deadline cannot be kept beside" in s.sentences(row)[0]
    assert s.why(row).reasons[0].remedy == "Accept it with `rota accept 2`, or cancel the job."


def test_who_accepts_is_promised_that(s: AskedSite) -> None:
    row = too_tight(s)
    s.until(row, "OFFERED")
    offered_s = view(s, row).offered_s
    s.command("accept", row)
    s.until(row, "RUNNING")
    after = view(s, row)
    assert (after.deadline_s, after.promised_s, after.offered_s) == (offered_s, offered_s, None)
    s.until(row, "COMPLETED")
    done = stored(s, row).now
    assert offered_s is not None
    assert s.store.epoch_s + (done.finish_s or 0.0) <= offered_s


def test_who_said_before_that_any_will_do_is_not_asked(s: AskedSite) -> None:
    row = too_tight(s, accept_later_deadline=True)
    s.until(row, "RUNNING")
    assert (view(s, row).promised_s or 0.0) > s.store.epoch_s + s.time.now + 40.0
    kinds = [event.kind for event in s.store.events(limit=100) if event.job == "2"]
    assert {"offer", "accept", "promise"} <= set(kinds)


def test_an_offer_that_nobody_takes_lapses(s: AskedSite) -> None:
    row = too_tight(s)
    s.until(row, "OFFERED")
    began_s = s.time.now
    s.until(row, "CANCELLED")
    assert s.time.now - began_s == pytest.approx(60.0, abs=2.0)
    assert stored(s, row).now.cause == "the later deadline that it was offered was not accepted in time"


def test_an_offer_survives_the_controller(s: AskedSite) -> None:
    row = too_tight(s)
    s.until(row, "OFFERED")
    s.kill_controller()
    s.turn()
    assert stored(s, row).now.state == "OFFERED"
    s.command("accept", row)
    s.until(row, "RUNNING")


def test_what_was_not_offered_cannot_be_accepted(s: AskedSite) -> None:
    seq = s.store.add_command(s.time.now, "u", "accept", row=0, node=None, args={})
    s.inbox.put(CommandAsked(seq, "u", "accept", 0, None, {}))
    s.turn()
    asked = s.store.command(seq)
    assert asked is not None
    assert asked.outcome == {"error": "no later deadline is offered to it"}
    assert stored(s, 0).now.state == "RUNNING"


def test_a_refusal_tells_the_policys_reason(tmp_path: Path) -> None:
    made = site(tmp_path / "site", POLICY.replace("offer_s=60", "offer_s=0"), {"n1": 1})
    made.until(
        made.submit(100.0, time_s=100.0, deadline_s=made.store.epoch_s + made.time.now + 120.0), "RUNNING"
    )
    row = too_tight(made)
    made.until(row, "CANCELLED")
    assert stored(made, row).now.cause.startswith("the policy refused it: its deadline cannot be kept")


CHRONUS = "chronus:lease_s=60,slot_s=20,overhead_s=0,safety=1"


@pytest.mark.parametrize(("policy", "due_s"), [(POLICY, 230.0), (CHRONUS, 300.0)])
def test_a_drained_node_puts_promises_at_risk_at_once(tmp_path: Path, policy: str, due_s: float) -> None:
    """One device is left for three jobs, each of 100 s; the fourth ends on the other, where it runs."""
    two = site(tmp_path / "site", policy, {"n1": 1, "n2": 1})
    begun_s = two.store.epoch_s + two.time.now
    running = [two.submit(100.0, time_s=100.0, deadline_s=begun_s + 180.0) for _ in range(2)]
    for row in running:
        two.until(row, "RUNNING")
    waiting = [two.submit(100.0, time_s=100.0, deadline_s=begun_s + due_s) for _ in range(2)]
    while view(two, waiting[1]).promised_s is None:
        two.turn()
    seq = two.store.add_command(two.time.now, "u", "drain", row=None, node="n2", args={})
    two.inbox.put(CommandAsked(seq, "u", "drain", None, "n2", {}))
    asked_s = two.time.now
    while not (said := [one for one in two.store.events(limit=100) if "is at risk" in one.text]):
        assert two.time.now <= asked_s + 2.0
        two.turn()
    rows = [job.row for one in said if (job := two.store.job(int(one.job) - 1)) is not None]
    assert set(rows) <= {*waiting, running[0]}, "who runs on the node goes on"
    told = [spare(view(two, row), str) for row in rows]
    assert all("no plan keeps it" in one or "late as it looks" in one for one in told)
