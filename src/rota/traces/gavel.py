"""Gavel traces: jobs as a type, a number of steps and a scale factor.

From      stanford-futuredata/gavel, `scheduler/traces/**/*.trace`; tab-separated, no header
Columns   10: job type, command, working directory, step argument, needs-data flag, total steps,
          scale factor (GPUs), priority weight, SLO (-1: none), arrival (s)
          7 (older, Philly VCs): job type, command, step argument, needs-data flag, total steps,
          arrival (s), scale factor
          a CSV with a header of job_type, scale_factor, total_steps, arrival_s is read as well
Times     kept as they are
Odd       no durations: steps per second come from a table of throughputs by type, scale and GPU type.
          The SLO is a factor on the duration, so that without the table there is no deadline.  Philly VCs
          contain scale factors (7, 12, 20, 24, up to 64) for which no throughput was measured.  The
          batch size in a job type is per worker and stays part of the name
Handling  the job type is the workload, `duration_s` is NaN, `iterations` are the steps, `weight` is the
          priority weight.  SLO factors are kept by job id in `facts["slo_factor"]`.  Scale factors outside
          1, 2, 4, 8 are counted and kept
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from rota.errors import InputError
from rota.model.columns import Array, Floats
from rota.model.jobs import Truth
from rota.model.trace import Trace
from rota.model.units import plural
from rota.traces.build import Oddities, finish, ids_of, numbered
from rota.traces.registry import trace_format
from rota.traces.source import TraceSource
from rota.traces.table import TextTable, read_table

CURRENT = (
    "job_type",
    "command",
    "working_directory",
    "steps_argument",
    "needs_data",
    "total_steps",
    "scale_factor",
    "priority_weight",
    "SLO",
    "arrival_s",
)
OLD = ("job_type", "command", "steps_argument", "needs_data", "total_steps", "arrival_s", "scale_factor")
NEEDED = ("job_type", "scale_factor", "total_steps", "arrival_s")
MEASURED_SCALES = (1, 2, 4, 8)
_NUMBER = re.compile(r"-?\d+(?:\.\d*)?(?:e[+-]?\d+)?", re.IGNORECASE)


def tabs_of(source: TraceSource) -> int:
    """Number of tab-separated fields in most of the first lines; 0 if they have no tab."""
    counts = Counter(line.count("\t") for line in source.opening)
    tabs = max(counts, key=lambda count: counts[count], default=0)
    return tabs + 1 if tabs else 0


def has_fields(source: TraceSource, *counts: int) -> bool:
    """True if most lines are jobs with one of these numbers of tab-separated fields; headers have no
    number."""
    fields = source.header("\t")
    is_header = len(fields) in counts and not any(_NUMBER.fullmatch(field) for field in fields)
    return tabs_of(source) in counts and not is_header


def _matches(source: TraceSource) -> bool:
    header = set(source.header())
    return has_fields(source, len(OLD), len(CURRENT)) or (set(NEEDED) <= header and "mode" not in header)


@trace_format(
    "gavel",
    description="Gavel traces: job type, steps, scale factor",
    recognised="7 or 10 tab-separated fields without header, or a CSV header with " + ", ".join(NEEDED),
    matches=_matches,
    example="LM (batch size 10)\tpython3 main.py\tlm\t--steps\t1\t1200\t2\t1\t-1.000000\t30\n",
)
def read(source: TraceSource) -> Trace:
    table = _table(source)
    odd = Oddities(table, ids_of(table, "job_id") if table.has("job_id") else numbered(table))
    scale = table.whole("scale_factor")
    unmeasured = ~np.isin(scale, MEASURED_SCALES)
    odd.note("scale factor without measured throughput", "kept", unmeasured)
    workload, workload_names = table.codes("job_type")
    steps = table.floats("total_steps")
    return finish(
        "gavel",
        odd,
        jobs={
            "submit_s": table.floats("arrival_s"),
            "gpus": scale,
            "weight": weights(table),
            "workload": workload,
            "workload_names": workload_names,
        },
        truth=Truth.build(np.full(len(table), np.nan), iterations=steps),
        facts={
            "duration": "steps / throughput table",
            **by_id("slo_factor", odd.ids, slo_factors(table)),
        },
    )


def _table(source: TraceSource) -> TextTable:
    fields = tabs_of(source)
    if fields == 0:
        table = read_table(source)
        table.require(*NEEDED)
        return table
    names = {len(OLD): OLD, len(CURRENT): CURRENT}.get(fields)
    if names is None:
        expected = f"{len(OLD)} or {len(CURRENT)} tab-separated fields"
        raise InputError.at(
            f"the line has {plural(fields, 'field')}", file=source.file, row=1, expected=expected
        )
    return read_table(source, names, separator="\t", quoted=False)


def slo_factors(table: TextTable) -> Floats:
    """Deadline as a multiple of the duration; NaN where the trace has -1 or an empty cell."""
    if not table.has("SLO"):
        return np.full(len(table), np.nan)
    factors = table.floats("SLO", low=-1.0, blank=-1.0)
    table.reject((factors < 0) & (factors != -1), "SLO", "{} is no factor", "-1 for none, or at least 0")
    return np.where(factors < 0, np.nan, factors)


def weights(table: TextTable) -> Floats:
    """Priority weights; 1 where the cell is empty."""
    if not table.has("priority_weight"):
        return np.ones(len(table))
    return table.floats("priority_weight", blank=1.0)


def by_id(name: str, ids: Sequence[str], values: Array) -> dict[str, object]:
    """The fact `name`: value by job id, for rows whose value is not NaN; no fact if there is none."""
    by_job = {ids[i]: float(values[i]) for i in np.flatnonzero(~np.isnan(values)).tolist()}
    return {name: by_job} if by_job else {}
