"""Reads the batch sizes that workloads go through: CSV, perhaps compressed with gzip, a row for each regime.

    workload,from_epoch,batch_size,samples_per_epoch
    resnet18,0,32,50000
    resnet18,30,128,50000

workload            as the trace names it, or with the batch size a job asks for: `resnet18 (batch size 32)`
from_epoch          epochs done when the regime begins; the first begins at 0
batch_size          samples of a step, as the table of throughputs names them
samples_per_epoch   the same in all rows of a workload
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from os import PathLike
from pathlib import Path

from rota.errors import InputError
from rota.knowledge.regimes import Course, Regime
from rota.knowledge.side_file import CsvRows, read_text
from rota.knowledge.throughput import with_batch
from rota.model.trace import Trace

COLUMNS = ("workload", "from_epoch", "batch_size", "samples_per_epoch")
_Stated = tuple[float, tuple[Regime, ...]]
"""Samples of an epoch, and regimes."""


def read_regimes(path: str | PathLike[str], trace: Trace) -> list[Course]:
    """The course of each job of `trace` according to the file; InputError names what is wrong in either."""
    stated = stated_regimes(path)
    return [_course(path, trace, row, stated) for row in range(len(trace))]


def stated_regimes(path: str | PathLike[str]) -> Mapping[str, _Stated]:
    """Samples of an epoch, and regimes, of each workload in the file."""
    reader = CsvRows(path, read_text(Path(path)))
    missing = next((name for name in COLUMNS if name not in reader.columns), None)
    if missing is not None:
        raise InputError.at("is not there", file=path, row=1, field=missing, expected=", ".join(COLUMNS))
    stated: dict[str, _Stated] = {}
    for number, row in reader:
        name = (row["workload"] or "").strip()
        if not name:
            raise InputError.at("is empty", file=path, row=number, field="workload", expected="a name")
        first, batch, samples = (
            _number(path, number, column, row[column], least)
            for column, least in zip(COLUMNS[1:], (0.0, 1.0, 1.0), strict=True)
        )
        known, regimes = stated.get(name, (samples, ()))
        if samples != known:
            raise InputError.at(
                f"{name} has {samples:g} samples here, and {known:g} before",
                file=path,
                row=number,
                field=COLUMNS[3],
            )
        if first <= regimes[-1].first if regimes else first != 0.0:
            expected = f"more than {regimes[-1].first:g}" if regimes else "0, where its first regime begins"
            raise InputError.at(
                f"{name} begins a regime at {first:g}",
                file=path,
                row=number,
                field="from_epoch",
                expected=expected,
            )
        stated[name] = samples, (*regimes, Regime(first, batch))
    if not stated:
        raise InputError.at("there is no regime in it", file=path, expected="a row for each")
    return stated


def _course(path: str | PathLike[str], trace: Trace, row: int, stated: Mapping[str, _Stated]) -> Course:
    job, workload = trace.jobs.ids[row], trace.jobs.name_of("workload", row)
    asked, iterations = trace.jobs.batch_size.item(row), trace.truth.iterations.item(row)
    course = stated.get(with_batch(workload, asked)) or stated.get(workload)
    if course is None:
        raise InputError.at(
            f"job {job} runs {workload or 'no workload'!r}, of which it says nothing",
            file=path,
            expected=f"a row for it; there is {', '.join(list(stated)[:3])}",
        )
    samples, regimes = course
    if math.isnan(iterations):
        raise InputError.at(
            f"job {job} states no iterations, by which its epochs are counted",
            file=trace.source,
            expected="a column iterations",
        )
    return Course(samples, iterations * regimes[0].batch / samples, regimes)


def _number(path: str | PathLike[str], row: int, column: str, text: str | None, least: float) -> float:
    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    if not least <= value < math.inf:
        raise InputError.at(
            f"{text!r} is none", file=path, row=row, field=column, expected=f"{least:g} or more"
        )
    return value
