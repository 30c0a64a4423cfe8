"""Which job held which GPUs, when: utilisation, queue length and free GPUs as exact step functions.

A device counts as the part of a GPU that its node's type says: MIG slices are parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import polars as pl

from rota.model.columns import Array, Floats, Ints
from rota.model.gpu_slices import gpu_part
from rota.model.record import Record
from rota.reports.series import Steps
from rota.reports.window import Span


def node_parts(record: Record) -> Floats | None:
    """Part of a GPU that a device of each node is, shape (nodes,); None where all are whole GPUs."""
    types = cast(Sequence[object], record.cluster.get("node_types") or ())
    parts = np.array([gpu_part(str(name)) for name in types], dtype=np.float64)
    return parts if (parts < 1.0).any() else None


def interval_parts(record: Record, rows: pl.DataFrame) -> Floats:
    """Mean part of a GPU in one device of each interval in `rows`, shape (len(rows),).

    If an interval names no nodes, its part is that of all nodes if they are equal in it, else 1.
    """
    parts = node_parts(record)
    if parts is None:
        return np.ones(len(rows))
    usual = float(parts[0]) if (parts == parts[0]).all() else 1.0
    held = rows.select(pl.int_range(pl.len()).alias("interval"), "nodes").explode("nodes").drop_nulls("nodes")
    interval, node = held["interval"].to_numpy(), held["nodes"].to_numpy()
    devices = np.bincount(interval, minlength=len(rows))
    sums = np.bincount(interval, weights=parts[node], minlength=len(rows))
    mean: Floats = np.divide(sums, devices, out=np.full(len(rows), usual), where=devices > 0)
    return mean


def device_parts(record: Record) -> Floats:
    """Part of a GPU that each device of the cluster is, shape (devices,)."""
    sizes = np.asarray(cast(Sequence[int], record.cluster.get("node_gpus", ())), dtype=np.int64)
    parts = node_parts(record)
    return np.repeat(np.ones(len(sizes)) if parts is None else parts, sizes)


def job_parts(record: Record) -> Floats:
    """Mean part of a GPU that the devices of each job were, shape (jobs,), in the order of `record.jobs`.

    Device-seconds are the weights; 1 for a job that held nothing.
    """
    jobs = len(record.jobs)
    if node_parts(record) is None:
        return np.ones(jobs)
    rows = record.intervals
    amount = (rows["gpus"] * rows["share"] * (rows["end_s"] - rows["start_s"])).fill_nan(0.0).fill_null(0.0)
    weight, place = amount.to_numpy(), _places(record)
    held = np.bincount(place, weights=weight, minlength=jobs)
    whole = np.bincount(place, weights=weight * interval_parts(record, rows), minlength=jobs)
    mean: Floats = np.divide(whole, held, out=np.ones(jobs), where=held > 0)
    return mean


def _places(record: Record) -> Ints:
    """Row in `record.jobs` of the job of each interval."""
    order = record.jobs.select("job").with_row_index("place")
    of = record.intervals.select("job").join(order, on="job", how="left", maintain_order="left")
    return of["place"].to_numpy().astype(np.int64)


def whole_gpus_of(record: Record) -> float:
    """GPUs of the cluster, slices counted by their part."""
    parts = node_parts(record)
    if parts is None:
        return float(cast(int, record.cluster["gpus"]))
    return float((np.asarray(cast(Sequence[int], record.cluster["node_gpus"])) * parts).sum())


def cluster_gpus(record: Record) -> int:
    """Devices of the cluster: a MIG slice is one (`whole_gpus_of` counts it by its part)."""
    return int(cast(int, record.cluster["gpus"]))


def paid_nodes(record: Record) -> Steps | None:
    """Nodes that were paid for; None where all were there all the time."""
    steps = cast(Sequence[Sequence[float]], record.cluster.get("paid_nodes", ()))
    return Steps(*np.array(steps, dtype=np.float64).T) if steps else None


def available_gpu_s(record: Record, span: Span) -> float:
    """GPU-seconds that were there within `span`: of nodes that came and went, those paid for."""
    paid = paid_nodes(record)
    if paid is None:
        return whole_gpus_of(record) * span.length_s
    return paid.integral(span.start_s, span.end_s) * float(node_gpus(record)[0])


def node_gpus(record: Record) -> Ints:
    """GPUs of each node."""
    return np.asarray(cast(Sequence[int], record.cluster.get("node_gpus", ())), dtype=np.int64)


def node_names(record: Record) -> list[str]:
    return [str(name) for name in cast(Sequence[object], record.cluster.get("node_names", ()))]


def node_labels(record: Record) -> list[str]:
    """Names of the nodes as a picture has room for them: without the domain that all of them share."""
    names = node_names(record)
    domains = {name.partition(".")[2] for name in names}
    return [name.partition(".")[0] for name in names] if len(domains) == 1 else names


def node_types(record: Record) -> list[str]:
    """GPU type of each node; one nameless type where a record does not say."""
    types = cast(Sequence[object], record.cluster.get("node_types") or [""] * len(node_gpus(record)))
    return [str(name) for name in types]


def whole_run(record: Record) -> Span:
    """From the first submission to the last thing that happened."""
    first = record.jobs["submit_s"].min()
    if first is None:
        return Span(0.0, 0.0)
    columns = [record.jobs["submit_s"], record.jobs["finish_s"].fill_nan(None)]
    columns.append(record.intervals["end_s"].fill_nan(None))
    ends = [cast(float, column.max()) for column in columns if column.max() is not None]
    return Span(cast(float, first), max(ends))


def arrivals_span(record: Record) -> Span:
    """From the first to the last submission, which no policy can move; for a batch the whole run.

    After the last submission a cluster only empties, and how long that takes is decided by its longest job.
    A batch is a trace with all submissions within less time than its median job takes.
    """
    whole, jobs = whole_run(record), record.jobs
    if not len(jobs):
        return whole
    last_s = float(cast(float, jobs["submit_s"].max()))
    median_s = cast(float | None, jobs["duration_s"].fill_nan(None).median())
    batch = last_s - whole.start_s <= (median_s or 0.0)
    return whole if batch else Span(whole.start_s, last_s)


def has_placement(record: Record) -> bool:
    """True if every interval says which devices it held; recorded traces often do not."""
    held = record.intervals.select(pl.col("devices").list.len().fill_null(0).sum()).item()
    return int(held or 0) == int(record.intervals["gpus"].sum() or 0)


def closed_intervals(record: Record) -> pl.DataFrame:
    """The intervals; one that the run cut off ends with the run."""
    end = whole_run(record).end_s
    return record.intervals.with_columns(pl.col("end_s").fill_nan(None).fill_null(end))


def granted(record: Record) -> Steps:
    """GPUs granted, times the share of each; MIG slices count by their part of a GPU.

    A device counts once at most: opportunistic jobs on a device that others fill add nothing.
    """
    rows = closed_intervals(record)
    if (rows["role"] == "opportunistic").any() and has_placement(record):
        return _granted_by_device(rows, device_parts(record))
    amount = (rows["gpus"] * rows["share"]).to_numpy().astype(np.float64) * interval_parts(record, rows)
    return Steps.held(rows["start_s"].to_numpy(), rows["end_s"].to_numpy(), amount)


def worked(record: Record) -> Steps | None:
    """Work done, in GPUs' worth at the sizes that jobs asked for; None where the record does not say.

    A job of 4 GPUs for an hour that gets half of its work done in ten minutes does 12 GPUs' worth.
    """
    jobs = record.jobs.select("job", size=pl.col("gpus") * pl.col("duration_s").fill_nan(None))
    rows = closed_intervals(record).join(jobs, on="job", how="left", maintain_order="left")
    seconds = pl.col("end_s") - pl.col("start_s")
    rows = rows.filter(seconds > 0.0)
    rate = rows.select((pl.col("work").clip(0.0) * pl.col("size") / seconds).alias("rate"))["rate"]
    if not len(rows) or rate.null_count():
        return None
    return Steps.held(rows["start_s"].to_numpy(), rows["end_s"].to_numpy(), rate.to_numpy())


def _granted_by_device(rows: pl.DataFrame, parts: Floats) -> Steps:
    """As `granted`, device by device, so that shares beyond a whole device can be cut off."""
    held = rows.select("devices", "start_s", "end_s", "share").explode("devices")
    edges = pl.concat(
        [
            held.select("devices", at=pl.col("start_s"), delta=pl.col("share")),
            held.select("devices", at=pl.col("end_s"), delta=-pl.col("share")),
        ]
    )
    edges = edges.group_by("devices", "at").agg(pl.col("delta").sum()).sort("devices", "at")
    capped = pl.col("delta").cum_sum().over("devices").clip(0.0, 1.0)
    edges = edges.with_columns(level=capped)
    change = edges.select(pl.col("level") - pl.col("level").shift(1, fill_value=0.0).over("devices"))
    part = parts[edges["devices"].to_numpy()]
    return Steps.from_events(edges["at"].to_numpy(), change.to_series().to_numpy() * part)


def waiting(record: Record) -> Steps:
    """Jobs that are submitted, have not ended and hold nothing; rejected jobs never wait."""
    jobs = record.jobs.filter(pl.col("state") != "REJECTED").select(
        "job", "submit_s", pl.col("start_s", "finish_s").fill_nan(None)
    )
    held = closed_intervals(record).select("job", "start_s", "end_s").join(jobs, on="job", how="semi")
    # CPU jobs may leave no interval, although they hold what they run on.
    unseen = jobs.filter(pl.col("start_s").is_not_null()).join(held, on="job", how="anti")
    end = whole_run(record).end_s
    unseen = unseen.select("job", "start_s", end_s=pl.col("finish_s").fill_null(end))
    held = pl.concat([held, unseen])
    finish = jobs["finish_s"].drop_nulls().to_numpy()
    columns = [(jobs["submit_s"].to_numpy(), 1.0), (finish, -1.0)]
    columns += [(held["start_s"].to_numpy(), -1.0), (held["end_s"].to_numpy(), 1.0)]
    times = np.concatenate([times for times, _ in columns])
    return Steps.from_events(times, np.concatenate([np.full(len(t), sign) for t, sign in columns]))


def held_devices(record: Record) -> pl.DataFrame:
    """Stretches in which a device was held by any job: `node`, `start_s`, `end_s`, merged per device."""
    rows = closed_intervals(record).select("start_s", "end_s", "nodes", "devices")
    rows = rows.explode("nodes", "devices").drop_nulls("devices").sort("devices", "start_s")
    reach = pl.col("end_s").cum_max().shift(1).over("devices")
    fresh = (pl.col("start_s") > reach).fill_null(True)
    rows = rows.with_columns(stretch=fresh.cum_sum())
    merged = rows.group_by("stretch", maintain_order=True).agg(
        pl.col("nodes").first(), pl.col("start_s").first(), pl.col("end_s").max()
    )
    return merged.select(node="nodes", start_s="start_s", end_s="end_s")


def free_and_stranded(record: Record) -> tuple[Steps, Steps]:
    """GPUs that no job holds, and the ones among them in nodes where another GPU is held."""
    size = node_gpus(record)
    held = held_devices(record)
    node = np.concatenate([held["node"].to_numpy()] * 2)
    at = np.concatenate([held["start_s"].to_numpy(), held["end_s"].to_numpy()])
    delta = np.repeat([1, -1], len(held))
    node, at, busy = _levels(node, at, delta)
    free_of_node = size[node] - busy
    stranded = np.where(busy > 0, free_of_node, 0)
    total = int(size.sum())
    start = whole_run(record).start_s
    begin = np.array([min(start, at.min())] if len(at) else [start])
    times = np.concatenate((begin, at))
    changes_free = np.concatenate(([total], -_changes(node, busy)))
    changes_stranded = np.concatenate(([0], _changes(node, stranded)))
    return (
        Steps.from_events(times, changes_free.astype(np.float64)),
        Steps.from_events(times, changes_stranded.astype(np.float64)),
    )


def _levels(node: Ints, at: Floats, delta: Ints) -> tuple[Ints, Floats, Ints]:
    """Per node the level after each moment; every node ends where it began, at 0."""
    if len(node) == 0:
        return node, at, delta
    order = np.lexsort((at, node))
    node, at, delta = node[order], at[order], delta[order]
    new = np.ones(len(node), dtype=bool)
    new[1:] = (node[1:] != node[:-1]) | (at[1:] != at[:-1])
    return node[new], at[new], np.cumsum(delta)[np.append(np.flatnonzero(new)[1:], len(node)) - 1]


def _changes(node: Ints, level: Array) -> Array:
    """Differences of `level` along each node's rows, from 0."""
    before = np.concatenate(([0], level))[:-1]
    before[1:][node[1:] != node[:-1]] = 0
    return level - before
