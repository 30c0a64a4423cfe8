"""The two tidy tables of a simulated run, made from what its recorder has collected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from rota.model.cluster import Cluster
from rota.model.columns import Array, Bools, Floats, Ints
from rota.model.feasible import refusals
from rota.model.grants import Role
from rota.model.record import INTERVALS_SCHEMA, JOBS_SCHEMA, Record, cluster_facts, eligible_s, known
from rota.model.trace import Trace
from rota.scheduler.loop import Loop
from rota.scheduler.world import How, World
from rota.table.state import Phase
from rota.worlds.simulated.autoscale import ScaledWorld
from rota.worlds.simulated.interval_columns import HOW_ENDED, NO_INTERVALS, IntervalColumns
from rota.worlds.simulated.recorder import RunRecorder


def make_record(
    name: str,
    loop: Loop,
    recorder: RunRecorder,
    trace: Trace,
    engine_seconds: float,
    provenance: Mapping[str, object],
) -> Record:
    """The record of a finished run."""
    recorder.book.fold(recorder.intervals)
    counts = {
        "events": loop.counts.events,
        "decisions": loop.counts.decisions,
        "refused": loop.counts.refused,
    }
    return Record(
        policy=name,
        jobs=_jobs_table(loop, recorder, trace),
        intervals=_intervals_table(recorder, trace, loop.state.cluster, _work(recorder, loop, trace)),
        cluster=cluster_facts(loop.state.cluster) | _paid(loop.world),
        engine_seconds=engine_seconds,
        decisions=loop.counts.decisions,
        provenance=provenance,
        counts=counts,
    )


def _paid(world: World) -> dict[str, object]:
    """Moments and nodes paid for from then on, where a cluster grew and shrank."""
    return {"paid_nodes": [list(step) for step in world.paid]} if isinstance(world, ScaledWorld) else {}


_ROLES = pl.Series([role.name.lower() for role in Role], dtype=pl.String)
_HOWS = pl.Series(HOW_ENDED, dtype=pl.String)
_NULLABLE = [
    "eligible_s",
    "start_s",
    "finish_s",
    "duration_s",
    "deadline_s",
    "offered_s",
    "promised_s",
    "expected_s",
    "wait_requested",
    "wait_provided",
]


def _jobs_table(loop: Loop, recorder: RunRecorder, trace: Trace) -> pl.DataFrame:
    state, jobs, n = loop.state, trace.jobs, len(trace)
    alone_s: Floats | None = getattr(getattr(loop.world, "speed", None), "alone_s", None)
    failed_for_good = state.phase == Phase.FAILED
    sums = _sums(recorder, n, failed_for_good)
    finish = np.full(n, np.nan)
    if recorder.ends:
        rows, moments = zip(*recorder.ends, strict=True)
        finish[list(rows)] = moments
    absent = (state.phase == Phase.ABSENT) | (state.phase == Phase.HELD)
    phase = np.where(absent, Phase.PENDING, state.phase)
    end = np.where(np.isnan(finish), state.now, finish)
    reasons = recorder.reasons
    codes, requested, provided = [""] * n, np.full(n, np.nan), np.full(n, np.nan)
    for row, reason in reasons.items():
        codes[row], requested[row], provided[row] = str(reason.code), reason.requested, reason.provided
    columns: dict[str, Any] = {
        "job": np.arange(n),
        "job_id": list(jobs.ids),
        "tenant": _names(jobs.tenant, jobs.tenant_names),
        "group": _names(jobs.group, jobs.group_names),
        "workload": _names(jobs.workload, jobs.workload_names),
        "submit_s": jobs.submit_s,
        "eligible_s": eligible_s(jobs, trace.truth, finish),
        "start_s": state.first_start_s,
        "finish_s": finish,
        "state": _names(phase, tuple(p.name for p in Phase)),
        "gpus": jobs.gpus,
        "gpu_share": jobs.gpu_share,
        "duration_s": trace.truth.duration_s if alone_s is None else alone_s,
        "deadline_s": jobs.deadline_s,
        "offered_s": _moments({row: offers[-1].deadline_s for row, offers in recorder.offers.items()}, n),
        "promised_s": _moments({row: promise.due_s for row, promise in recorder.promises.items()}, n),
        "expected_s": _moments({row: promise.expected_s for row, promise in recorder.promises.items()}, n),
        "run_s": sums["run_s"],
        "waiting_s": np.maximum(end - jobs.submit_s - sums["run_s"], 0.0),
        "service_gpu_s": sums["service_gpu_s"],
        "overhead_s": sums["overhead_s"],
        "lost_s": sums["lost_s"],
        "starts": state.starts,
        "preemptions": state.preemptions,
        "migrations": sums["migrations"].astype(np.int64),
        "resizes": sums["resizes"].astype(np.int64),
        "failures": state.failures,
        "wait_code": codes,
        "wait_requested": requested,
        "wait_provided": provided,
        "why": _whys(loop, recorder, n),
    }
    columns |= {name: known(columns[name]) for name in _NULLABLE}
    return pl.DataFrame(columns, schema=JOBS_SCHEMA)


def _whys(loop: Loop, recorder: RunRecorder, n: int) -> list[str]:
    """Why jobs were refused, or ended by policy or limit, and what jobs left waiting first waited for."""
    state = loop.state
    refused = np.flatnonzero(state.phase == Phase.REJECTED).tolist()
    silent = [row for row in refused if row not in recorder.whys]
    timed_out: Mapping[int, str] = getattr(loop.world, "timed_out", {})
    said = {**refusals(state.jobs, state.cluster, silent), **recorder.whys, **timed_out}
    for row in np.flatnonzero(state.phase == Phase.PENDING).tolist():
        reason = loop.said[row] if row in loop.said else recorder.reasons.get(row)
        if reason is not None:
            said[row] = reason.sentence()
    return [said.get(row, "") for row in range(n)]


def _moments(by_row: Mapping[int, float], rows: int) -> Floats:
    """A column with a moment for some rows, NaN for the others."""
    moments = np.full(rows, np.nan)
    moments[list(by_row)] = list(by_row.values())
    return moments


def _sums(recorder: RunRecorder, n: int, failed_for_good: Bools) -> dict[str, Floats]:
    """Per job: what its intervals add up to."""
    book = recorder.book
    rows = book.of_all(lambda part: part.jobs, np.int64)
    lost = book.of_all(lambda part: part.lost_s)
    last = _last_of(rows, n)
    lost[last[failed_for_good & (last >= 0)]] = 0.0  # no job does that work again
    weights = {
        "run_s": book.of_all(lambda part: part.end_s - part.start_s),
        "service_gpu_s": book.of_all(lambda part: part.gpu_s),
        "overhead_s": book.of_all(lambda part: part.overhead_s),
        "lost_s": lost,
        "migrations": book.of_all(lambda part: part.ended(How.MIGRATED).astype(np.float64)),
        "resizes": book.of_all(lambda part: part.ended(How.RESIZED).astype(np.float64)),
    }
    return {name: np.bincount(rows, weight, n).astype(np.float64) for name, weight in weights.items()}


def _last_of(rows: Ints, n: int) -> Ints:
    """Position of each row's last interval; -1 for rows that have none."""
    last = np.full(n, -1)
    last[rows] = np.arange(len(rows))
    return last


