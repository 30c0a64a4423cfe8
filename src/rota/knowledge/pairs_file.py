"""Reads what workloads do to each other on one device, and how busy each keeps it alone.

CSV       workload, other, rate, other_rate: the rate of each beside the other, relative to it alone (1 is
          full speed); utilisation and other_utilisation, if there, are the parts of a device that they keep
          busy alone, in (0, 1].  A row without `other` states the utilisation of one workload only.
May be compressed with gzip (`.gz`).
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

from rota.errors import InputError
from rota.knowledge.side_file import CsvRows, read_text

COLUMNS = ("workload", "other", "rate", "other_rate")
OPTIONAL = ("utilisation", "other_utilisation")


class MeasuredCompany(NamedTuple):
    """The contents of the file."""

    pairs: dict[tuple[str, str], tuple[float, float]]
    """Two workloads -> the rate of each beside the other."""
    utilisation: dict[str, float]
    """Part of a device that a workload keeps busy alone."""


def read_pairs(path: str | Path) -> MeasuredCompany:
    """The pairs in the file `path`; InputError names file, row and field of what is wrong."""
    reader = CsvRows(path, read_text(Path(path)))
    missing = next((name for name in COLUMNS if name not in reader.columns), None)
    if missing is not None:
        raise InputError.at("is not there", file=path, field=missing, expected=", ".join(COLUMNS))
    reader.check_known((*COLUMNS, *OPTIONAL))
    measured = MeasuredCompany({}, {})
    for number, row in reader:
        _enter(measured, path, number, {name: (value or "").strip() for name, value in row.items() if name})
    if not measured.pairs and not measured.utilisation:
        raise InputError.at("there is no pair in it", file=path, expected="a row for each")
    return measured


def _enter(measured: MeasuredCompany, path: str | Path, number: int, row: dict[str, str]) -> None:
    names = row["workload"], row["other"]
    if not names[0]:
        raise InputError.at("is empty", file=path, row=number, field="workload", expected="a name")
    for name, column in zip(names, OPTIONAL, strict=True):
        if row.get(column):
            measured.utilisation[name] = _number(path, number, column, row[column], most=1.0)
    if names[1]:
        rates = [
            _number(path, number, column, row[column], most=math.inf) for column in ("rate", "other_rate")
        ]
        measured.pairs[names[0], names[1]] = (rates[0], rates[1])


def _number(path: str | Path, row: int, column: str, text: str, most: float) -> float:
    """A rate, 0 or more, or a part of a device, above 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.0 <= value <= most or value == math.inf or (value == 0.0 and most == 1.0):
        expected = "above 0 and up to 1" if most == 1.0 else "0 or more, where 1 is full speed"
        raise InputError.at(f"{text!r} is none", file=path, row=row, field=column, expected=expected)
    return value
