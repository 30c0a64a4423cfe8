"""Writes a trace in the `plain` format (columns in `plain`), so that reading it gives an equal trace.

A CSV holds only its header and its rows; what has no column is in a file next to it.
"""

from __future__ import annotations

import gzip
import io
import json
from dataclasses import asdict
from enum import IntEnum
from errno import EISDIR
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from rota.arguments import FILE, Argument, instance_of, takes
from rota.errors import InputError
from rota.model.atomic import replacing
from rota.model.columns import Array
from rota.model.job_columns import CODED, WORDED, deadlines_text
from rota.model.jobs import JOB_COLUMNS, JobTable, Outcome, RecordedRun
from rota.model.trace import Trace
from rota.traces.plain.reader import beside, digest

_ALWAYS = ("submit_s", "gpus")


@takes(trace=Argument("trace", instance_of(Trace), "a Trace"), path=FILE)
def write(trace: Trace, path: str | PathLike[str]) -> None:
    """Write `trace` to `path`, whose name ends in .csv or .parquet, followed by .gz if compressed.

    Reading the file back gives an equal trace, except for `source` and `format`, which `facts["origin"]`
    keeps. What has no column goes into the metadata of a Parquet file; for a CSV it goes into
    `PATH.rota.json` next to it. An existing file is replaced in one step, or left unchanged if there is an
    error.
    """
    file = Path(path)
    suffixes = file.suffixes[-2:] if file.suffix == ".gz" else [file.suffix]
    if suffixes[0] not in (".parquet", ".csv"):
        raise InputError.at(
            f"{file.name!r} does not say what to write",
            file=file,
            expected="a name ending in .csv, .parquet, .csv.gz or .parquet.gz",
        )
    is_csv = suffixes[0] == ".csv"
    data = _csv_bytes(trace) if is_csv else _parquet_bytes(trace)
    # A fixed stamp in the gzip header, so that equal traces give equal files.
    packed = gzip.compress(data, mtime=0) if suffixes[-1] == ".gz" else data
    head = (_head(trace, of=digest(data)) + "\n").encode() if is_csv else None
    try:
        _replace(file, packed, head)
    except OSError as error:
        named = beside(file) if error.filename == str(beside(file)) else file
        raise InputError.at(f"cannot be written ({error.strerror})", file=named) from None


def _csv_bytes(trace: Trace) -> bytes:
    frame = table_of(trace)
    for name in frame.select(pl.col(pl.String)).columns:
        broken = frame[name].str.contains(r"[\r\n]").fill_null(False).to_numpy()
        if broken.any():
            job = trace.jobs.ids[int(np.flatnonzero(broken)[0])]
            raise InputError.at(
                f"job {job!r} has a line end in a name",
                field=name,
                expected="a .parquet file, which can hold it",
            )
    return frame.write_csv().encode()


def _parquet_bytes(trace: Trace) -> bytes:
    buffer = io.BytesIO()
    table_of(trace).write_parquet(buffer, metadata={"rota": _head(trace)})
    return buffer.getvalue()


def table_of(trace: Trace) -> pl.DataFrame:
    """The trace as one typed table in the columns of `plain`, without columns of default values only."""
    jobs, truth = trace.jobs, trace.truth
    columns: dict[str, Any] = {"job_id": list(jobs.ids)}
    usual = JobTable.build(jobs.ids, submit_s=jobs.submit_s, gpus=jobs.gpus)
    for name in JOB_COLUMNS:
        values = getattr(jobs, name)
        if name in _ALWAYS or not np.array_equal(
            values, getattr(usual, name), equal_nan=values.dtype.kind == "f"
        ):
            columns[name] = _cells(jobs, name)
        if name == "gpus":
            columns["duration_s"] = _blanked(truth.duration_s)
    columns |= _truth_columns(trace)
    if trace.observed is not None:
        columns |= {"start_s": _blanked(trace.observed.start_s), "end_s": _blanked(trace.observed.end_s)}
        columns |= _places(trace.observed, len(jobs))
    if jobs.deadlines:
        columns["deadlines"] = [
            deadlines_text(jobs.deadlines.get(row, ())) or None for row in range(len(jobs))
        ]
    if jobs.after:
        columns["after"] = [_ids_text(jobs, row) for row in range(len(jobs))]
    if jobs.parts:
        columns["parts"] = [_parts_text(jobs, row) for row in range(len(jobs))]
    return pl.DataFrame(columns)