def _names(codes: Array, names: Sequence[str]) -> pl.Series:
    """Names behind codes; empty for -1."""
    table = pl.Series([*names, ""], dtype=pl.String)
    places = np.where((codes >= 0) & (codes < len(names)), codes, len(names)).astype(np.uint32)
    return table[places]


def _work(recorder: RunRecorder, loop: Loop, trace: Trace) -> Floats:
    """Part of all its work that the job of each interval got done in it; NaN where it was not noted."""
    speed: Any = getattr(loop.world, "speed", None)
    count = recorder.book.count
    if len(recorder.done) != count or speed is None:
        return np.full(count, np.nan)
    rows = recorder.book.of_all(lambda part: part.jobs, np.int64)
    order = np.argsort(rows, kind="stable")
    done, own = np.array(recorder.done, dtype=np.float64)[order], rows[order]
    before = np.where(np.append(True, own[1:] != own[:-1]), 0.0, np.append(0.0, done[:-1])) if count else done
    whole: Floats = speed.total(trace)[own]
    work = np.empty(count)
    work[order] = np.divide(done - before, whole, out=np.full(count, np.nan), where=whole > 0.0)
    return work


def _intervals_table(recorder: RunRecorder, trace: Trace, cluster: Cluster, work: Floats) -> pl.DataFrame:
    """The intervals, part by part; each part is freed once it is in the table."""
    ids, parts = pl.Series(list(trace.jobs.ids), dtype=pl.String), recorder.book.parts
    frames, first = [pl.DataFrame(schema=INTERVALS_SCHEMA)], 0
    for place, part in enumerate(parts):
        frames.append(_table_of(part, ids, trace, cluster, work[first : first + part.count]))
        first += part.count
        parts[place] = NO_INTERVALS
    return pl.concat(frames) if len(frames) > 2 else frames[-1]


def _table_of(
    part: IntervalColumns, ids: pl.Series, trace: Trace, cluster: Cluster, work: Floats
) -> pl.DataFrame:
    rows, limits = part.jobs, dict(part.limits)  # how devices were held; null where the job decides
    limits["batch_size"] = np.where(
        np.isnan(limits["batch_size"]), trace.jobs.batch_size[rows], limits["batch_size"]
    )
    nodes, devices = _lists(part, cluster)
    columns: dict[str, object] = {
        "job": rows,
        "job_id": ids[rows.astype(np.uint32)],
        "start_s": part.start_s,
        "end_s": part.end_s,
        "gpus": part.gpus,
        "share": part.share,
        "role": _ROLES[part.roles.astype(np.uint32)],
        "nodes": nodes,
        "devices": devices,
        "end": _HOWS[part.hows.astype(np.uint32)],
        **{name: known(values) for name, values in limits.items()},
        "work": known(work),
    }
    return pl.DataFrame(columns, schema=INTERVALS_SCHEMA)


_NO_LIST = pl.Series([[]], dtype=pl.List(pl.Int64))


def _lists(part: IntervalColumns, cluster: Cluster) -> Iterator[pl.Series]:
    """The nodes of each interval's devices, and the devices; empty lists where it holds none."""
    devices = part.devices.astype(np.int64)
    owner, held_on = np.repeat(np.arange(part.count), part.gpus), cluster.device_node[devices]
    held = pl.DataFrame({"i": owner, "nodes": held_on.astype(np.int64), "devices": devices})
    lists = held.group_by("i", maintain_order=True).agg("nodes", "devices")
    places = np.where(part.gpus > 0, np.cumsum(part.gpus > 0) - 1, len(lists)).astype(np.uint32)
    for name in ("nodes", "devices"):
        yield lists[name].append(_NO_LIST)[places]
