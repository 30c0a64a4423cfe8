"""A live job that has run and is refused by its policy: it has failed if its last attempt did."""

from __future__ import annotations

from pathlib import Path

import pytest
from site_play import LocalHost, Site

from rota.scheduler.decision import Decision, Event, Memory, Wake
from rota.scheduler.snapshot import Snapshot


class RefusingHost(LocalHost):
    """Tries nobody again who has run."""

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        again = [row for row in snapshot.waiting.tolist() if snapshot.by_row.starts_of[row]]
        if again:
            return Decision(memory, reject=dict.fromkeys(again, "once is enough"), wake=Wake(on=Event.ANY))
        return super().decide(snapshot, memory)


class RefusingSite(Site):
    """A site of that policy."""

    def begin(self) -> None:
        super().begin()
        self.scheduler.make_host = RefusingHost  # type: ignore[assignment]


def until(site: RefusingSite, *states: str) -> str:
    """Turn until its only job is in one of `states`; which one, and why."""
    for _ in range(200):
        job = site.store.job(0)
        if job is not None and job.now.state in states and job.now.starts:
            return f"{job.now.state}: {job.now.cause}"
        site.turn()
    raise AssertionError(f"it is not {states} but {site.store.job(0)}")


@pytest.mark.parametrize("killed", [False, True], ids=["at once", "the controller starts anew in between"])
def test_one_that_failed_and_is_not_tried_again_has_failed(tmp_path: Path, killed: bool) -> None:
    site = RefusingSite(tmp_path, {"n1": 1}, "fifo:skip=yes")
    site.submit(5.0, ends="fail", user_retries=3)
    until(site, "RUNNING")
    until(site, "PENDING")
    if killed:
        site.kill_controller()
    assert until(site, "FAILED", "CANCELLED") == (
        "FAILED: its last attempt failed, and the policy refused to try it again: once is enough"
    )
    job = site.store.job(0)
    assert job is not None
    assert (job.now.starts, job.now.failures) == (1, 1)


def test_one_that_was_requeued_is_cancelled(tmp_path: Path) -> None:
    site = RefusingSite(tmp_path, {"n1": 1}, "fifo:skip=yes")
    site.submit(50.0)
    until(site, "RUNNING")
    site.command("requeue", 0)
    assert until(site, "FAILED", "CANCELLED") == "CANCELLED: ended by the policy: once is enough"
