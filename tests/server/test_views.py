"""Rows of the store as people see them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rota.model.grants import Grant
from rota.scheduler.moments.packing import pack_grant
from rota.server.records import JobRecords
from rota.server.scheduler_view import SchedulerView
from rota.server.store.new_jobs import asked
from rota.server.store.rows import AttemptRow, EventRow, JobRow, JobState, NodeRow
from rota.server.views import attempt_view, event_view, is_over, job_view, node_view, size_views
from rota.wire.job import JobSpec
from rota.wire.sync import DeviceInfo, NodeInfo

EPOCH = 1_000_000.0


class Still:
    """A clock that stands."""

    epoch_unix_s = EPOCH

    def __call__(self) -> float:
        return 130.0


def job(spec: dict[str, Any] | None = None, **now: Any) -> JobRow:
    full = JobSpec(command=["work"], **(spec or {}))
    return JobRow(4, "5", "ann", 100.0, None, None, 0, asked(full, "ann", "vision", EPOCH), JobState(**now))


def attempt(*places: tuple[str, list[int], float], share: float = 1.0, **fields: Any) -> AttemptRow:
    plain = [
        {"name": name, "devices": devices, "ranks": [], "suspended_gib": gib, "end": None}
        for name, devices, gib in places
    ]
    return AttemptRow(
        4, 1, "running", pack_grant(Grant(4, (0,), share)), {"places": plain}, "run", 110.0, **fields
    )


def node(kind: str = "nvidia", count: int = 2, **fields: Any) -> NodeRow:
    devices = [DeviceInfo(index=i, type="A100") for i in range(count)]
    info = NodeInfo(name="n0", address="a", cpus=8, memory_gib=64, boot_id="b", devices=devices, kind=kind)
    return NodeRow(**{"position": 0, "name": "n0", "info": info, "state": "up", "first_device": 0,
                      "joined_s": 0.0, **fields})  # fmt: skip


def test_a_job_that_waits() -> None:
    view = job_view(job({"gpus": 2, "deadline_s": EPOCH + 900, "time_s": 60}), None, EPOCH, 130.0)
    assert (view.id, view.state, view.gpus, view.gpus_now, view.devices) == ("5", "PENDING", 2, 0, [])
    assert (view.submit_s, view.start_s, view.end_s, view.since_s) == (EPOCH + 100, None, None, None)
    assert (view.waiting_s, view.run_s, view.time_s) == (30.0, 0.0, 60.0)
    assert (view.deadline_s, view.tenant, view.share) == (EPOCH + 900, "vision", 1.0)


def test_a_job_that_runs() -> None:
    now = {"state": "RUNNING", "phase": 3, "first_start_s": 110.0, "since_s": 120.0, "run_s": 5.0}
    view = job_view(job(**now), attempt(("n0", [1], 0.0), ("n1", [0, 3], 0.0), share=0.5), EPOCH, 130.0)
    assert (view.run_s, view.waiting_s, view.since_s) == (15.0, 15.0, EPOCH + 120)
    assert (view.gpus_now, view.nodes, view.devices) == (3, ["n0", "n1"], ["n0:1", "n1:0", "n1:3"])
    assert view.share == 0.5


@pytest.mark.parametrize("shown", [None, 1, 2], ids=["nothing", "the one before", "this one"])
def test_a_job_that_runs_is_somewhere(shown: int | None) -> None:
    """A decision is on record before it is shown: what is missing there is read from the store."""
    before, newest = attempt(("n0", [1], 0.0)), replace(attempt(("n1", [0], 0.0)), number=2)
    view = SchedulerView()
    if shown is not None:
        view.holding[4] = {1: before, 2: newest}[shown]
    store = SimpleNamespace(attempts=lambda row: [before, newest] if row == 4 else [])
    records = JobRecords(cast("Any", store), view, cast("Any", Still()), cast("Any", None))
    runs, waits = job(state="RUNNING", phase=3, since_s=120.0, attempt=2), job(attempt=2)
    assert [view.devices for view in records.views([runs, waits])] == [["n1:0"], []]


def test_a_job_that_has_ended() -> None:
    row = job(
        state="FAILED", phase=5, first_start_s=110.0, run_s=20.0, finish_s=140.0, exit_code=3, attempt=2
    )
    view = job_view(row, attempt(("n0", [1], 0.0)), EPOCH, 9999.0)
    assert (view.end_s, view.run_s, view.waiting_s, view.exit_code) == (EPOCH + 140, 20.0, 20.0, 3)
    assert view.devices == [], "it holds nothing any more"


def test_a_job_that_was_made_to_end_did_not_wait_while_its_processes_left() -> None:
    row = job(state="TIMEOUT", phase=5, run_s=20.0, finish_s=140.0, measured={"leaving_s": 12.0})
    view = job_view(row, None, EPOCH, 9999.0)
    assert (view.end_s, view.run_s, view.waiting_s) == (EPOCH + 140, 20.0, 8.0)


def test_waiting_is_never_negative() -> None:
    """Clocks of two moments may differ by a little."""
    now = {"state": "RUNNING", "phase": 3, "since_s": 99.0}
    assert job_view(job(**now), None, EPOCH, 101.0).waiting_s == 0.0


@pytest.mark.parametrize(
    ("state", "over"),
    [("PENDING", False), ("RUNNING", False), ("SUSPENDED", False), ("COMPLETING", False)]
    + [
        (state, True)
        for state in ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY")
    ],
)
def test_states_of_jobs_that_are_over(state: str, over: bool) -> None:
    assert is_over(state) is over


def test_an_attempt() -> None:
    row = attempt(
        ("n0", [0, 1], 0.0),
        start_s=112.0,
        end_s=115.0,
        how="failed",
        exit={"code": None, "signal": 9},
        progress={"steps": 7},
        usage={"at_s": 1.0, "cpu_cores": 2.0},
        costs={"start": 0.5},
    )
    view = attempt_view(row, EPOCH)
    assert (view.devices, view.wanted_s, view.start_s, view.end_s) == (
        ["n0:0", "n0:1"], EPOCH + 110, EPOCH + 112, EPOCH + 115,
    )  # fmt: skip
    assert (view.end, view.signal, view.exit_code, view.costs) == ("failed", 9, None, {"start": 0.5})
    assert view.progress is not None
    assert view.progress.steps == 7
    bare = attempt_view(attempt(("n0", [], 0.0)), EPOCH)
    assert (bare.exit_code, bare.start_s, bare.progress, bare.usage, bare.devices) == (None,) * 4 + ([],)


def test_a_node_with_what_is_on_it() -> None:
    packed = {"15": attempt(("n0", [1], 0.0), share=0.5, usage={"at_s": 1, "gpu_utilisation": 0.9})}
    packed["16"] = attempt(("n0", [1], 0.0), ("n1", [0], 0.0), share=0.25)
    held = {"17": attempt(("n0", [0], 2.5), ("n1", [0], 99.0))}
    view = node_view(node(), packed, held, 50.0, EPOCH)
    assert (view.gpus, view.gpus_used, view.suspended_gib, view.seen_s) == (2, 0.75, 2.5, EPOCH + 50)
    assert [one.jobs for one in view.devices] == [[], ["15", "16"]]
    assert [one.suspended for one in view.devices] == [["17"], []]
    assert view.devices[1].utilisation == 0.9, "what one said is not lost when another says nothing"


def test_memory_on_a_device_is_that_of_all_jobs_on_it() -> None:
    """Each tells what it holds of all its devices there."""
    jobs = {
        "15": attempt(("n0", [0, 1], 0.0), usage={"at_s": 1, "gpu_memory_gib": 60.0}),
        "16": attempt(("n0", [1], 0.0), usage={"at_s": 1, "gpu_memory_gib": 5.0}),
        "17": attempt(("n0", [2], 0.0), usage={"at_s": 1}),
    }
    devices = node_view(node(count=3), jobs, {}, 50.0, EPOCH).devices
    assert [one.memory_used_gib for one in devices] == [30.0, 35.0, None]


def test_what_jobs_obtain_of_cpu_slots() -> None:
    """Cores per slot, of all jobs on it; a slot of which nobody has said anything says nothing."""
    jobs = {
        "15": attempt(("n0", [0, 1], 0.0), usage={"at_s": 1, "cpu_cores": 0.5}),
        "16": attempt(("n0", [1], 0.0), usage={"at_s": 1, "cpu_cores": 0.5}),
        "17": attempt(("n0", [2], 0.0)),
    }
    slots = node_view(node(kind="cpu", count=3), jobs, {}, 50.0, EPOCH).devices
    assert [one.utilisation for one in slots] == [0.25, 0.75, None]


@pytest.mark.parametrize(
    ("state", "busy", "shown"),
    [
        ("up", True, "up"),
        ("drained", True, "draining"),
        ("drained", False, "drained"),
        ("lost", False, "lost"),
    ],
)
def test_states_of_nodes(state: str, busy: bool, shown: str) -> None:
    jobs = {"15": attempt(("n0", [1], 0.0))} if busy else {}
    view = node_view(node(state=state, reason="dust"), jobs, {}, None, EPOCH)
    assert (view.state, view.reason, view.seen_s) == (shown, "dust", None)


def test_a_line_of_the_audit() -> None:
    view = event_view(EventRow(3.0, "ann", "drain", "", "dust", 7), EPOCH)
    assert (view.seq, view.at_s, view.who, view.kind, view.text) == (7, EPOCH + 3, "ann", "drain", "dust")


@pytest.mark.parametrize(
    ("asked_for", "counts", "why"),
    [
        ({"gpus": 2, "gpus_min": 1, "gpus_max": 4}, [1, 2, 3, 4], "all of a short range"),
        ({"gpus": 2}, [1, 2], "its one size, beside the one on which it was seen"),
        ({"gpus": 2, "gpus_min": 1, "gpus_max": 4, "counts": "powers of two"}, [1, 2, 4], "those it can use"),
        ({"gpus": 6, "gpus_min": 2, "gpus_max": 6, "gpus_step": 2}, [1, 2, 4, 6], "in its steps"),
        ({"gpus": 9, "gpus_min": 1, "gpus_max": 20}, [1, 2, 4, 8, 9, 16, 20], "of a long range some"),
    ],
)
def test_sizes_on_which_a_job_would_be_as_fast(
    asked_for: dict[str, Any], counts: list[int], why: str
) -> None:
    """Measured on one GPU; nodes have four."""
    spec = JobSpec(command=["work"], batch_size=64, **asked_for)
    seen = {"utilisation": 1.0, "looked_s": 0.0, "speeds": [["A100", 1, 1, 64.0, 100.0]], "noise": None}
    views = size_views(spec, {"observed": seen}, [node(count=4)])
    assert [view.gpus for view in views] == counts, why
    assert [view.nodes for view in views] == [-(-count // 4) for count in counts]
    assert [view.provenance for view in views] == ["measured", *["predicted"] * (len(counts) - 1)]


def test_nobody_knows_how_fast_a_job_is_that_has_not_run() -> None:
    assert size_views(JobSpec(command=["work"]), {}, []) == []