def _truth_columns(trace: Trace) -> dict[str, Any]:
    truth = trace.truth
    columns: dict[str, Any] = {}
    if not np.isnan(truth.iterations).all():
        columns["iterations"] = _blanked(truth.iterations)
    if not np.isnan(truth.held_s).all():
        columns["held_s"] = _blanked(truth.held_s)
    if truth.outcome.any():
        columns["outcome"] = _member_names(Outcome, truth.outcome)
    if truth.failures:
        runs = [truth.failures.get(row, ()) for row in range(len(trace))]
        columns["failures_s"] = [";".join(repr(float(run)) for run in times) or None for times in runs]
    if truth.signatures:
        names = [truth.signatures.get(row, ()) for row in range(len(trace))]
        columns["signatures"] = [";".join(name) or None for name in names]
    return columns


def _places(seen: RecordedRun, n: int) -> dict[str, Any]:
    """Where jobs ran, as far as it is known."""
    columns: dict[str, Any] = {}
    if seen.nodes:
        columns["ran_on"] = ["|".join(seen.nodes.get(row, ())) or None for row in range(n)]
    if seen.types:
        columns["ran_type"] = [seen.types.get(row) for row in range(n)]
    if seen.arrays:
        columns["array"] = [seen.arrays.get(row) for row in range(n)]
    if seen.exits:
        columns["exit"] = [seen.exits.get(row) for row in range(n)]
    if seen.interruptions:
        several = [seen.interruptions.get(row, ()) for row in range(n)]
        columns["interrupted_s"] = [
            ";".join(f"{float(one.run_s)!r}={one.why}" for one in of) or None for of in several
        ]
    return columns


def _cells(jobs: JobTable, name: str) -> Any:
    """One column of the table, with names in place of codes."""
    values = getattr(jobs, name)
    if name in CODED:
        return [jobs.name_of(name, row) or None for row in range(len(jobs))]
    if name == "gpu_types":
        return [_types_text(jobs, int(mask)) for mask in values]
    if name in WORDED:
        return _member_names(WORDED[name], values)
    return _blanked(values) if values.dtype.kind == "f" else values


def _member_names(enum: type[IntEnum], values: Array) -> list[str]:
    return [enum(int(value)).name for value in values]


def _blanked(values: Array) -> pl.Series:
    """The numbers with an empty cell in place of NaN."""
    return pl.Series(np.array(values)).fill_nan(None)


def _types_text(jobs: JobTable, mask: int) -> str | None:
    return "|".join(name for i, name in enumerate(jobs.type_names) if mask >> i & 1) or None


def _ids_text(jobs: JobTable, row: int) -> str | None:
    ids = [jobs.ids[before] for before in jobs.after.get(row, ())]
    semicolon = next((id for id in ids if ";" in id), None)
    if semicolon is not None:
        raise InputError(
            f"job {semicolon!r} is waited for by others, and its id contains ';', which joins ids"
        )
    return ";".join(ids) or None


def _parts_text(jobs: JobTable, row: int) -> str | None:
    parts = jobs.parts.get(row)
    return json.dumps([asdict(part) for part in parts]) if parts else None


def _head(trace: Trace, **more: str) -> str:
    """What has no column, and `more`, as JSON on one line."""
    jobs = trace.jobs
    names = {name: getattr(jobs, f"{name}_names") for name in (*CODED, "type")}
    origin = {} if trace.format == "plain" else {"origin": f"{trace.format} {trace.source}"}
    head: dict[str, object] = {
        **more,
        "facts": {**trace.facts, **origin},
        "odd": [asdict(odd) for odd in trace.odd],
        "names": names,
    }
    return json.dumps(head, ensure_ascii=True, default=str)


def _replace(file: Path, data: bytes, head: bytes | None) -> None:
    """Replace `file` by `data` in one step: a reader sees the old content or the new.

    The `head` is written next to it. Both are complete before either replaces a file, so that a full disk
    leaves both unchanged. The head is replaced last, because until then the old one matches no content.
    """
    if head is None:
        with replacing(file) as partial:
            partial.write_bytes(data)
        return
    if beside(file).is_dir():
        raise IsADirectoryError(EISDIR, "Is a directory", str(beside(file)))
    with replacing(beside(file)) as described:
        described.write_bytes(head)
        with replacing(file) as partial:
            partial.write_bytes(data)
