"""Nodes by time: how full each node was, as a picture; the page's script draws the jobs over it."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rota.model.columns import Array, Floats, Ints
from rota.model.record import Record
from rota.model.units import format_duration, plural
from rota.reports.chart import Tick
from rota.reports.occupancy import has_placement, held_devices, node_gpus, node_labels, node_types
from rota.reports.window import Span

_LEVELS = 64


def data_uri(shares: Floats, colour: tuple[int, int, int]) -> str:
    """`shares` (rows × columns, 0 to 1) as a PNG data URI; 0 is transparent, 1 is `colour`."""
    levels = np.round(np.clip(shares, 0, 1) * _LEVELS).astype(np.uint8)
    height, width = levels.shape
    lines = np.zeros((height, width + 1), dtype=np.uint8)  # each line opens with its filter: none
    lines[:, 1:] = levels
    alpha = np.round(np.linspace(0, 255, _LEVELS + 1)).astype(np.uint8)
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),  # 8 bits, palette
        (b"PLTE", bytes(colour) * (_LEVELS + 1)),
        (b"tRNS", alpha.tobytes()),
        (b"IDAT", zlib.compress(lines.tobytes(), 9)),
        (b"IEND", b""),
    ]
    data = b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, body) for name, body in chunks)
    return "data:image/png;base64," + base64.b64encode(data).decode("ascii")


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


ROWS_MAX = 128
"""More nodes than this are drawn several to a row."""
ROW_PX, LABELLED = 16, 30
"""Height of a row, which its label needs, and rows that have a label each; more rows are lower."""
_HEAT = (64, 132, 214)
_HEAT_BINS = 900
_HEAT_BINS_MAX = 2700


@dataclass(frozen=True)
class GanttRows:
    """Nodes as a picture shows them: grouped by GPU type, several in a row where there are too many."""

    order: Ints
    """Nodes from the top."""
    row_of_node: Ints
    first: tuple[int, ...]
    """For each row the place in `order` of its first node."""
    names: tuple[str, ...]
    """Of the first node of each row."""
    types: tuple[str, ...]
    """Of each row."""

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True)
class Gantt:
    """One policy's picture; without an image where no placement is known."""

    policy: str
    text: str
    caption: str
    rows: int
    height_px: int
    labels: tuple[Tick, ...]
    """Node names and their place from the top, 0 to 1."""
    image: str = ""


def rows_of(record: Record) -> GanttRows:
    """The rows of `record`'s cluster; nodes of one type stand together, in the order of the types."""
    types, names = node_types(record), node_labels(record)
    known = list(dict.fromkeys(types))
    code = np.array([known.index(name) for name in types], dtype=np.int64)
    order = np.argsort(code, kind="stable")
    per_row = -(-len(order) // ROWS_MAX)
    first = [
        place
        for place in range(len(order))
        if (place - int(np.searchsorted(code[order], code[order[place]]))) % per_row == 0
    ]
    row_of_node = np.zeros(len(order), dtype=np.int64)
    row_of_node[order] = np.searchsorted(first, np.arange(len(order)), side="right") - 1
    return GanttRows(
        order,
        row_of_node,
        tuple(first),
        tuple(names[order[place]] for place in first),
        tuple(types[order[place]] for place in first),
    )


def gantt(record: Record, span: Span, shown: float = 1.0) -> Gantt:
    """The picture of `record` over `span`; it is drawn finely enough for the part `shown`."""
    if not has_placement(record) or not len(record.intervals) or span.length_s == 0:
        text = f"{record.policy}: the record does not say which devices jobs held."
        return Gantt(record.policy, text, text, 1, 0, ())
    rows, size = rows_of(record), node_gpus(record)
    bins = min(round(_HEAT_BINS / max(shown, 0.01)), _HEAT_BINS_MAX)
    capacity = np.bincount(rows.row_of_node, weights=size, minlength=len(rows))
    shares = occupancy_grid(record, span, rows.row_of_node, bins) / np.maximum(capacity, 1)[:, None]
    height_px = int(np.clip(max(len(rows) * ROW_PX, min(int(size.sum()) * 6, 240)), 96, LABELLED * ROW_PX))
    caption = (
        f"Each row is {_row_words(rows, len(size))}, each column {format_duration(span.length_s / bins)}; "
        "the deeper the colour, the more of its GPUs are held."
    )
    text = (
        f"{record.policy}: how full {plural(len(size), 'node')} "
        f"{'was' if len(size) == 1 else 'were'} over {format_duration(span.length_s)}. "
        f"{_filled(record, span)}"
    )
    labels = _labels(rows.names, np.arange(len(rows)) / len(rows), height_px)
    return Gantt(record.policy, text, caption, len(rows), height_px, labels, data_uri(shares, _HEAT))


def _row_words(rows: GanttRows, nodes: int) -> str:
    return "a node" if len(rows) == nodes else f"up to {-(-nodes // ROWS_MAX)} nodes"


def occupancy_grid(record: Record, span: Span, row_of_node: Ints, bins: int) -> Floats:
    """GPUs held, on average, per row of nodes and bin of time (rows × bins); exact."""
    held = held_devices(record)
    row = row_of_node[held["node"].to_numpy()]
    width_s = span.length_s / bins
    shape = (int(row_of_node.max()) + 1, bins + 2)
    grid = np.zeros(shape)
    for edge, sign in (("start_s", 1.0), ("end_s", -1.0)):
        at = np.clip((held[edge].to_numpy() - span.start_s) / width_s, 0, bins)
        column = at.astype(np.int64)
        # A step adds the rest of its own bin there, and a whole bin to each one after.
        left = sign * (column + 1 - at)
        grid += _deposit(row, column, left, shape) + _deposit(row, column + 1, sign - left, shape)
    return np.cumsum(grid, axis=1)[:, :bins]


def _deposit(row: Ints, column: Ints, amount: Floats, shape: tuple[int, int]) -> Array:
    flat = np.bincount(row * shape[1] + column, weights=amount, minlength=shape[0] * shape[1])
    return flat.reshape(shape)


def _filled(record: Record, span: Span) -> str:
    """Numbers of node-hours that were full, in part used and empty, for screen readers."""
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
