"""Records for the tests of reports: built by hand from a few rows, or by a toy that queues by GPU count."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl

from rota.model.record import INTERVALS_SCHEMA, JOBS_SCHEMA, Record

Row = dict[str, Any]

_JOB = {
    "eligible_s": None,
    "tenant": "default",
    "group": "",
    "workload": "",
    "start_s": None,
    "finish_s": None,
    "state": "COMPLETED",
    "gpu_share": 1.0,
    "duration_s": None,
    "deadline_s": None,
    "run_s": 0.0,
    "waiting_s": 0.0,
    "service_gpu_s": 0.0,
    "overhead_s": 0.0,
    "lost_s": 0.0,
    "starts": 1,
    "preemptions": 0,
    "migrations": 0,
    "resizes": 0,
    "failures": 0,
    "wait_code": "",
    "wait_requested": None,
    "wait_provided": None,
    "why": "",
}


def record(
    jobs: Sequence[Row], intervals: Sequence[Row] = (), *, nodes: Sequence[int] = (8,), **facts: Any
) -> Record:
    """A record from rows; `devices` of an interval are numbered node by node, `nodes` follow from them."""
    node_of = np.repeat(np.arange(len(nodes)), nodes)
    job_rows = [{"job": i, "job_id": f"j{i}", **_JOB, **row} for i, row in enumerate(jobs)]
    interval_rows = []
    for row in intervals:
        devices = list(row["devices"])
        filled = {"job_id": f"j{row['job']}", "gpus": len(devices), "share": 1.0, "role": "alone"}
        filled |= {"nodes": [int(node_of[d]) for d in devices], "end": "finished"}
        interval_rows.append({**filled, **row, "devices": devices})
    cluster = {
        "gpus": int(sum(nodes)),
        "nodes": len(nodes),
        "describe": f"{len(nodes)}x{nodes[0]} ({sum(nodes)} GPUs in {len(nodes)} nodes)",
        "node_gpus": list(nodes),
        "node_names": [f"n{i}" for i in range(len(nodes))],
        "types": {"GPU": int(sum(nodes))},
    }
    values = {"policy": "fifo", "engine_seconds": 0.5, "decisions": len(jobs), **facts}
    return Record(
        jobs=pl.DataFrame(job_rows, schema=JOBS_SCHEMA),
        intervals=pl.DataFrame(interval_rows, schema=INTERVALS_SCHEMA),
        cluster=cluster,
        **values,
    )


def toy_trace(jobs: int, seed: int, span_s: float, mean_s: float, tenants: Sequence[str]) -> list[Row]:
    """Random jobs: Poisson arrivals, log-normal durations, mostly small."""
    rng = np.random.default_rng(seed)
    submit_s = np.sort(rng.uniform(0, span_s, jobs))
    duration_s = np.clip(rng.lognormal(np.log(mean_s) - 1.2, 1.6, jobs), 30, 8 * mean_s)
    gpus = rng.choice([1, 2, 4, 8, 16, 32], jobs, p=[0.55, 0.14, 0.14, 0.12, 0.04, 0.01])
    tenant = rng.choice(len(tenants), jobs, p=_falling(len(tenants)))
    return [
        {
            "submit_s": float(submit_s[i]),
            "duration_s": float(duration_s[i]),
            "gpus": int(gpus[i]),
            "tenant": tenants[tenant[i]],
        }
        for i in range(jobs)
    ]


def _falling(n: int) -> Any:
    weights = 1.0 / np.arange(1, n + 1)
    return weights / weights.sum()


def queue_by_count(
    trace: Sequence[Row],
    nodes: Sequence[int],
    *,
    policy: str = "fifo",
    key: Callable[[int], Any] = lambda row: row,
    backfill: bool = False,
    **facts: Any,
) -> Record:
    """Run `trace`: whenever something changes, start waiting jobs in `key` order while they fit."""
    free = set(range(int(sum(nodes))))
    waiting: list[tuple[Any, int]] = []
    running: list[tuple[float, int, list[int]]] = []
    jobs = [dict(row, starts=0) for row in trace]
    intervals: list[Row] = []
    order = list(range(len(jobs)))
    now, upcoming = 0.0, 0

    def start(row: int) -> None:
        gpus, length_s = jobs[row]["gpus"], jobs[row]["duration_s"]
        devices = sorted(free)[:gpus]
        free.difference_update(devices)
        end_s = now + length_s
        heapq.heappush(running, (end_s, row, devices))
        jobs[row] |= {"start_s": now, "finish_s": end_s, "run_s": length_s, "starts": 1}
        jobs[row] |= {"waiting_s": now - jobs[row]["submit_s"], "service_gpu_s": gpus * length_s}
        intervals.append({"job": row, "start_s": now, "end_s": end_s, "devices": devices})

    while upcoming < len(order) or running:
        arrival = jobs[upcoming]["submit_s"] if upcoming < len(order) else np.inf
        if running and running[0][0] <= arrival:
            now, _, devices = heapq.heappop(running)
            free.update(devices)
        else:
            now = arrival
            heapq.heappush(waiting, (key(upcoming), upcoming))
            upcoming += 1
        skipped = []
        while waiting and free:
            entry = heapq.heappop(waiting)
            if jobs[entry[1]]["gpus"] <= len(free):
                start(entry[1])
                continue
            skipped.append(entry)
            if not backfill or len(skipped) > 50:
                break
        for entry in skipped:
            heapq.heappush(waiting, entry)
    return record(jobs, intervals, nodes=nodes, policy=policy, **facts)


TENANTS = ("vision", "language", "speech/asr", "robotics")


def four_policies(
    jobs: int, nodes: Sequence[int], *, span_s: float, mean_s: float, seed: int = 7
) -> list[Record]:
    """Four toy policies over one random trace."""
    trace = toy_trace(jobs, seed, span_s, mean_s, TENANTS)
    facts = {"provenance": {"trace": "toy", "seed": seed, "version": "0.1.0"}}

    def run(name: str, backfill: bool, key: Callable[[int], Any] = lambda row: row) -> Record:
        return queue_by_count(trace, nodes, policy=name, key=key, backfill=backfill, **facts)

    return [
        run("fifo", False),
        run("fifo:backfill=greedy", True),
        run("sjf", True, lambda row: trace[row]["duration_s"]),
        run("smallest-first", True, lambda row: trace[row]["gpus"]),
    ]
