"""Data for the page's script: where the jobs with most GPU time were, and pairs of policies.

Everything else stands in the page as text and pictures.  The packed data does not grow with the trace: the
jobs with most GPU time are listed, and the page says how much of it they have.
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from rota.model.columns import Floats, Ints
from rota.model.record import Record
from rota.reports.against import Mover, Pair
from rota.reports.clock import clock_of
from rota.reports.gantt import rows_of
from rota.reports.occupancy import (
    closed_intervals,
    has_placement,
    node_gpus,
    node_labels,
    node_names,
    node_types,
)
from rota.reports.window import Span

JOBS_MAX = 5000
RECTANGLES_MAX = 10_000
"""Rectangles of one policy, the largest; a gang on several nodes has one on each."""


@dataclass(frozen=True)
class Drawn:
    """The packed data, and the part of the trace that it covers."""

    text: str
    """Base64 of deflated JSON."""
    jobs: int
    jobs_in_all: int
    gpu_time: float
    """Share of all GPU time that the listed jobs have."""


@dataclass(frozen=True)
class _Rectangles:
    """Jobs on neighbouring lanes of one node, a lane being a GPU in the order of the picture."""

    job: Ints
    start_s: Floats
    end_s: Floats
    lane: Ints
    height: Ints
    end: list[str]


def drawn(records: Sequence[Record], span: Span, shown: float, pairs: Sequence[Pair]) -> Drawn:
    """`records` over `span`, one per policy; `shown` is the part of it that is seen first."""
    rectangles = [_rectangles(record) for record in records]
    jobs = records[0].jobs
    service = np.max([record.jobs["service_gpu_s"].fill_null(0.0).to_numpy() for record in records], axis=0)
    named = np.array([mover.row for pair in pairs for mover in (*pair.gains, *pair.losses)], dtype=np.int64)
    listed = np.union1d(np.argsort(-service, kind="stable")[:JOBS_MAX], named)
    place = np.full(len(jobs), -1)
    place[listed] = np.arange(len(listed))
    unit_s = _unit_s(span)
    clock = clock_of(records[0])
    plain = {
        "epoch": clock and clock.at(span.start_s).timestamp(),
        "zone": clock.zone if clock else "",
        "length": span.length_s,
        "shown": shown,
        "unit": unit_s,
        "policies": [record.policy for record in records],
        **_cluster(records[0]),
        "jobs": _jobs(jobs[listed], span, unit_s),
        "lives": [_life(record.jobs[listed], unit_s) for record in records],
        "runs": [None if of is None else _run(of, place, named, span, unit_s) for of in rectangles],
        "pairs": [_pair(pair, place) for pair in pairs],
    }
    text = json.dumps(plain, separators=(",", ":"), ensure_ascii=False)
    packed = base64.b64encode(zlib.compress(text.encode(), 9)).decode("ascii")
    total = float(service.sum())
    return Drawn(packed, len(listed), len(jobs), float(service[listed].sum()) / total if total else 1.0)


def _unit_s(span: Span) -> float:
    """Seconds of one step of the packed times: a power of ten, fine enough for any screen."""
    return float(10.0 ** math.ceil(math.log10(max(span.length_s, 1e-3) / 1e7)))


def _rectangles(record: Record) -> _Rectangles | None:
    """None where the record does not say which devices were held."""
    if not has_placement(record) or not len(record.intervals):
        return None
    rows = closed_intervals(record).select("job", "start_s", "end_s", "end", "nodes", "devices")
    lanes = rows.with_row_index("interval").explode("nodes", "devices").drop_nulls("devices")
    lanes = lanes.with_columns(lane=pl.Series(_lane_of_device(record)[lanes["devices"].to_numpy()]))
    lanes = lanes.sort("interval", "lane")
    interval, lane, node = (lanes[name].to_numpy() for name in ("interval", "lane", "nodes"))
    new = np.ones(len(lanes), dtype=bool)
    new[1:] = (np.diff(interval) != 0) | (np.diff(lane) != 1) | (np.diff(node) != 0)
    first = np.flatnonzero(new)
    heads = lanes[first]
    return _Rectangles(
        job=heads["job"].to_numpy(),
        start_s=heads["start_s"].to_numpy(),
        end_s=heads["end_s"].to_numpy(),
        lane=heads["lane"].to_numpy(),
        height=np.diff(np.append(first, len(lanes))),
        end=heads["end"].to_list(),
    )


def _lane_of_device(record: Record) -> Ints:
    """Where each device stands from the top, node by node in the order of the picture."""
    size, order = node_gpus(record), rows_of(record).order
    top = np.empty(len(size), dtype=np.int64)
    top[order] = np.concatenate(([0], np.cumsum(size[order])[:-1]))
    within = np.arange(int(size.sum())) - np.repeat(np.cumsum(size) - size, size)
    return np.repeat(top, size) + within


def _cluster(record: Record) -> dict[str, Any]:
    rows, size = rows_of(record), node_gpus(record)
    names, labels, types = node_names(record), node_labels(record), node_types(record)
    return {
        "nodes": [names[node] for node in rows.order],
        "labels": [labels[node] for node in rows.order],
        "types": [types[node] for node in rows.order],
        "gpus": size[rows.order].tolist(),
        "rows": list(rows.first),
    }


def _jobs(jobs: pl.DataFrame, span: Span, unit_s: float) -> dict[str, Any]:
    tenants = jobs["tenant"].fill_null("")
    names = sorted(tenants.unique().to_list())
    code = {name: number for number, name in enumerate(names)}
    return {
        "id": jobs["job_id"].to_list(),
        "tenants": names,
        "tenant": [code[name] for name in tenants],
        "gpus": jobs["gpus"].to_list(),
        "submit": _steps((jobs["submit_s"].to_numpy() - span.start_s) / unit_s),
    }


def _life(jobs: pl.DataFrame, unit_s: float) -> dict[str, list[int | None]]:
    """Of each listed job: starts, the first one and its end since submission, its wait; None if unknown."""
    moments = pl.col("start_s", "finish_s").fill_nan(None)
    lives = jobs.select(
        "starts",
        ((moments - pl.col("submit_s")) / unit_s).round().cast(pl.Int64),
        waited=(pl.col("waiting_s") / unit_s).round().cast(pl.Int64),
    )
    lives = lives.with_columns(waited=pl.when(pl.col("finish_s").is_not_null()).then("waited"))
    names = {"starts": "starts", "start_s": "start", "finish_s": "end", "waited": "waited"}
    return {name: lives[column].to_list() for column, name in names.items()}


def _run(of: _Rectangles, place: Ints, named: Ints, span: Span, unit_s: float) -> dict[str, Any]:
    """The largest rectangles of the listed jobs and all of those that a pair names, by start.

    Starts are differences from one to the next, since those are small.
    """
    keep = np.flatnonzero(place[of.job] >= 0)
    size = (of.end_s - of.start_s)[keep] * of.height[keep]
    size[np.isin(of.job[keep], named)] = np.inf
    keep = keep[np.argsort(-size, kind="stable")[:RECTANGLES_MAX]]
    keep = keep[np.argsort(of.start_s[keep], kind="stable")]
    ends = sorted(set(of.end))
    code = {name: number for number, name in enumerate(ends)}
    return {
        "whole": len(keep) == len(of.job),
        "job": place[of.job[keep]].tolist(),
        "start": _steps((of.start_s[keep] - span.start_s) / unit_s),
        "length": np.round((of.end_s[keep] - of.start_s[keep]) / unit_s).astype(np.int64).tolist(),
        "lane": of.lane[keep].tolist(),
        "height": of.height[keep].tolist(),
        "ends": ends,
        "end": [code[of.end[i]] for i in keep],
    }


def _steps(values: Floats) -> list[int]:
    """Whole numbers as differences from one to the next; the first from 0."""
    whole = np.round(values).astype(np.int64)
    steps: list[int] = np.diff(whole, prepend=0).tolist()
    return steps


def _pair(pair: Pair, place: Ints) -> dict[str, Any]:
    def movers(of: Sequence[Mover]) -> list[list[float]]:
        return [[int(place[m.row]), round(m.first_s, 1), round(m.second_s, 1)] for m in of]

    return {
        "first": pair.first,
        "second": pair.second,
        "counts": [pair.shorter, pair.same, pair.longer],
        "gained": round(pair.gained_s, 1),
        "lost": round(pair.lost_s, 1),
        "gains": movers(pair.gains),
        "losses": movers(pair.losses),
    }
