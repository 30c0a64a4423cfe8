"""Converts rows for the database and back: the column of each field, and the form of each kind of value.

A field is a column of the same name.  Numbers lose whatever NumPy made of them, NaN in a field that may be
None is None, text loses what no database stores (NUL, half characters), JSON is text.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from pydantic import BaseModel

from rota.model.job_columns import Deadline
from rota.server.store.repairs import UNREADABLE, info_of, told
from rota.wire.sync import NodeInfo
from rota.wire.text import clean

R = TypeVar("R")
Params = dict[str, Any]


def to_text(value: Any) -> str:
    """`value` as JSON; models of `rota.wire` and NumPy numbers may be in it."""
    return _ENCODER.encode(value)


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} cannot be stored as JSON")


_ENCODER = json.JSONEncoder(separators=(",", ":"), default=_plain)
"""Made once: `json.dumps` makes one for each value."""


def bounded(number: int) -> int:
    """`number`, or the nearest one that a database can compare with."""
    return max(-(2**63), min(number, 2**63 - 1))


def _same(value: Any) -> Any:
    return value


def _json_out(value: Any) -> str | None:
    return None if value is None else to_text(value)


def _json_back(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def _maybe_float(value: Any) -> float | None:
    return None if value is None or math.isnan(value) else float(value)


def _maybe(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


def _info_out(info: NodeInfo) -> str:
    return info.model_dump_json(exclude={"problem"})


_KINDS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "int": (int, _same),
    "int | None": (_maybe(int), _same),
    "float": (float, _same),
    "float | None": (_maybe_float, _same),
    "bool": (bool, bool),
    "str": (clean, _same),
    "str | None": (_maybe(clean), _same),
    "bytes": (bytes, bytes),
    "Json": (_json_out, _json_back),
    "NodeInfo": (_info_out, info_of),
    "Numbers": (to_text, json.loads),
}


def deadlines_of(text: str) -> tuple[Deadline, ...]:
    """The deadlines of a job as they are stored: pairs of moment and value."""
    return () if text == "[]" else tuple(Deadline(*pair) for pair in json.loads(text))


_LISTS = (
    lambda value: to_text(list(value)) if len(value) else "[]",
    lambda text: () if text == "[]" else tuple(json.loads(text)),
)
"""Any `Sequence[…]`: it comes back as a tuple, and most are empty."""


_KINDS["Sequence[Deadline]"] = _LISTS[0], deadlines_of
_OF_LISTS = (_LISTS[1], deadlines_of)


class RowForm(Generic[R]):
    """How the rows of one dataclass are stored; fields in `without` are left to others."""

    def __init__(self, kind: Callable[..., R], *, without: Iterable[str] = ()) -> None:
        fields = [f for f in dataclasses.fields(kind) if f.name not in set(without)]  # type: ignore[arg-type]
        self.kind = kind
        self.names = tuple(field.name for field in fields)
        kinds = [_KINDS.get(str(field.type), _LISTS) for field in fields]
        self._out = [(name, out) for name, (out, _) in zip(self.names, kinds, strict=True)]
        self._back = [(i, back) for i, (_, back) in enumerate(kinds) if back is not _same]

    def params(self, row: R) -> Params:
        """`row` as values of columns."""
        return {name: out(getattr(row, name)) for name, out in self._out}

    def row(self, values: Sequence[Any]) -> R:
        """The row with `values` in its columns, in the order of `names`."""
        read = list(values)
        for i, back in self._back:
            read[i] = back(read[i])
        return self.kind(*read)

    def mended(self, values: Sequence[Any]) -> tuple[R, list[str]]:
        """The row as far as it can be read, and a clause for each field that cannot be: it is empty."""
        read, problems = list(values), []
        for i, back in self._back:
            try:
                read[i] = back(read[i])
            except UNREADABLE as error:
                read[i] = () if back in _OF_LISTS else None
                problems.append(f"{self.names[i]} cannot be read: {told(error)}")
        return self.kind(*read), problems
