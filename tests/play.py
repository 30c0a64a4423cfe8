"""A tiny language for scheduler tests: jobs on one line, what became of them on another.

`A 4x10 B 2x30@5` is job A with 4 GPUs for 10 s at time 0 and B with 2 GPUs for 30 s at time 5.
"""

from __future__ import annotations

import re
from typing import Any

import polars as pl

from rota.model.cluster import Cluster, parse_cluster
from rota.model.job_columns import EVEN
from rota.model.jobs import JobTable, PlainJob, Truth
from rota.model.record import Record
from rota.model.trace import Trace
from rota.worlds.simulated.run import Setting, run

_JOB = re.compile(r"(\w+) (\d+)x([\d.]+)(?:@([\d.]+))?")


def job(name: str, **columns: Any) -> PlainJob:
    """What a live job named so asks for: one GPU, or as `columns` say."""
    values: dict[str, Any] = {
        column.name: 0 if column.default in (None, "gpus") else column.default for column in EVEN
    }
    values |= {"gpus": 1, "tenant": "default", "group": "", "workload": "", "node_set": ""} | columns
    values |= {key: columns.get(key, values["gpus"]) for key in ("gpus_min", "gpus_max")}
    return PlainJob(id=name, row=values.pop("row", -1), **values)


def trace_of(text: str, **columns: Any) -> Trace:
    """The jobs of `text` as a trace, sorted by submission; `columns` go to the job table."""
    jobs = [(m[1], int(m[2]), float(m[3]), float(m[4] or 0)) for m in _JOB.finditer(text)]
    assert jobs, f"no jobs in {text!r}"
    ids, gpus, durations, submits = zip(*jobs, strict=True)
    table = JobTable.build(ids, submit_s=submits, gpus=gpus, **columns)
    return Trace(table, Truth.build(durations), source="test", format="test").by_submission()


def play(
    policy: Any, jobs: str | Trace, cluster: str | Cluster = "1x4", setting: Setting | None = None
) -> Record:
    """Run `jobs` on `cluster` under `policy`."""
    trace = trace_of(jobs) if isinstance(jobs, str) else jobs
    where = parse_cluster(cluster) if isinstance(cluster, str) else cluster
    return run(policy, trace, where, setting)


def finishes(record: Record) -> dict[str, float]:
    """Finish of each job, by id."""
    return dict(zip(record.jobs["job_id"], record.jobs["finish_s"], strict=True))


def starts(record: Record) -> dict[str, float]:
    """First start of each job, by id."""
    return dict(zip(record.jobs["job_id"], record.jobs["start_s"], strict=True))


def jcts(record: Record) -> dict[str, float]:
    """Completion time of each job, by id."""
    frame = record.jobs.with_columns((pl.col("finish_s") - pl.col("submit_s")).alias("jct"))
    return dict(zip(frame["job_id"], frame["jct"], strict=True))
