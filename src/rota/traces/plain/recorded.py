"""The recorded history in a plain table: when and where jobs ran, and how they ended."""

from __future__ import annotations

import numpy as np

from rota.model.columns import Floats
from rota.model.jobs import PREEMPTED, REQUEUED, Interruption, RecordedRun, Truth
from rota.traces.table import MOST, TextTable

_COLUMNS = ("start_s", "end_s", "ran_on", "ran_type", "array", "exit", "interrupted_s")


def recorded(table: TextTable, truth: Truth) -> RecordedRun | None:
    """The recorded run; without a column of ends, they follow from starts and durations."""
    if not any(table.has(name) for name in _COLUMNS):
        return None

    def moments(name: str) -> Floats:
        if not table.has(name):
            return np.full(len(table), np.nan)
        return table.floats(name, low=-np.inf, blank=np.nan)

    began_s = moments("start_s")
    ended_s = moments("end_s") if table.has("end_s") else _ends_told(table, began_s, truth)
    nodes = {row: tuple(cell.split("|")) for row, cell in filled(table, "ran_on")}
    types, arrays, exits = (dict(filled(table, name)) for name in ("ran_type", "array", "exit"))
    return RecordedRun(began_s, ended_s, nodes, types, arrays, exits, interruptions=_interruptions(table))


def _interruptions(table: TextTable) -> dict[int, tuple[Interruption, ...]]:
    """Run times and reasons of attempts that the site ended."""
    several = {row: _interruption_list(cell) for row, cell in filled(table, "interrupted_s")}
    bad = np.array([row in several and not several[row] for row in range(len(table))])
    expected = "3600=preempted or 60=requeued, joined by ;"
    table.reject(bad, "interrupted_s", "{} is no list of interruptions", expected)
    return several


def _interruption_list(cell: str) -> tuple[Interruption, ...]:
    """The interruptions in `3600=preempted;60=requeued`; empty if it is not such a list."""
    pairs = [part.partition("=") for part in cell.split(";")]
    try:
        several = tuple(Interruption(float(run_s), why) for run_s, _, why in pairs)
    except ValueError:
        return ()
    is_list = all(0 <= run_s <= MOST and why in (PREEMPTED, REQUEUED) for run_s, why in several)
    return several if is_list else ()


def _ends_told(table: TextTable, began_s: Floats, truth: Truth) -> Floats:
    """When jobs ended that ran without a pause from `began_s`; NaN if they had earlier attempts."""
    ended_s = began_s + truth.duration_s
    ended_s[[*truth.failures, *(row for row, _ in filled(table, "interrupted_s"))]] = np.nan
    return ended_s


def filled(table: TextTable, name: str) -> list[tuple[int, str]]:
    """Row and text of the cells of a column that are not empty; empty if there is no such column."""
    return [(row, cell) for row, cell in enumerate(table.text(name)) if cell] if table.has(name) else []
