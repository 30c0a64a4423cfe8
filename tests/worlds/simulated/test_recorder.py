"""The two tables a run leaves behind, worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from play import play, trace_of
from rota.model.grants import LIMITS, Grant
from rota.model.record import INTERVALS_SCHEMA, JOBS_SCHEMA
from rota.worlds.simulated.costs import Costs
from rota.worlds.simulated.faults import Fault
from rota.worlds.simulated.run import Setting
from scripted import Scripted

# A runs 0-3, gives way to the shorter B 3-5, returns 5-12; C never fits; D is held until B has ended.
TRACE = trace_of(
    "A 4x10 B 4x2@3 C 9x1@4 D 1x1@4",
    tenant_names=("vision", "speech"), tenant=[0, 1, 0, 1], workload_names=("bert",), workload=[0, -1, -1, 0],
    group_names=("g",), group=[-1, 0, -1, -1], after={3: (1,)}, deadline_s=[float("nan"), 9.0, 5.0, 6.0],
)  # fmt: skip


def test_the_table_of_jobs() -> None:
    jobs = play("srtf", TRACE).jobs
    assert dict(jobs.schema) == {name: jobs.schema[name] for name in JOBS_SCHEMA}
    expected: dict[str, list[Any]] = {
        "job_id": ["A", "B", "C", "D"],
        "tenant": ["vision", "speech", "vision", "speech"],
        "workload": ["bert", "", "", "bert"],
        "group": ["", "g", "", ""],
        "state": ["COMPLETED", "COMPLETED", "REJECTED", "COMPLETED"],
        "start_s": [0.0, 3.0, None, 5.0],
        "finish_s": [13.0, 5.0, 4.0, 6.0],
        "deadline_s": [None, 9.0, 5.0, 6.0],
        "run_s": [10.0, 2.0, 0.0, 1.0],
        "waiting_s": [3.0, 0.0, 0.0, 1.0],
        "service_gpu_s": [40.0, 8.0, 0.0, 1.0],
        "starts": [2, 1, 0, 1],
        "preemptions": [1, 0, 0, 0],
        "migrations": [0, 0, 0, 0],
        "wait_code": ["", "", "", ""],
    }
    assert {name: jobs[name].to_list() for name in expected} == expected


def test_the_table_of_intervals() -> None:
    intervals = play("srtf", TRACE).intervals
    assert list(intervals.schema) == list(INTERVALS_SCHEMA)
    rows = [
        (r["job_id"], r["start_s"], r["end_s"], r["devices"], r["end"])
        for r in intervals.iter_rows(named=True)
    ]
    assert rows == [
        ("A", 0.0, 3.0, [0, 1, 2, 3], "preempted"),
        ("B", 3.0, 5.0, [0, 1, 2, 3], "finished"),
        ("D", 5.0, 6.0, [0], "finished"),
        ("A", 6.0, 13.0, [0, 1, 2, 3], "finished"),
    ]


def test_the_record_tells_how_devices_were_held_over_time() -> None:
    """A asks for batches of 32, is granted others, and at last as it asked; B says nothing, and chooses."""
    trace = trace_of("A 1x40 B 1x40 C 8x1@10 D 8x1@20", batch_size=[32.0, float("nan"), 1.0, 1.0])
    policy = Scripted(
        {"grants": [Grant(0, (0,)), Grant(1, (1,), cpus=2.0, memory_gib=3.0, gpu_memory_gib=4.0)]},
        {"grants": [Grant(0, (0,), batch_size=64.0, power_limit_w=150.0)]},
        {"grants": [Grant(0, (0,))]},
    )
    intervals = play(policy, trace, "1x4", Setting(until_s=30.0)).intervals
    columns = ("job_id", "start_s", "end", *LIMITS)
    assert intervals.sort("job_id", "start_s").select(columns).rows() == [
        ("A", 0.0, "adjusted", 32.0, None, None, None, None),
        ("A", 10.0, "adjusted", 64.0, None, None, None, 150.0),
        ("A", 20.0, "running", 32.0, None, None, None, None),
        ("B", 0.0, "running", None, 2.0, 3.0, 4.0, None),
    ]


def test_a_run_that_is_cut_records_what_is_held_and_what_waits() -> None:
    record = play("fifo", "A 4x10 B 1x5@1", "1x4", Setting(until_s=4.0))
    assert record.jobs["state"].to_list() == ["RUNNING", "PENDING"]
    assert record.jobs["finish_s"].to_list() == [None, None]
    assert record.jobs["run_s"].to_list() == [4.0, 0.0]
    assert record.intervals["end"].to_list() == ["running"]
    assert record.jobs["wait_code"].to_list() == ["", "Resources"]


@pytest.mark.parametrize(
    ("setting", "ends"),
    [
        (Setting(faults=[Fault(0, 4.0, 6.0)], costs=Costs(checkpoint_every_s=3.0)), ["lost", "finished"]),
        (Setting(), ["finished"]),
    ],
)
def test_why_an_interval_ended(setting: Setting, ends: list[str]) -> None:
    assert play("fifo", "A 4x10", "1x4", setting).intervals["end"].to_list() == ends


def test_cpu_jobs_hold_a_node_and_no_device() -> None:
    record = play("fifo", "A 0x5 B 4x5", "1x4")
    row = record.intervals.row(0, named=True)
    assert (row["job_id"], row["gpus"], row["devices"], row["nodes"]) == ("A", 0, [], [])
    assert record.jobs["service_gpu_s"].to_list() == [0.0, 20.0]


def test_the_record_knows_where_it_comes_from() -> None:
    record = play("fifo:skip=yes", "A 4x10", "1x4")
    assert record.policy == "fifo:skip=yes"
    assert record.decisions > 0
    assert record.cluster["describe"] == "1x4 (4 GPUs in 1 node)"
    assert record.provenance["jobs"] == 1
    assert record.provenance["semantics"] == "exact"
