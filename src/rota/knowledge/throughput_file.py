"""Reads throughput tables.

JSON      Gavel's: {GPU type: {"('WORKLOAD', GPUS)": {"null": iterations/s, ...}}}; the entries beside
          "null" are rates next to another job and are left out
CSV       workload, gpu_type, gpus, iterations_per_s; the re-encoded form of Gavel's table (job_type,
          worker_type, scale_factor, steps_per_s, rows with other_job_type left out) is read as well, and
          that of ElasticFlow's (model, gpu_type, gpus, iterations_per_s, global_batch_size, rates that
          are nan left out); its workloads are named `resnet50 (batch size 256)`
Both may be compressed with gzip (`.gz`).
"""

from __future__ import annotations

import csv
import gzip
import json
import re
from pathlib import Path
from typing import Any

from rota.errors import InputError
from rota.knowledge.throughput import ThroughputTable, with_batch

COLUMNS = ("workload", "gpu_type", "gpus", "iterations_per_s")
GAVEL_COLUMNS = ("job_type", "worker_type", "scale_factor", "steps_per_s")
ELASTICFLOW_COLUMNS = ("model", "gpu_type", "gpus", "iterations_per_s", "global_batch_size")
_KEY = re.compile(r"\('(.+)', (\d+)\)")

_Measured = dict[tuple[str, str, int], float]


def read_throughputs(path: str | Path) -> ThroughputTable:
    """The table in the file `path`."""
    text = _text(Path(path))
    measured = _from_json(path, text) if text.lstrip().startswith("{") else _from_csv(path, text)
    if not measured:
        raise InputError.at("there is no throughput in it", file=path, expected="a row for each workload")
    return ThroughputTable.build(measured, str(path))


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
        return (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        problem = error.strerror if isinstance(error, OSError) and error.strerror else "is not a text file"
        raise InputError.at(f"cannot be read ({problem})", file=path, expected="JSON or CSV") from None


def _from_json(path: str | Path, text: str) -> _Measured:
    measured: _Measured = {}
    try:
        for gpu_type, rows in json.loads(text).items():
            for key, rates in rows.items():
                match = _KEY.fullmatch(key)
                if match is None:
                    raise InputError.at(
                        f"{key!r} names no workload", file=path, expected="('WORKLOAD', GPUS)"
                    )
                if "null" in rates:
                    measured[match[1], gpu_type, int(match[2])] = _rate(path, None, rates["null"])
    except (AttributeError, TypeError, ValueError):
        expected = '{GPU type: {"(\'WORKLOAD\', GPUS)": {"null": iterations/s}}}'
        raise InputError.at("is not a throughput table", file=path, expected=expected) from None
    return measured


def _from_csv(path: str | Path, text: str) -> _Measured:
    rows = csv.DictReader(text.splitlines())
    header = rows.fieldnames or ()
    forms = (COLUMNS, GAVEL_COLUMNS, ELASTICFLOW_COLUMNS)
    names = next((n for n in forms if set(n) <= set(header)), None)
    if names is None:
        raise InputError.at("has other columns", file=path, row=1, expected=", ".join(COLUMNS))
    measured: _Measured = {}
    for number, row in enumerate(rows, start=2):
        workload, gpu_type, gpus, rate = (row[name] or "" for name in names[:4])
        if row.get("other_job_type") or rate == "nan":
            continue
        if not gpus.isdecimal() or int(gpus) < 1:
            raise InputError.at(f"{gpus!r} is no number of GPUs", file=path, row=number, field=names[2])
        if names is ELASTICFLOW_COLUMNS:
            workload = with_batch(workload, _batch_size(path, number, row["global_batch_size"]))
        key = (workload, gpu_type, int(gpus))
        if key in measured:
            raise InputError.at(f"{workload!r} on {gpus} x {gpu_type} is listed twice", file=path, row=number)
        measured[key] = _rate(path, number, rate)
    return measured


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
