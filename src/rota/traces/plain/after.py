"""Dependencies in a plain table: which jobs start after which others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

import numpy as np

from rota.model.columns import Bools
from rota.traces.table import TextTable


def after_of(table: TextTable, ids: Sequence[str]) -> dict[int, tuple[int, ...]]:
    """Rows that each row waits for; `ids` are the jobs' names. BadRowsError names rows that wait for ever."""
    if not table.has("after"):
        return {}
    row_of = {id: row for row, id in enumerate(ids)}
    cells = [cell.split(";") if cell else [] for cell in table.text("after")]
    missing = _waits_in_vain(ids, cells)
    table.reject(missing, "after", "{} names a job that is not in the file", "job ids joined by ;")
    after = {row: tuple(row_of[id] for id in cell) for row, cell in enumerate(cells) if cell}
    endless = np.zeros(len(table), dtype=np.bool_)
    endless[_never_ready(after)] = True
    table.reject(endless, "after", "waiting for {} never ends", "jobs that do not wait for each other")
    return after


def _waits_in_vain(ids: Sequence[str], cells: Sequence[Sequence[str]]) -> Bools:
    """Rows that wait for a job that is not in the file, or for a row that does."""
    followers: dict[str, list[int]] = {}
    for row, cell in enumerate(cells):
        for id in cell:
            followers.setdefault(id, []).append(row)
    in_vain = np.zeros(len(cells), dtype=np.bool_)
    known = set(ids)
    lost = [id for id in followers if id not in known]
    while lost:
        for row in followers.get(lost.pop(), ()):
            if not in_vain[row]:
                in_vain[row] = True
                lost.append(ids[row])
    return in_vain


def _never_ready(after: Mapping[int, Sequence[int]]) -> list[int]:
    """Rows of one cycle of dependencies, in order; empty if there is no cycle."""
    try:
        TopologicalSorter(after).prepare()
    except CycleError as error:
        return sorted(set(error.args[1]))
    return []
