"""What users may ask for, and what they are told at once of what they ask for."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from answers_play import site as asked_site
from site_play import EPOCH_S, AllMayRun, Site

from rota.errors import InputError
from rota.model.tenants import Tenant, Tenants
from rota.scheduler.policy import parse_policy
from rota.server.answers.answers import Answers
from rota.server.answers.unused_fields import unread_deadline
from rota.server.api.forms import Submission
from rota.server.callers import Caller
from rota.server.caps import caps_of
from rota.server.refusals import Forbidden
from rota.server.store.rows import NewJob
from rota.server.submissions import Submissions
from rota.wire.job import JobSpec

SAID = {"priority": 100, "jobs": 3, "no_preempt": False, "tenants": {"vision": {"priority": 500}}}


@pytest.mark.parametrize(
    ("tenant", "spec", "refused"),
    [
        ("nlp", {"priority": 100}, ""),
        ("nlp", {"priority": 101}, "priority 101 is above 100"),
        ("vision/alice", {"priority": 500}, ""),
        ("vision/alice", {"priority": 501}, "priority 501 is above 500"),
        ("visionary", {"priority": 101}, "above 100"),
        ("nlp", {"preemptible": False}, "may not be submitted with --no-preempt"),
        ("nlp", {}, ""),
    ],
)
def test_what_a_user_may_ask_for(tenant: str, spec: dict[str, Any], refused: str) -> None:
    caps, job = caps_of(SAID), JobSpec(command=["x"], **spec)
    if not refused:
        caps.check_spec(job, tenant)
        return
    with pytest.raises(Forbidden, match=refused):
        caps.check_spec(job, tenant)


def test_jobs_that_are_not_over_are_counted(tmp_path: Path) -> None:
    site = Site(tmp_path, {"n0": 1})
    site.store.add_jobs("ann", "nlp", [NewJob(JobSpec(command=["x"]))] * 2, 0.0)
    site.store.add_jobs("bob", "nlp", [NewJob(JobSpec(command=["x"]))], 0.0)
    caps = caps_of(SAID)
    caps.check_jobs(site.store, "cy", "vision", 3)
    with pytest.raises(Forbidden, match="user 'cy' has 0 jobs that are not over and may have 3: 4 more"):
        caps.check_jobs(site.store, "cy", "vision", 4)
    with pytest.raises(Forbidden, match="tenant 'nlp' has 3 jobs"):
        caps.check_jobs(site.store, "ann", "nlp", 1)


@pytest.mark.parametrize(
    ("vision", "refused"),
    [
        ({"jobs": 4}, "tenant 'vision' has 3 jobs that are not over and may have 4: 2 more"),
        ({"priority": 500}, ""),
        ({}, ""),
    ],
)
def test_a_tenant_is_bounded_with_all_who_are_below_it(
    tmp_path: Path, vision: dict[str, int], refused: str
) -> None:
    """If it was given that cap: everybody's is for each tenant alone, whatever else `vision` was given."""
    site = Site(tmp_path, {"n0": 1})
    for user in ("ann", "bob", "cy"):
        site.store.add_jobs(user, f"vision/{user}", [NewJob(JobSpec(command=["x"]))], 0.0)
    caps = caps_of({"jobs": 3, "tenants": {"vision": vision}})
    caps.check_jobs(site.store, "di", "vision/di", 1)
    with pytest.raises(Forbidden, match=refused) if refused else nullcontext():
        caps.check_jobs(site.store, "di", "vision/di", 2)


def test_submissions_at_once_find_room_for_three_alone(tmp_path: Path) -> None:
    """And whoever asks again, having lost the answer, is answered as before, though there is no more room."""
    submit = submissions(Site(tmp_path, {"n0": 1}))
    with ThreadPoolExecutor(8) as threads:
        taken = list(threads.map(submit, [f"key-{i}" for i in range(8)]))
    ids = [one for one in taken if one]
    assert len(ids) == 3
    assert [submit(f"key-{i}") for i in range(8)] == taken


def submissions(site: Site) -> Callable[[str], str]:
    """Submits one job of `ann` under a key: its id, or nothing if it is refused."""
    answers = Answers(site.scheduler, site.store)
    desk = Submissions(site.store, site.inbox, site.scheduler.clock, answers, AllMayRun(), caps_of(SAID))
    ann = Caller("ann", tenant="nlp", account="ann")

    def submit(key: str) -> str:
        try:
            done = desk.submit(ann, Submission(spec=JobSpec(command=["x"]), key=key))
        except Forbidden:
            return ""
        return done.jobs[0].id

    return submit


