"""What a policy process has been told of the knowledge of its kinds, so that only news has to be told."""

from __future__ import annotations

import pickle
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from rota.knowledge.needs import Knowledge, Known
from rota.model.columns import Array, Bools
from rota.server.policy.messages import Rows


class KnowledgeTold:
    """The knowledge as the other side has it.

    Columns are compared row by row.  Of anything else (a table, a sample) the identity is compared first, so
    that whoever provides it hands over a new object when it has changed, as policies that cache it expect.
    """

    def __init__(self) -> None:
        self._columns: dict[Knowledge, Array] = {}
        self._objects: dict[Knowledge, tuple[Any, bytes]] = {}

    def news(
        self, known: Mapping[Knowledge, Known], needs: Collection[Knowledge], submitted: int
    ) -> list[Rows]:
        """What has changed, of what is needed, since the last call; columns up to row `submitted`."""
        found = (self._new(kind, known[kind], submitted) for kind in sorted(needs) if kind in known)
        return [rows for rows in found if rows is not None]

    def _new(self, kind: Knowledge, known: Known, submitted: int) -> Rows | None:
        values, provenance = known.values, known.provenance
        if not known.is_column:
            return self._new_object(kind, known)
        if kind not in self._columns or self._columns[kind].shape != values.shape:
            self._columns[kind] = np.array(values)
            return Rows(kind, provenance, self._columns[kind].copy(), is_column=True)
        told = self._columns[kind]
        rows = np.flatnonzero(_differ(told[:submitted], values[:submitted]))
        if not len(rows):
            return None
        told[rows] = values[rows]
        return Rows(kind, provenance, values[rows], rows, is_column=True)

    def _new_object(self, kind: Knowledge, known: Known) -> Rows | None:
        told, text = self._objects.get(kind, (None, b""))
        if told is known.values and text:
            return None
        again = pickle.dumps(known.values, protocol=pickle.HIGHEST_PROTOCOL)
        self._objects[kind] = (known.values, again)
        return None if again == text else Rows(kind, known.provenance, known.values)


def _differ(old: Array, new: Array) -> Bools:
    """Rows in which two columns differ; NaN equals NaN."""
    differ = old != new
    if old.dtype.kind == "f":
        differ &= ~(np.isnan(old) & np.isnan(new))
    rows: Bools = differ.any(axis=tuple(range(1, differ.ndim)))
    return rows
