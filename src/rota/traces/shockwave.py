"""Shockwave traces: Gavel's form with the rule by which a job's batch size changes, and a duration.

From      uw-mad-dash/shockwave, `scheduler/traces/**/*.trace`; tab-separated, no header
Columns   12: job type, command, working directory, step argument, needs-data flag, total steps,
          scale factor (GPUs), mode (static, accordion, gns), priority weight, SLO (-1: none),
          duration (s), arrival (s)
          a CSV with a header of job_type, scale_factor, total_steps, mode, duration_s, arrival_s too
Times     kept as they are
Odd       the duration is that of the whole job including changes of batch size; the batch size of every
          epoch is in a pickle next to each trace, which Rota does not read
Handling  the job type is the workload; mode by job id is in `facts["mode"]`; an SLO factor gives a
          deadline of arrival + factor x duration; priority weights as in `gavel`
"""

from __future__ import annotations

from rota.errors import InputError
from rota.model.jobs import Truth
from rota.model.trace import Trace
from rota.model.units import plural
from rota.traces.build import Oddities, finish, ids_of, numbered
from rota.traces.gavel import CURRENT, has_fields, slo_factors, tabs_of, weights
from rota.traces.registry import trace_format
from rota.traces.source import TraceSource
from rota.traces.table import TextTable, read_table

FIELDS = (*CURRENT[:7], "mode", "priority_weight", "SLO", "duration_s", "arrival_s")
NEEDED = ("job_type", "scale_factor", "total_steps", "mode", "duration_s", "arrival_s")
MODES = {mode: mode for mode in ("static", "accordion", "gns")}


@trace_format(
    "shockwave",
    description="Shockwave traces: Gavel's with dynamic batch sizes and durations",
    recognised="12 tab-separated fields without header, or a CSV header with " + ", ".join(NEEDED),
    matches=lambda source: has_fields(source, len(FIELDS)) or set(NEEDED) <= set(source.header()),
    example="LM (batch size 10)\tpython3 main.py\tlm\t--steps\t1\t1200\t2\tgns\t1\t-1.000000\t600\t30\n",
)
def read(source: TraceSource) -> Trace:
    table = _table(source)
    odd = Oddities(table, ids_of(table, "job_id") if table.has("job_id") else numbered(table))
    workload, workload_names = table.codes("job_type")
    submit_s, duration_s = table.floats("arrival_s"), table.floats("duration_s")
    return finish(
        "shockwave",
        odd,
        jobs={
            "submit_s": submit_s,
            "gpus": table.whole("scale_factor"),
            "deadline_s": submit_s + slo_factors(table) * duration_s,
            "weight": weights(table),
            "workload": workload,
            "workload_names": workload_names,
        },
        truth=Truth.build(duration_s, iterations=table.floats("total_steps")),
        facts={
            "duration": "seconds, with the batch size changing as the mode says",
            "mode": dict(zip(odd.ids, table.one_of("mode", MODES), strict=True)),
        },
    )


def _table(source: TraceSource) -> TextTable:
    fields = tabs_of(source)
    if fields == 0:
        table = read_table(source)
        table.require(*NEEDED)
        return table
    if fields != len(FIELDS):
        expected = f"{len(FIELDS)} tab-separated fields"
        raise InputError.at(
            f"the line has {plural(fields, 'field')}", file=source.file, row=1, expected=expected
        )
    return read_table(source, FIELDS, separator="\t", quoted=False)
