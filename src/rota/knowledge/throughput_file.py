"""Reads throughput tables.

JSON      Gavel's: {GPU type: {"('WORKLOAD', GPUS)": {"null": iterations/s, ...}}}; an entry beside "null" is
          named like another workload, and holds the rates of both when they share the same GPUs
CSV       workload, gpu_type, gpus, iterations_per_s; the re-encoded form of Gavel's table (job_type,
          worker_type, scale_factor, steps_per_s, and other_job_type, other_scale_factor, other_steps_per_s
          for pairs) is read as well, and that of ElasticFlow's (model, gpu_type, gpus, iterations_per_s,
          global_batch_size, rates that are nan left out); its workloads are named
          `resnet50 (batch size 256)`
Both may be compressed with gzip (`.gz`).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from rota.errors import InputError
from rota.knowledge.pairs import MeasuredPairs, Sized
from rota.knowledge.side_file import CsvRows, json_of, read_text
from rota.knowledge.throughput import ThroughputTable, with_batch

COLUMNS = ("workload", "gpu_type", "gpus", "iterations_per_s")
GAVEL_COLUMNS = ("job_type", "worker_type", "scale_factor", "steps_per_s")
ELASTICFLOW_COLUMNS = ("model", "gpu_type", "gpus", "iterations_per_s", "global_batch_size")
_KEY = re.compile(r"\('(.+)', (\d+)\)")

_Measured = dict[tuple[str, str, int], float]


def read_throughputs(path: str | Path) -> ThroughputTable:
    """The table in the file `path`."""
    text = read_text(Path(path))
    measured, pairs = _from_json(path, text) if text.lstrip().startswith("{") else _from_csv(path, text)
    if not measured:
        raise InputError.at("there is no throughput in it", file=path, expected="a row for each workload")
    return ThroughputTable.build(measured, str(path), pairs)


def _from_json(path: str | Path, text: str) -> tuple[_Measured, MeasuredPairs]:
    measured: _Measured = {}
    pairs: MeasuredPairs = {}
    try:
        for gpu_type, rows in json_of(text, path).items():
            for key, rates in rows.items():
                one = _sized(path, key)
                for beside, rate in rates.items():
                    if beside == "null":
                        measured[one[0], gpu_type, one[1]] = _rate(path, None, rate)
                    else:
                        mine, its = rate
                        pairs[gpu_type, one, _sized(path, beside)] = (
                            _rate(path, None, mine),
                            _rate(path, None, its),
                        )
    except (AttributeError, TypeError, ValueError):
        expected = '{GPU type: {"(\'WORKLOAD\', GPUS)": {"null": iterations/s}}}'
        raise InputError.at("is not a throughput table", file=path, expected=expected) from None
    return measured, pairs


def _sized(path: str | Path, key: str) -> Sized:
    """A workload and its number of GPUs, as Gavel's tables name them."""
    match = _KEY.fullmatch(key)
    if match is None:
        raise InputError.at(f"{key!r} names no workload", file=path, expected="('WORKLOAD', GPUS)")
    return match[1], int(match[2])


def _from_csv(path: str | Path, text: str) -> tuple[_Measured, MeasuredPairs]:
    rows = CsvRows(path, text)
    header = rows.columns
    forms = (COLUMNS, GAVEL_COLUMNS, ELASTICFLOW_COLUMNS)
    names = next((n for n in forms if set(n) <= set(header)), None)
    if names is None:
        raise InputError.at("has other columns", file=path, row=1, expected=", ".join(COLUMNS))
    measured: _Measured = {}
    pairs: MeasuredPairs = {}
    for number, row in rows:
        workload, gpu_type, gpus, rate = (row[name] for name in names[:4])
        if rate == "nan":
            continue
        one = (workload, _gpus(path, number, names[2], gpus))
        if row.get("other_job_type"):
            count = _gpus(path, number, "other_scale_factor", row.get("other_scale_factor") or "")
            other = (row["other_job_type"], count)
            its = _rate(path, number, row.get("other_steps_per_s"))
            pairs[gpu_type, one, other] = (_rate(path, number, rate), its)
            continue
        if names is ELASTICFLOW_COLUMNS:
            workload = with_batch(workload, _batch_size(path, number, row["global_batch_size"]))
        key = (workload, gpu_type, one[1])
        if key in measured:
            raise InputError.at(f"{workload!r} on {gpus} x {gpu_type} is listed twice", file=path, row=number)
        measured[key] = _rate(path, number, rate)
    return measured, pairs


def _gpus(path: str | Path, row: int, field: str, value: str) -> int:
    if not value.isdecimal() or int(value) < 1:
        raise InputError.at(f"{value!r} is no number of GPUs", file=path, row=row, field=field)
    return int(value)


def _batch_size(path: str | Path, row: int, value: str | None) -> int:
    if not (value or "").isdecimal():
        raise InputError.at(f"{value!r} is no batch size", file=path, row=row, field="global_batch_size")
    return int(value or "")


def _rate(path: str | Path, row: int | None, value: Any) -> float:
    """`value` as a throughput."""
    try:
        rate = float(value)
        if 0.0 <= rate < float("inf"):
            return rate
    except (TypeError, ValueError):
        pass
    raise InputError.at(f"{value!r} is no throughput", file=path, row=row, expected="iterations per second")
