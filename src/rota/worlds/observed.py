"""What really happened, as a record: the starts and ends a trace recorded, without simulating anything."""

from __future__ import annotations

import numpy as np
import polars as pl

from rota import __version__
from rota.model.cluster import Cluster
from rota.model.columns import Array, Bools, Floats
from rota.model.jobs import Outcome
from rota.model.record import INTERVALS_SCHEMA, JOBS_SCHEMA, Record, cluster_facts
from rota.model.trace import Trace

NAME = "observed"


def has_observed(trace: Trace) -> bool:
    """Whether the trace recorded when at least one job started."""
    return trace.observed is not None and bool(np.isfinite(trace.observed.start_s).any())


def observed_record(trace: Trace, cluster: Cluster) -> Record:
    """The record of the real run, as far as `trace` knows it.

    A job holds what it asked for from its recorded start for as long as it ran, in one stretch: traces
    record neither the pauses between attempts nor, as a rule, the devices, so `nodes` and `devices` of the
    intervals are empty.  Raises ValueError if the trace recorded no start.
    """
    if trace.observed is None or not has_observed(trace):
        raise ValueError(f"{trace.source} records no starts")
    start_s, end_s = trace.observed.start_s, trace.observed.end_s
    held_until_s = _held_until(trace, start_s, end_s)
    run_s = np.nan_to_num(held_until_s - start_s)
    return Record(
        policy=NAME,
        jobs=_jobs(trace, start_s, end_s, run_s),
        intervals=_intervals(trace, start_s, held_until_s),
        cluster=cluster_facts(cluster),
        engine_seconds=0.0,
        decisions=0,
        provenance={
            "rota": __version__,
            "policy": NAME,
            "trace": trace.source,
            "format": trace.format,
            "jobs": len(trace),
            "cluster": cluster.describe(),
            "placement": "not recorded: jobs are counted, not placed",
        },
        observed=True,
    )


def _held_until(trace: Trace, start_s: Floats, end_s: Floats) -> Floats:
    """When each job stopped holding devices: at its end, or earlier if it ran less than it was there."""
    run_s = trace.truth.run_s()
    ran_until_s = np.where(np.isfinite(run_s) & (run_s > 0), start_s + run_s, end_s)
    return np.fmax(np.fmin(end_s, ran_until_s), start_s)


def _states(trace: Trace, start_s: Floats, end_s: Floats) -> list[str]:
    """Names of `Phase` as a simulated record has them."""
    ended = [Outcome(code).name for code in trace.truth.outcome.tolist()]
    open_state = np.where(np.isfinite(start_s), "RUNNING", "PENDING").tolist()
    return [
        name if is_over else still
        for name, still, is_over in zip(ended, open_state, np.isfinite(end_s).tolist(), strict=True)
    ]


def _jobs(trace: Trace, start_s: Floats, end_s: Floats, run_s: Floats) -> pl.DataFrame:
    jobs, n = trace.jobs, len(trace)
    last_s = float(np.nanmax(np.where(np.isfinite(end_s), end_s, start_s)))
    waiting_s = np.where(np.isfinite(end_s), end_s, last_s) - jobs.submit_s - run_s
    columns: dict[str, object] = dict.fromkeys(JOBS_SCHEMA, np.zeros(n))
    columns |= {
        "job": np.arange(n),
        "job_id": list(jobs.ids),
        **{name: _names(trace, name) for name in ("tenant", "group", "workload")},
        "submit_s": jobs.submit_s,
        "start_s": start_s,
        "finish_s": end_s,
        "state": _states(trace, start_s, end_s),
        "gpus": jobs.gpus,
        "gpu_share": jobs.gpu_share,
        "duration_s": trace.truth.duration_s,
        "deadline_s": jobs.deadline_s,
        "run_s": run_s,
        "waiting_s": np.maximum(waiting_s, 0.0),
        "service_gpu_s": run_s * jobs.gpus * jobs.gpu_share,
        "starts": np.isfinite(start_s).astype(np.int64),
        "failures": _failures(trace),
        "wait_code": [""] * n,
        "wait_requested": np.full(n, np.nan),
        "wait_provided": np.full(n, np.nan),
    }
    frame = pl.DataFrame({name: columns[name] for name in JOBS_SCHEMA}).cast(JOBS_SCHEMA)  # type: ignore[arg-type]
    return frame.with_columns(pl.selectors.float().fill_nan(None))


def _names(trace: Trace, column: str) -> list[str]:
    return [trace.jobs.name_of(column, row) for row in range(len(trace))]


def _failures(trace: Trace) -> Array:
    counts = np.zeros(len(trace), dtype=np.int64)
    for row, runs in trace.truth.failures.items():
        counts[row] = len(runs)
    return counts


def _intervals(trace: Trace, start_s: Floats, until_s: Floats) -> pl.DataFrame:
    jobs = trace.jobs
    held: Bools = np.isfinite(start_s) & np.isfinite(until_s) & (until_s > start_s)
    rows = np.flatnonzero(held)
    nothing = pl.Series([[]] * len(rows), dtype=pl.List(pl.Int64))
    columns = {
        "job": rows,
        "job_id": [jobs.ids[row] for row in rows.tolist()],
        "start_s": start_s[rows],
        "end_s": until_s[rows],
        "gpus": jobs.gpus[rows],
        "share": jobs.gpu_share[rows],
        "role": ["alone"] * len(rows),
        "nodes": nothing,
        "devices": nothing,
        "end": ["finished"] * len(rows),
    }
    return pl.DataFrame(columns).cast(INTERVALS_SCHEMA)  # type: ignore[arg-type]
