"""Nodes by time: each job as a bar where bars can be seen, otherwise how full each node was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from rota.model.columns import Array, Floats, Ints
from rota.model.record import Record
from rota.model.units import format_duration, plural
from rota.reports.chart import UNITS, Tick
from rota.reports.occupancy import closed_intervals, has_placement, held_devices, node_gpus, node_names
from rota.reports.png import data_uri
from rota.reports.sample import SIZE_CLASSES
from rota.reports.window import Span

BARS_MAX = 2500
"""More bars than this are a smear, and a large file."""
LANES_MAX = 192
"""More GPUs than this get less than two pixels each."""
ROWS_MAX = 128
"""More nodes than this are drawn several to a row."""
BAR_WIDTH_MIN = 1.0
"""Median width of a bar, in thousandths of the figure (about pixels), below which bars are not drawn."""
_HEAT = (64, 132, 214)
_HEAT_BINS = 900


@dataclass(frozen=True)
class Bar:
    """A job on neighbouring devices of one node; plot units across, GPUs down."""

    x: float
    width: float
    y: int
    height: int
    colour: int
    text: str


@dataclass(frozen=True)
class Gantt:
    """One policy's picture: either `bars` or `image`, never both; neither if no placement is known."""

    policy: str
    text: str
    caption: str
    rows: int
    """Height in plot units: GPUs for bars, rows of nodes for the image."""
    height_px: int
    labels: tuple[Tick, ...]
    """Node names and their place from the top, 0 to 1."""
    bars: tuple[Bar, ...] = ()
    image: str = ""


def colour_names(records: Sequence[Record]) -> tuple[str, tuple[str, ...]]:
    """What the colours of bars tell apart, and their names: tenants if they are few, else sizes."""
    tenants = sorted({str(t) for record in records for t in record.jobs["tenant"].unique() if t is not None})
    if 2 <= len(tenants) <= 8:
        return "tenant", tuple(tenants)
    return "size", tuple(name for name, _, _ in SIZE_CLASSES[1:])


def gantt(record: Record, span: Span, names: tuple[str, tuple[str, ...]]) -> Gantt:
    """The picture of `record` over `span`, coloured by `names` of `colour_names`."""
    if not has_placement(record) or not len(record.intervals) or span.length_s == 0:
        text = f"{record.policy}: the record does not say which devices jobs held."
        return Gantt(record.policy, text, text, 1, 0, ())
    bars = _bars(record, span, names) if _bars_fit(record, span) else None
    return _heat(record, span) if bars is None else _barred(record, span, bars)


def _bars_fit(record: Record, span: Span) -> bool:
    rows = closed_intervals(record).filter(pl.col("gpus") > 0)
    if int(node_gpus(record).sum()) > LANES_MAX or not 0 < len(rows) <= BARS_MAX:
        return False
    median_s = float(np.median((rows["end_s"] - rows["start_s"]).to_numpy()))
    return median_s / span.length_s * UNITS >= BAR_WIDTH_MIN


def _bars(record: Record, span: Span, names: tuple[str, tuple[str, ...]]) -> list[Bar] | None:
    """One bar per run of neighbouring devices of an interval; None if there are too many."""
    facts = record.jobs.select("job", "tenant", asked="gpus")
    rows = closed_intervals(record).join(facts, on="job", how="left").with_row_index("interval")
    lanes = rows.explode("nodes", "devices").drop_nulls("devices").sort("interval", "devices")
    device, node, interval = (lanes[name].to_numpy() for name in ("devices", "nodes", "interval"))
    new = np.ones(len(lanes), dtype=bool)
    new[1:] = (np.diff(interval) != 0) | (np.diff(device) != 1) | (np.diff(node) != 0)
    first = np.flatnonzero(new)
    if len(first) > BARS_MAX:
        return None
    heights = np.diff(np.append(first, len(lanes)))
    heads = lanes[first].to_dicts()
    return [_bar(row, int(height), span, names) for row, height in zip(heads, heights, strict=True)]


def _bar(row: dict[str, object], height: int, span: Span, names: tuple[str, tuple[str, ...]]) -> Bar:
    start_s, end_s = float(str(row["start_s"])), float(str(row["end_s"]))
    length = format_duration(end_s - start_s)
    since, until = format_duration(start_s - span.start_s), format_duration(end_s - span.start_s)
    who = f"{row['job_id']} · {row['tenant']} · {plural(int(str(row['gpus'])), 'GPU')}"
    return Bar(
        x=round((start_s - span.start_s) / span.length_s * UNITS, 2),
        width=round((end_s - start_s) / span.length_s * UNITS, 2),
        y=int(str(row["devices"])),
        height=height,
        colour=_colour(row, names),
        text=f"{who} · {since} to {until} ({length}, {row['end']})",
    )


