"""What a plain table says of the past: when jobs really ran, where, and how they ended."""

from __future__ import annotations

import numpy as np

from rota.model.columns import Floats
from rota.model.jobs import RecordedRun, Truth
from rota.traces.table import TextTable


def recorded(table: TextTable, truth: Truth) -> RecordedRun | None:
    """What was recorded; a file without a column of ends says them by its starts and durations."""
    if not any(table.has(name) for name in ("start_s", "end_s", "ran_on", "ran_type", "array", "exit")):
        return None

    def moments(name: str) -> Floats:
        if not table.has(name):
            return np.full(len(table), np.nan)
        return table.floats(name, low=-np.inf, blank=np.nan)

    began_s = moments("start_s")
    ended_s = moments("end_s") if table.has("end_s") else _ends_told(began_s, truth)
    nodes = {row: tuple(cell.split("|")) for row, cell in filled(table, "ran_on")}
    types, arrays, exits = (dict(filled(table, name)) for name in ("ran_type", "array", "exit"))
    return RecordedRun(began_s, ended_s, nodes, types, arrays, exits)


def _ends_told(began_s: Floats, truth: Truth) -> Floats:
    """When jobs ended that ran from `began_s` on without a pause; NaN where attempts lay between."""
    ended_s = began_s + truth.duration_s
    ended_s[list(truth.failures)] = np.nan
    return ended_s


def filled(table: TextTable, name: str) -> list[tuple[int, str]]:
    """Row and text of the cells of a column that say something; none if there is no such column."""
    return [(row, cell) for row, cell in enumerate(table.text(name)) if cell] if table.has(name) else []
