"""MIG slices in a record: a device counts as the part of a GPU that its node's type says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import polars as pl

from rota.model.columns import Floats, Ints
from rota.model.gpu_slices import gpu_part
from rota.model.record import Record


def node_parts(record: Record) -> Floats | None:
    """Part of a GPU that a device of each node is, shape (nodes,); None where all are whole GPUs."""
    types = cast(Sequence[object], record.cluster.get("node_types") or ())
    parts = np.array([gpu_part(str(name)) for name in types], dtype=np.float64)
    return parts if (parts < 1.0).any() else None


def interval_parts(record: Record, rows: pl.DataFrame) -> Floats:
    """Mean part of a GPU that the devices of each interval in `rows` are, shape (len(rows),).

    Where an interval names no nodes, its part is that of the cluster if all nodes have the same, else 1.
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