@pytest.mark.parametrize(
    "said", [[], {"prio": 1}, {"priority": "high"}, {"jobs": -1}, {"no_preempt": 1}, {"tenants": {"a": 3}}]
)
def test_caps_that_are_none(said: object) -> None:
    with pytest.raises(InputError, match="caps"):
        caps_of(said)


@pytest.mark.parametrize(
    ("policy", "heeds"),
    [("fifo", False), ("srtf", False), ("gavel", False), ("gavel:objective=cost", True)],
)
def test_a_deadline_that_nobody_reads_is_told(policy: str, heeds: bool) -> None:
    assert parse_policy(policy).heeds_deadlines is heeds
    assert bool(unread_deadline(policy, True)) is not heeds
    assert unread_deadline(policy, False) == []


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"gpus": 9}, "could never run it: it needs 9 devices at once; the cluster has 8 it could use"),
        ({"gpu_memory_gib": 16.0}, "could never run it: it needs 16 GiB"),
        ({"deadline_s": 1.6e9}, "its deadline, 2020-09-13 12:26:40 UTC, is over already"),
        ({"deadline_s": 1e10}, "fifo orders jobs without looking at deadlines"),
        ({"gpus": 8}, ""),
    ],
)
def test_what_can_never_be_is_told_when_it_is_submitted(
    tmp_path: Path, spec: dict[str, Any], said: str
) -> None:
    site = Site(tmp_path, {"n0": 8})
    site.turn()
    answers = Answers(site.scheduler, site.store)
    warnings = answers.ignored(JobSpec(command=["x"], **spec), "t")
    assert bool(warnings) is bool(said)
    assert said in "; ".join(warnings)


def test_a_changed_deadline_is_judged_by_the_clock_that_people_look_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine's was set an hour forward: in half an hour by the cluster's is half an hour ago."""
    site = Site(tmp_path, {"n0": 8})
    site.turn()
    monkeypatch.setattr(site.time, "of_people", lambda at_unix_s: at_unix_s - 3600.0)
    change = {"deadline_s": EPOCH_S + site.time.now + 1800.0}
    said = Answers(site.scheduler, site.store).ignored_change(JobSpec(command=["x"]), change, "t")
    assert "is over already" in "; ".join(said)


def test_of_a_quota_its_tenant_is_told(tmp_path: Path) -> None:
    site = asked_site(tmp_path / "site", "fifo", {"n0": 8})
    site.with_tenants(Tenants.of(Tenant("t", 1, hard=True)))
    site.turn()
    (said,) = Answers(site.scheduler, site.store).ignored(JobSpec(command=["x"], gpus=3), "t")
    sentence = "tenant t would use 3 devices; its quota is 1"
    assert said == f"the cluster as it is could never run it: {sentence}"


@pytest.mark.parametrize(
    ("policy", "gpus", "is_answered", "said"),
    [
        ("elasticflow", 4, True, []),
        (
            "elasticflow",
            16,
            False,
            [
                "the cluster as it is could never run it, nor promise its deadline: "
                "it needs 16 devices at once; the cluster has 8 it could use"
            ],
        ),
        ("edf", 4, False, []),
    ],
)
def test_whose_deadline_is_answered(
    tmp_path: Path, policy: str, gpus: int, is_answered: bool, said: list[str]
) -> None:
    site = asked_site(tmp_path / "site", policy, {"n0": 8})
    site.turn()
    answers, due_s = Answers(site.scheduler, site.store), site.store.epoch_s + site.time.now + 3600.0
    spec = JobSpec(command=["x"], gpus=gpus, deadline_s=due_s)
    assert answers.answers_deadline(spec, "t") is is_answered
    assert answers.ignored(spec, "t") == said


def test_memory_of_devices_that_slots_have_not_is_waited_for(tmp_path: Path) -> None:
    site = Site(tmp_path, {"n0": 2})
    wants, plain = site.submit(2.0, gpu_memory_gib=16.0), site.submit(2.0)
    for _ in range(50):
        site.turn()
    states = [site.store.job(row).now.state for row in (wants, plain)]  # type: ignore[union-attr]
    assert states == ["PENDING", "COMPLETED"]


def test_where_no_node_has_joined_yet_a_job_is_not_called_impossible(tmp_path: Path) -> None:
    site = Site(tmp_path, {})
    site.turn()
    said = Answers(site.scheduler, site.store).ignored(JobSpec(command=["x"]), "t")
    assert said == ["no node has joined the cluster yet; it waits until one comes that can run it"]