def _colour(row: dict[str, object], names: tuple[str, tuple[str, ...]]) -> int:
    by, known = names
    if by == "tenant":
        return known.index(str(row["tenant"]))
    asked = int(str(row["asked"]))
    return next(i for i, (_, fewest, most) in enumerate(SIZE_CLASSES[1:]) if asked <= most)


def _barred(record: Record, span: Span, bars: list[Bar]) -> Gantt:
    size = node_gpus(record)
    gpus = int(size.sum())
    tops = np.concatenate(([0], np.cumsum(size)[:-1]))
    height_px = int(np.clip(gpus * 10, 60, 420))
    text = (
        f"{record.policy}: {plural(len(bars), 'bar')} of jobs on {plural(gpus, 'GPU')} in "
        f"{plural(len(size), 'node')} over "
        f"{format_duration(span.length_s)}. {_filled(record, span)}"
    )
    caption = "One lane per GPU, one bar per job and stretch of time; point at a bar for its job."
    labels = _labels(node_names(record), tops / gpus, height_px)
    return Gantt(record.policy, text, caption, gpus, height_px, labels, bars=tuple(bars))


def _heat(record: Record, span: Span) -> Gantt:
    size = node_gpus(record)
    per_row = -(-len(size) // ROWS_MAX)
    row_of_node = np.arange(len(size)) // per_row
    rows = int(row_of_node[-1]) + 1
    capacity = np.bincount(row_of_node, weights=size, minlength=rows)
    shares = occupancy_grid(record, span, row_of_node, _HEAT_BINS) / np.maximum(capacity, 1)[:, None]
    height_px = int(np.clip(rows * 8, 60, 400))
    group = "a node" if per_row == 1 else f"{per_row} nodes"
    caption = (
        f"Each row is {group}, each column {format_duration(span.length_s / _HEAT_BINS)}; "
        "the deeper the colour, the more of its GPUs are held."
    )
    text = (
        f"{record.policy}: how full {plural(len(size), 'node')} "
        f"{'was' if len(size) == 1 else 'were'} over {format_duration(span.length_s)}. "
        f"{_filled(record, span)}"
    )
    names = node_names(record)[::per_row]
    labels = _labels(names, np.arange(rows) / rows, height_px)
    image = data_uri(shares, _HEAT)
    return Gantt(record.policy, text, caption, rows, height_px, labels, image=image)


def occupancy_grid(record: Record, span: Span, row_of_node: Ints, bins: int) -> Floats:
    """GPUs held, on average, per row of nodes and bin of time (rows × bins); exact."""
    held = held_devices(record)
    row = row_of_node[held["node"].to_numpy()]
    width_s = span.length_s / bins
    shape = (int(row_of_node[-1]) + 1, bins + 2)
    grid = np.zeros(shape)
    for edge, sign in (("start_s", 1.0), ("end_s", -1.0)):
        at = np.clip((held[edge].to_numpy() - span.start_s) / width_s, 0, bins)
        column = at.astype(np.int64)
        # A step adds what is left of its own bin there, and a whole bin to each one after.
        left = sign * (column + 1 - at)
        grid += _deposit(row, column, left, shape) + _deposit(row, column + 1, sign - left, shape)
    return np.cumsum(grid, axis=1)[:, :bins]


def _deposit(row: Ints, column: Ints, amount: Floats, shape: tuple[int, int]) -> Array:
    flat = np.bincount(row * shape[1] + column, weights=amount, minlength=shape[0] * shape[1])
    return flat.reshape(shape)


def _filled(record: Record, span: Span) -> str:
    """How many node-hours were full, in part used and empty, for those who cannot see the picture."""
    size = node_gpus(record)
    busy = occupancy_grid(record, span, np.arange(len(size)), 200) / np.maximum(size, 1)[:, None]
    full, empty = float((busy > 0.999).mean()), float((busy < 0.001).mean())
    parts = f"{100 * full:.0f}% full, {100 * (1 - full - empty):.0f}% partly used, {100 * empty:.0f}% empty"
    return f"Of all node time {parts}."


def _labels(names: Sequence[str], tops: Floats, height_px: int, apart_px: int = 15) -> tuple[Tick, ...]:
    """As many names as fit below each other."""
    labels: list[Tick] = []
    for name, top in zip(names, tops.tolist(), strict=True):
        if not labels or (top - labels[-1].at) * height_px >= apart_px:
            labels.append(Tick(top, name))
    return tuple(labels)
