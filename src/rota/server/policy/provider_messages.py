"""Tracks the knowledge that a policy process already has, so that only news has to be sent."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from rota.knowledge.needs import Knowledge, Known, Table
from rota.model.columns import Array, Bools, Ints
from rota.server.policy.messages import NewRows

_ALONE = ""
"""Name of a column that is no part of a table."""


class KnowledgeTold:
    """The knowledge as the other side has it.

    Columns are compared row by row.  Shared parts of a table are compared by identity first: a provider
    hands over a new array when it has changed.
    """

    def __init__(self) -> None:
        self._columns: dict[Knowledge, dict[str, Array]] = {}
        self._shared: dict[Knowledge, dict[str, Array]] = {}

    def news(
        self, known: Mapping[Knowledge, Known], needs: Collection[Knowledge], submitted: int
    ) -> list[NewRows]:
        """Changes of the needed knowledge since the last call; columns up to row `submitted`."""
        told = (self._new(kind, known[kind], submitted) for kind in sorted(needs) if kind in known)
        return [rows for rows in told if rows is not None]

    def _new(self, kind: Knowledge, known: Known, submitted: int) -> NewRows | None:
        columns, shared = _parts(known.values)
        told = self._columns.get(kind)
        if told is None or not _are_alike(told, columns):
            self._columns[kind] = {name: np.array(column) for name, column in columns.items()}
            self._shared[kind] = dict(shared)
            return NewRows(kind, known.provenance, _whole({n: a.copy() for n, a in columns.items()}, shared))
        rows = _changed_rows(told, columns, submitted)
        new = self._new_shared(kind, shared)
        if not len(rows) and not new:
            return None
        changed = {name: column[rows] for name, column in columns.items()}
        for name, values in changed.items():
            told[name][rows] = values
        return NewRows(kind, known.provenance, _whole(changed, new), rows)

    def _new_shared(self, kind: Knowledge, shared: Mapping[str, Array]) -> dict[str, Array]:
        told = self._shared[kind]
        new = {name: array for name, array in shared.items() if array is not told.get(name)}
        self._shared[kind] = dict(shared)
        return {
            name: array
            for name, array in new.items()
            if name not in told or not np.array_equal(array, told[name], equal_nan=array.dtype.kind == "f")
        }


def _parts(values: Array | Table) -> tuple[Mapping[str, Array], Mapping[str, Array]]:
    """Columns and shared arrays."""
    return (values.by_row, values.shared) if isinstance(values, Table) else ({_ALONE: values}, {})


def _whole(columns: Mapping[str, Array], shared: Mapping[str, Array]) -> Array | Table:
    return columns[_ALONE] if _ALONE in columns else Table(columns, dict(shared))


def _are_alike(told: Mapping[str, Array], columns: Mapping[str, Array]) -> bool:
    """True if both have the same columns with the same shapes."""
    return {n: a.shape for n, a in told.items()} == {n: a.shape for n, a in columns.items()}


def _changed_rows(told: Mapping[str, Array], columns: Mapping[str, Array], submitted: int) -> Ints:
    differ = np.zeros(submitted, dtype=bool)
    for name, column in columns.items():
        differ |= _differ(told[name][:submitted], column[:submitted])
    return np.flatnonzero(differ)


def _differ(old: Array, new: Array) -> Bools:
    """Rows where two columns differ; NaN equals NaN."""
    differ = old != new
    if old.dtype.kind == "f":
        differ &= ~(np.isnan(old) & np.isnan(new))
    rows: Bools = differ.any(axis=tuple(range(1, differ.ndim)))
    return rows


class KnowledgeHeard:
    """The receiving side: rebuilds the knowledge from the messages."""

    def __init__(self) -> None:
        self.known: dict[Knowledge, Known] = {}
        self._written: dict[Knowledge, tuple[dict[str, Array], dict[str, Array]]] = {}
        """The columns behind `known`, with their shared data; `known` shows them read-only."""

    def learn(self, news: Collection[NewRows]) -> None:
        """Take in what `KnowledgeTold.news` has said."""
        for told in news:
            changed, new = _parts(told.values)
            columns, shared = self._written.get(told.kind, ({}, {}))
            if told.rows is None or not columns:
                columns = {name: np.array(column) for name, column in changed.items()}
            else:
                for name, values in changed.items():
                    columns[name][told.rows] = values
            self._written[told.kind] = columns, {**shared, **new}
            self.known[told.kind] = Known(_whole(columns, {**shared, **new}), told.provenance)
