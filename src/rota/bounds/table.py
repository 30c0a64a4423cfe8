"""The record of jobs that each held something once, from their starts and ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from rota import __version__
from rota.model.cluster import Cluster
from rota.model.columns import Array, Bools, Floats, Ints
from rota.model.grants import LIMITS
from rota.model.jobs import JobTable, Outcome
from rota.model.record import INTERVALS_SCHEMA, JOBS_SCHEMA, Record, cluster_facts, eligible_s, known
from rota.model.trace import Trace


@dataclass(frozen=True)
class JobOutcomes:
    """The outcome of each job; NaN where it did not start, or did not end."""

    start_s: Floats
    finish_s: Floats
    until_s: Floats
    """When it gave back what it held: usually at its finish; NaN if it never held anything."""
    service_gpu_s: Floats
    rejected: Bools
    """Jobs refused at submission."""
    devices: Mapping[int, tuple[int, ...]] | None = None
    """Devices by row, where they are known."""


def record_of(
    name: str,
    trace: Trace,
    cluster: Cluster,
    outcomes: JobOutcomes,
    *,
    engine_seconds: float = 0.0,
    provenance: Mapping[str, object] | None = None,
    counts: Mapping[str, int] | None = None,
    observed: bool = False,
) -> Record:
    """The record of one stretch of running per job."""
    facts: dict[str, object] = {
        "rota": __version__,
        "policy": name,
        "trace": trace.source,
        "format": trace.format,
        "jobs": len(trace),
        **trace.calendar,
        "cluster": cluster.describe(),
    }
    return Record(
        policy=name,
        jobs=_jobs_table(trace, outcomes),
        intervals=_intervals_table(trace, cluster, outcomes),
        cluster=cluster_facts(cluster),
        engine_seconds=engine_seconds,
        decisions=0,
        provenance={**facts, **(provenance or {})},
        counts=counts or {},
        observed=observed,
    )


def _jobs_table(trace: Trace, outcomes: JobOutcomes) -> pl.DataFrame:
    jobs, n = trace.jobs, len(trace)
    started, ended = np.isfinite(outcomes.start_s), np.isfinite(outcomes.finish_s)
    tries, failed, lost_s = _attempts(trace)
    run_s = np.where(started, outcomes.until_s - outcomes.start_s, 0.0)
    gone_s = np.where(ended, outcomes.finish_s, np.maximum(_last_s(trace, outcomes), jobs.submit_s))
    unknown = np.full(n, np.nan)
    columns: dict[str, Any] = {
        "job": np.arange(n),
        "job_id": list(jobs.ids),
        **{name: _names(jobs, name) for name in ("tenant", "group", "workload")},
        "submit_s": jobs.submit_s,
        "eligible_s": eligible_s(jobs, trace.truth, outcomes.finish_s),
        "start_s": outcomes.start_s,
        "finish_s": np.where(outcomes.rejected, jobs.submit_s, outcomes.finish_s),
        "state": _states(trace, outcomes),
        "gpus": jobs.gpus,
        "gpu_share": jobs.gpu_share,
        "duration_s": trace.truth.duration_s,
        "deadline_s": jobs.deadline_s,
        "offered_s": unknown,
        "promised_s": unknown,
        "expected_s": unknown,
        "run_s": run_s,
        "waiting_s": np.where(outcomes.rejected, 0.0, np.maximum(gone_s - jobs.submit_s - run_s, 0.0)),
        "service_gpu_s": outcomes.service_gpu_s,
        "overhead_s": np.zeros(n),
        "lost_s": np.where(started, lost_s, 0.0),
        "starts": np.where(started, tries, 0),
        "preemptions": np.zeros(n, np.int64),
        "migrations": np.zeros(n, np.int64),
        "resizes": np.zeros(n, np.int64),
        "failures": np.where(started, failed, 0),
        "wait_code": [""] * n,
        "wait_requested": unknown,
        "wait_provided": unknown,
        "why": [""] * n,
    }
    return _table(columns, JOBS_SCHEMA)


def _last_s(trace: Trace, outcomes: JobOutcomes) -> float:
    """The moment of the last event."""
    moments = np.concatenate((trace.jobs.submit_s, outcomes.start_s, outcomes.finish_s))
    return float(np.nanmax(moments, initial=0.0))


def _states(trace: Trace, outcomes: JobOutcomes) -> Sequence[str]:
    ends = np.array([outcome.name for outcome in Outcome])[trace.truth.outcome]
    ends[trace.truth.outcome == Outcome.PREEMPTED] = Outcome.CANCELLED.name  # as in the simulated world
    still = np.where(np.isfinite(outcomes.start_s), "RUNNING", "PENDING")
    words = np.where(np.isfinite(outcomes.finish_s), ends, still)
    states: list[str] = np.where(outcomes.rejected, "REJECTED", words).tolist()
    return states


def _attempts(trace: Trace) -> tuple[Ints, Ints, Floats]:
    """Attempts of each job, the number that failed, and the seconds of those that were tried again."""
    tries = np.ones(len(trace), np.int64)
    lost_s = np.zeros(len(trace))
    for row, runs in trace.truth.failures.items():
        tries[row] += len(runs)
        lost_s[row] += sum(runs)
    return tries, tries - (trace.truth.outcome != Outcome.FAILED), lost_s


def _names(jobs: JobTable, column: str) -> pl.Series:
    """Names behind the codes of `column`; empty where there is none."""
    codes: Array = getattr(jobs, column)
    names: tuple[str, ...] = getattr(jobs, f"{column}_names")
    table = pl.Series([*names, ""], dtype=pl.String)
    is_named = (codes >= 0) & (codes < len(names))
    return table[np.where(is_named, codes, len(names)).astype(np.uint32)]


_END = {"COMPLETED": "finished", "FAILED": "failed", "CANCELLED": "cancelled", "RUNNING": "running"}


def _intervals_table(trace: Trace, cluster: Cluster, outcomes: JobOutcomes) -> pl.DataFrame:
    """One interval per job that ran; the share spreads its GPU-seconds evenly over it."""
    jobs, placed = trace.jobs, outcomes.devices or {}
    rows = np.flatnonzero(outcomes.start_s < outcomes.until_s)
    start_s, end_s, gpus = outcomes.start_s[rows], outcomes.until_s[rows], jobs.gpus[rows]
    gpu_s = gpus * (end_s - start_s)
    share = np.divide(outcomes.service_gpu_s[rows], gpu_s, out=np.ones(len(rows)), where=gpu_s > 0)
    devices = [placed.get(row, ()) for row in rows.tolist()]
    states = np.asarray(_states(trace, outcomes))[rows].tolist()
    columns: dict[str, Any] = {
        "job": rows,
        "job_id": [jobs.ids[row] for row in rows.tolist()],
        "start_s": start_s,
        "end_s": end_s,
        "gpus": gpus,
        "share": share,
        "role": ["alone"] * len(rows),
        "nodes": [[int(cluster.device_node[device]) for device in held] for held in devices],
        "devices": [list(held) for held in devices],
        "end": [_END[state] for state in states],
        **{name: np.full(len(rows), np.nan) for name in LIMITS},
        "batch_size": jobs.batch_size[rows],
        "work": np.full(len(rows), np.nan),
    }
    return _table(columns, INTERVALS_SCHEMA)


def _table(columns: Mapping[str, Any], schema: Mapping[str, Any]) -> pl.DataFrame:
    """The columns, with null where a number is NaN."""
    numbers = {name: known(column) for name, column in columns.items() if schema[name] == pl.Float64}
    return pl.DataFrame({**columns, **numbers}, schema=schema)
