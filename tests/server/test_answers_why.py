"""What a user meets, each on a whole site with the sentences it produces, the dominant one first."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from answers_play import AskedSite, site
from site_play import EPOCH_S, AllMayRun

from rota.model.reasons import Code, Constraint
from rota.model.tenants import Tenant, Tenants
from rota.server.answers.answers import MOST_REASONS, Answers
from rota.server.answers.why import Asking
from rota.server.policy.messages import WhyAnswer
from rota.server.recovery import asked_job, live_job
from rota.server.refusals import Busy
from rota.server.store.rows import NewJob
from rota.server.views import job_view
from rota.wire.job import JobSpec
from rota.wire.sync import DeviceInfo, PartStatus, Report, SyncRequest
from rota.worlds.live.inbox import Arrived, ReportTold

TWO_NODES = {"n1": 2, "n2": 2}


@dataclass
class Situation:
    """`make` brings it about and returns the row that is asked about."""

    name: str
    make: Callable[[AskedSite], int]
    sentences: list[str]
    policy: str = "fifo:skip=yes"
    nodes: dict[str, int] = field(default_factory=lambda: {"n1": 2})
    given: dict[str, Any] = field(default_factory=dict)
    tenants: Tenants = field(default_factory=Tenants.none)
    remedy: str | None = None
    """Of the first reason."""


def full(s: AskedSite, work_s: float = 1000.0, **spec: Any) -> int:
    """A job of its own runs on each node and takes all of it; the last of them."""
    rows = [s.submit(work_s, gpus=gpus, time_s=work_s, **spec) for gpus in s.nodes.values()]
    for row in rows:
        s.until(row, "RUNNING")
    return rows[-1]


def settle(s: AskedSite, row: int) -> None:
    """Turn until the processes of `row` run."""
    for _ in range(20):
        attempt = s.scheduler.view.holding.get(row)
        if attempt is not None and attempt.start_s is not None:
            return
        s.turn()
    raise AssertionError(f"job {row + 1} has not begun")


def next_one(s: AskedSite, work_s: float = 10.0, **spec: Any) -> int:
    """Another job, which the policy has seen."""
    row = s.submit(work_s, time_s=spec.pop("time_s", work_s), **spec)
    s.turn()
    return row


def waits(*before: dict[str, Any], **spec: Any) -> Callable[[AskedSite], int]:
    """Everything is taken, `before` wait already, and then `spec`."""

    def make(s: AskedSite) -> int:
        full(s)
        for one in before:
            next_one(s, **one)
        return next_one(s, **spec)

    return make


def scattered(*short: int) -> Callable[[AskedSite], int]:
    """Of four jobs of one device on two nodes, two are `short`: one device is free on each, and a job wants
    two."""

    def make(s: AskedSite) -> int:
        rows = [s.submit(20.0 if place in short else 1000.0, time_s=2000.0) for place in range(4)]
        for row in rows:
            s.until(row, "RUNNING", "COMPLETED")
        for place in short:
            s.until(rows[place], "COMPLETED")
        return next_one(s, gpus=2)

    return make


def over_its_share(s: AskedSite) -> int:
    for tenant, gpus in (("vision", 3), ("speech", 1)):
        s.until(s.submit(1000.0, gpus=gpus, tenant=tenant, time_s=1000.0), "RUNNING")
    late = next_one(s, tenant="vision")
    next_one(s, tenant="speech")
    return late


def reserved(s: AskedSite) -> int:
    s.until(s.submit(1000.0, gpus=1, time_s=100.0), "RUNNING")
    next_one(s, gpus=2)
    return next_one(s, 500.0, gpus=1)


def drained(gpus: int, busy: int = 0) -> Callable[[AskedSite], int]:
    """n2 is drained, `busy` devices of n1 are in use, and a job wants `gpus`."""

    def make(s: AskedSite) -> int:
        if busy:
            s.until(s.submit(1000.0, gpus=busy, time_s=1000.0), "RUNNING")
        s.command("drain", node="n2", reason="new fans")
        s.turn()
        return next_one(s, gpus=gpus)

    return make


def unhealthy(gpus: int, busy: int = 0) -> Callable[[AskedSite], int]:
    """One of the two devices of n1 is unhealthy, `busy` are in use, and a job wants `gpus`."""

    def make(s: AskedSite) -> int:
        if busy:
            s.until(s.submit(1000.0, gpus=busy, time_s=1000.0), "RUNNING")
        _xid(s)
        return next_one(s, gpus=gpus)

    return make


def _xid(s: AskedSite) -> None:
    said: dict[str, Any] = {"controller": s.directives.incarnation, "incarnation": "i", "seen": 0}
    devices = [DeviceInfo(index=0, type="cpu"), DeviceInfo(index=1, type="cpu", healthy=False, why="Xid 79")]
    s.inbox.put(ReportTold("n1", SyncRequest(**said, devices=devices)))
    s.turn()


def after_two(s: AskedSite) -> int:
    first = full(s)
    second = next_one(s)
    after = [{"job": str(first + 1)}, {"job": str(second + 1)}]
    return next_one(s, after=after)


TWO_OF_THREE = "waits for 2 of the 3 jobs of array 1 to end"


def after_an_array(when: str) -> Callable[[AskedSite], int]:
    def make(s: AskedSite) -> int:
        """The first job of the array, which fails, has ended."""
        first = s.submit_array("fail", "ok", "ok", gpus=2)[0]
        row = next_one(s, after=[{"job": str(first + 1), "when": when}])
        s.until(first, "FAILED")
        return row

    return make


def with_command(verb: str, *, running: bool) -> Callable[[AskedSite], int]:
    def make(s: AskedSite) -> int:
        row = full(s)
        if not running:
            row = next_one(s)
        s.command(verb, row)
        s.turn()
        return row

    return make


def shrunk(s: AskedSite) -> int:
    """A job that bears another number of devices; `afs` resizes no other."""
    row = s.submit(1000.0, gpus=2, gpus_min=1, gpus_max=2, time_s=1000.0, checkpoint="own")
    s.until(row, "RUNNING")
    s.until(s.submit(1000.0, gpus=2, gpus_min=1, gpus_max=2, time_s=1000.0), "RUNNING")
    settle(s, row)
    return row


def packed(s: AskedSite) -> int:
    rows = [s.submit(100.0, gpu_share=0.5, time_s=100.0) for _ in range(4)]
    for row in rows:
        s.until(row, "RUNNING")
    s.turn()
    return rows[0]


def on_trial(s: AskedSite) -> int:
    row = s.submit(1000.0, gpus=2, trial=True, time_s=1000.0)
    s.until(row, "RUNNING")
    s.turn()
    s.time.now = 41.0
    return row


def backing_off(s: AskedSite) -> int:
    row = full(s)
    settle(s, row)
    assert s.machines["n1"].kill_shim(random.Random(1))
    s.until(row, "PENDING")
    return row


def preempted(s: AskedSite) -> int:
    row = full(s)
    s.until(s.submit(60.0, gpus=2, time_s=60.0), "RUNNING")
    s.turn()
    return row


def late(s: AskedSite) -> int:
    full(s)
    return next_one(s, deadline_s=s.store.epoch_s + 200.0)


def just_begun(s: AskedSite) -> int:
    row = running(s)
    began_s = s.scheduler.view.holding[row].start_s
    assert began_s is not None
    s.time.now = began_s + 20.0
    return next_one(s, gpus=2)


def running(s: AskedSite, **spec: Any) -> int:
    row = full(s, **spec)
    settle(s, row)
    return row


def ended(s: AskedSite) -> int:
    row = s.submit(5.0, time_s=100.0)
    s.until(row, "COMPLETED")
    return row


def array(s: AskedSite) -> int:
    full(s)
    spec = JobSpec(command=["work"], array="1-2%1", time_s=10.0)
    rows = s.store.add_jobs("u", "t", [NewJob(spec, 1), NewJob(spec, 2)], s.time.now)
    s.inbox.put(Arrived([(live_job(row, spec, (), AllMayRun()), asked_job(row, spec)) for row in rows]))
    s.turn()
    return rows[1].row


NEEDS_2 = "needs 2 devices; 0 are free"
SHARES = "shares its GPUs with job 4: it may use 50 % of each"
NEEDS_1 = "needs 1 device; 0 are free"
SITUATIONS = [
    Situation(
        "tenant quota",
        lambda s: (s.until(s.submit(1000.0, gpus=3, time_s=1000.0), "RUNNING"), next_one(s))[1],
        ["tenant t would use 4 devices; its quota is 3"],
        nodes={"n1": 4},
        tenants=Tenants.of(Tenant("t", quota_gpus=3, hard=True)),
        remedy="The job would have to ask for 1 device less, tenant t to give back as many, "
        "or the quota to be 4.",
    ),
    Situation(
        "gang larger than the cluster",
        lambda s: (full(s), next_one(s, gpus=8))[1],
        ["needs 8 devices at once; the cluster has 2 it could use"],
        remedy="Ask for 2 or fewer, or add nodes.",
    ),
    Situation(
        "gang larger than any node",
        lambda s: (full(s), next_one(s, gpus=3))[1],
        ["needs 3 devices in one node; the largest node has 2"],
        policy="fifo:skip=yes,placement=one_node",
        nodes=TWO_NODES,
        remedy="Ask for 2 or fewer, or add nodes.",
    ),
    Situation(
        "fragmentation",
        scattered(0, 2),
        ["needs 2 devices in one node; the most free in one is 1"],
        policy="fifo:skip=yes,placement=one_node",
        nodes=TWO_NODES,
        remedy="1 more device would have to be free in one node, or the policy place jobs on several.",
    ),
    Situation(
        "behind a higher priority",
        lambda s: (full(s), low := next_one(s), next_one(s, priority=5), low)[3],
        [NEEDS_1, "stands behind 1 job of higher priority (3)"],
        remedy="1 more device would have to be free.",
    ),
    Situation(
        "behind earlier jobs",
        waits({}, {}, gpus=2),
        [NEEDS_2, "stands behind 2 jobs submitted earlier (2 and 3)"],
    ),
    Situation(
        "behind the policy's order",
        waits({"work_s": 50.0}, {"work_s": 5.0, "gpus": 2}, gpus=2, work_s=9.0),
        [NEEDS_2, "stands behind 1 job submitted earlier (3)"],
        policy="srtf",
        given={"min_run_s": 1e6},
    ),
    Situation(
        "waiting for locality to relax",
        scattered(0, 1),
        [
            "waits for 2 devices closer together; 2 are free in all (locality is given up step by step)",
        ],
        policy="philly",
        nodes=TWO_NODES,
        remedy="Running jobs would have to leave devices that are close together.",
    ),
    Situation(
        "deadline infeasible",
        late,
        [NEEDS_1, "would end 13m 30s after its deadline, 2023-11-14 22:16:40 UTC"],
    ),
    Situation(
        "GPU type unavailable",
        lambda s: (full(s), next_one(s, gpu_types=["A100", "H100"]))[1],
        ["needs devices of type A100 or H100; the cluster has none"],
        remedy="Ask for another type, or wait for a node that has it.",
    ),
    Situation(
        "tenant over its share",
        over_its_share,
        [
            NEEDS_1,
            "belongs to tenant vision, which holds 3 devices and has a share of 2: "
            "tenants with less go first",
        ],
        policy="drf",
        nodes={"n1": 4},
    ),
    Situation(
        "behind a reservation",
        reserved,
        [
            "needs 1 device; 0 are free, the rest is reserved for job 2 (for another 1m 40s)",
            "stands behind 1 job submitted earlier (2)",
        ],
        policy="fifo:backfill=easy",
    ),
    Situation(
        "more host memory than any node has",
        waits({}, gpus=2, memory_gib=999.0),
        ["needs 999 GiB of host memory on one node; the largest node has 64"],
        policy="fifo",
        remedy="Ask for less, or add a node that has 999 GiB of host memory.",
    ),
    Situation(
        "drained node",
        drained(4),
        [
            "would fit if node n2 took new jobs: n2 was drained by u (new fans)",
            "needs 4 devices at once; the cluster has 2 it could use",
        ],
        nodes=TWO_NODES,
        remedy="Open node n2 again: `rota drain NODE --undo` ends a drain, `rota up` or `rota agent` brings "
        "back what is lost, and what a node reports is to be mended there.",
    ),
    Situation(
        "drained node beside busy ones",
        drained(2, busy=2),
        [NEEDS_2, "would fit if node n2 took new jobs: n2 was drained by u (new fans)"],
        nodes=TWO_NODES,
        remedy="2 more devices would have to be free.",
    ),
    Situation(
        "unhealthy device",
        unhealthy(2),
        [
            "would fit if device n1:1 was healthy: n1:1 reports Xid 79",
            "needs 2 devices at once; the cluster has 1 it could use",
        ],
        remedy="Repair device n1:1.",
    ),
    Situation(
        "unhealthy device beside busy ones",
        unhealthy(1, busy=1),
        [NEEDS_1, "would fit if device n1:1 was healthy: n1:1 reports Xid 79"],
    ),
    Situation(
        "dependency",
        after_two,
        ["waits for jobs 1 and 2 to complete"],
        remedy="Jobs 1 and 2 would have to complete.",
    ),
    Situation("after an array", after_an_array("any"), [TWO_OF_THREE]),
    Situation("after failures in an array", after_an_array("failed"), [TWO_OF_THREE]),
    Situation(
        "held",
        with_command("hold", running=False),
        ["is held by u"],
        remedy="Release it with `rota release 2`.",
    ),
    Situation(
        "suspended by a person",
        with_command("suspend", running=True),
        ["was suspended by u"],
        remedy="Let it go on with `rota resume 1`.",
    ),
    Situation(
        "not to begin yet",
        lambda s: (full(s), next_one(s, begin_s=EPOCH_S + 3600.0))[1],
        ["is not to begin before 2023-11-14 23:13:20 UTC, in 1h"],
        remedy="Let it begin earlier with `rota update 2 --begin none`.",
    ),
    Situation("one of an array at a time", array, ["only 1 job of its array may run at once"]),
    Situation(
        "shrunk to make room",
        shrunk,
        [
            "runs on 1 of the 2 devices it asked for, to make room for job 2",
            "was given 1 device by what they bring it; as fast as on 1: 2 times on 2",
        ],
        policy="afs",
        remedy="1 more device would have to be free.",
    ),
    Situation(
        "packed",
        packed,
        ["shares its devices with job 2: it may use 50 % of each"],
        remedy="Job 2 would have to end.",
    ),
    Situation("on trial", on_trial, ["is on trial on 1 device, for another 24s; then it gets 2 devices"]),
    Situation(
        "retry back-off",
        backing_off,
        ["is tried again in 1s: its shim was killed; try 2 of 4"],
    ),
    Situation(
        "preempted",
        preempted,
        [
            "gave up 2 devices to job 2, probably until 2023-11-14 22:14:27 UTC (in 1m)",
            NEEDS_2,
        ],
        policy="srtf",
        remedy="Job 2 would have to end.",
    ),
    Situation(
        "others have only just begun",
        just_begun,
        [
            "was to start, but was refused: job 1 has run for 20s of its minimum of 1m "
            "and would be preempted",
            NEEDS_2,
        ],
        policy="srtf",
        given={"min_run_s": 60.0},
    ),
    Situation(
        "others cannot be preempted",
        lambda s: (running(s, preemptible=False), next_one(s))[1],
        ["was to start, but was refused: job 1 would be preempted, and is not preemptible", NEEDS_1],
        policy="srtf",
    ),
    Situation("it runs", running, ["runs on the 2 devices it asked for"]),
    Situation("it has ended", ended, ["has ended: finished"]),
]


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.name)
def test_why(situation: Situation, tmp_path: Path) -> None:
    s = site(tmp_path, situation.policy, situation.nodes, **situation.given)
    s.with_tenants(situation.tenants)
    row = situation.make(s)
    why = s.why(row)
    assert [reason.sentence for reason in why.reasons] == situation.sentences
    if situation.remedy is not None:
        assert why.reasons[0].remedy == situation.remedy


def test_a_policy_that_is_deciding_does_not_silence_what_is_on_record(tmp_path: Path) -> None:
    """Who got the devices is told from the store; why it waits on, when the policy has time again."""
    s = site(tmp_path, "srtf")
    row = preempted(s)

    def busy(rows: list[int], timeout_s: float = 2.0) -> Any:
        raise Busy("policy srtf is computing a decision; ask again in a moment")

    s.scheduler.host.explain = busy  # type: ignore[union-attr, assignment]
    assert s.sentences(row) == [
        "gave up 2 devices to job 2, probably until 2023-11-14 22:14:27 UTC (in 1m)",
        "policy srtf is computing a decision; ask again in a moment",
    ]


def test_a_job_between_two_states_is_not_left_without_a_word(tmp_path: Path) -> None:
    """The record says that it waits, and the policy knows better already."""
    s = site(tmp_path)
    full(s)
    row = next_one(s)

    def nothing(rows: list[int], timeout_s: float = 2.0) -> dict[int, WhyAnswer]:
        return {row: WhyAnswer((), 1, []) for row in rows}

    s.scheduler.host.explain = nothing  # type: ignore[union-attr, method-assign]
    assert s.sentences(row) == ["is changing its state just now: ask again in a moment"]


def test_a_policy_in_trouble_comes_first(tmp_path: Path) -> None:
    s = site(tmp_path)
    full(s)
    row = next_one(s)
    s.scheduler.host.trouble = "policy x did not decide within 10 s"  # type: ignore[union-attr]
    assert s.sentences(row) == ["policy x did not decide within 10 s", NEEDS_1]


def test_without_an_estimate_the_basis_says_why(tmp_path: Path) -> None:
    s = site(tmp_path)
    full(s)
    row = next_one(s)

    def slow(question: object, budget_s: float) -> Any:
        raise Busy("another question is being answered; ask again in a moment")

    s.estimator.ask = slow
    why = s.why(row)
    assert (why.start_s, why.basis) == (
        None,
        "no estimate: another question is being answered; ask again in a moment",
    )
    assert [reason.sentence for reason in why.reasons] == [NEEDS_1]


@pytest.mark.parametrize(
    ("alone_s", "now_s", "sentence"),
    [
        (
            0.2,
            0.25,
            SHARES + ", at 80 % of the speed it would have alone",
        ),
        (None, 0.25, SHARES),
        (0.2, None, SHARES),
    ],
)
def test_a_packed_job_is_told_its_measured_speed(
    alone_s: float | None, now_s: float | None, sentence: str
) -> None:
    """Steps of its earlier attempt, which was alone, against those of the present one."""

    def attempt(number: int, share: float, step_s: float | None) -> Any:
        progress = {"steps": 5, "step_s": step_s}
        return SimpleNamespace(number=number, grant=[3, [0], share], progress=progress)

    store: Any = SimpleNamespace(attempts=lambda row: [attempt(1, 1.0, alone_s), attempt(2, 0.5, now_s)])
    asking = Asking(None, store, None, SimpleNamespace(row=3))  # type: ignore[arg-type]
    assumed = Constraint(Code.PACKED, 0.5, 0.5, "4")
    assert asking._measured(assumed, attempt(2, 0.5, now_s)).sentence() == sentence


def test_a_job_that_waits_for_others_to_leave_names_them(tmp_path: Path) -> None:
    """Job 2 has been given the devices, and job 1 is saving its state."""
    s = site(tmp_path, "srtf")
    row = s.submit(1000.0, gpus=2, time_s=1000.0)
    s.programs[row].leave_s = 30.0
    settle(s, row)
    heir = s.submit(60.0, gpus=2, time_s=60.0)
    s.until(heir, "RUNNING")
    assert s.sentences(heir) == ["has been given 2 devices, which job 1 leaves now"]


def test_a_job_that_waits_for_host_memory_is_told_what_its_agent_says(tmp_path: Path) -> None:
    """Job 1 was suspended and is put out: the devices that were its own are free; what lacks may change."""
    s = site(tmp_path)
    row = s.submit(60.0, gpus=2, memory_gib=40.0)
    settle(s, row)
    s.machines["n1"].is_up = False
    s.command("suspend", row)
    report = Report(row=row, attempt=1, status=PartStatus.SUSPENDED, since_s=EPOCH_S, suspended_gib=40.0)
    hear(s, report)
    heir = s.submit(60.0, gpus=2, memory_gib=40.0)
    s.until(heir, "RUNNING")
    hear(s, report.model_copy(update={"status": PartStatus.LEAVING}))
    assert s.why(heir).reasons[0].detail == ""
    for lacks in ("the port of the first node, n0, is not known yet", "job 1 is leaving host memory"):
        hear(s, Report(row=heir, attempt=1, status=PartStatus.WAITING, since_s=EPOCH_S, why=lacks))
        said = s.why(heir).reasons[0]
        assert (said.sentence, said.detail) == ("is being started on 2 devices", lacks)


def hear(s: AskedSite, report: Report) -> None:
    """The agent says so."""
    s.inbox.put(ReportTold("n1", SyncRequest(incarnation="n1", seen=0, controller="", reports=[report])))
    s.turn()


def test_a_job_that_can_never_run_stops_nobody(tmp_path: Path) -> None:
    """Under strict order, too: it is hidden from the policy, and from those that look ahead."""
    s = site(tmp_path, "fifo")
    full(s)
    large = next_one(s, gpus=1, cpus=99.0)
    behind = next_one(s, gpus=1)
    assert s.why(large).basis == "it could never run on this cluster"
    why = s.why(behind)
    assert [reason.sentence for reason in why.reasons] == [NEEDS_1]
    assert why.start_s is not None


def test_an_estimate_is_in_unix_time_and_says_its_basis(tmp_path: Path) -> None:
    s = site(tmp_path)
    full(s, 100.0)
    row = next_one(s)
    why = s.why(row)
    assert why.start_s == pytest.approx(EPOCH_S + 100.0, abs=6.0)
    assert why.basis == "simulated under fifo:skip=yes with the durations of 2 jobs: 2 from time limits"
    assert why.policy == "fifo:skip=yes"


def test_a_long_list_says_it_of_the_first(tmp_path: Path) -> None:
    """Not of nobody: with 51 waiting jobs the last column of `rota ls` was empty, and nothing said so."""
    s = site(tmp_path, "fifo:skip=yes")
    full(s)
    rows = [s.submit(10.0, gpus=2, time_s=10.0) for _ in range(MOST_REASONS + 1)]
    s.turn()
    jobs = [job_view(job, None, EPOCH_S, s.time.now) for row in rows if (job := s.store.job(row)) is not None]
    reasons = [job.reason for job in Answers(s.scheduler, s.store).with_reasons(jobs)]
    assert reasons == [*["Resources"] * MOST_REASONS, ""]
