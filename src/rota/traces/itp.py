"""Microsoft ITP clusters, 2021: ten production clusters over two months, as bare job lists.

From      microsoft/elasticflow-traces, `raw-traces.tar.gz`, one CSV per cluster
Columns   job_id (UUID), submission_time (s from the start of the collection), duration (s of running),
          num_gpu
Times     kept as they are: all clusters share the origin, and some start weeks after it
Odd       every job ran at least 600 s, since shorter ones were removed before publication; no status,
          user or node
Handling  nothing special: zero durations, zero GPUs, duplicates and disorder would be counted and kept
"""

from __future__ import annotations

from rota.model.jobs import Truth
from rota.model.trace import Trace
from rota.traces.build import Oddities, finish, ids_of
from rota.traces.registry import trace_format
from rota.traces.source import TraceSource
from rota.traces.table import read_table

COLUMNS = ("job_id", "submission_time", "duration", "num_gpu")


@trace_format(
    "itp",
    description="Microsoft ITP clusters (elasticflow-traces, raw)",
    recognised="a header of exactly " + ",".join(COLUMNS),
    matches=lambda source: set(source.header()) == set(COLUMNS),
    example="job_id,submission_time,duration,num_gpu\na1,0,700,1\na2,30,3600,8\n",
)
def read(source: TraceSource) -> Trace:
    table = read_table(source)
    table.require(*COLUMNS)
    return finish(
        "itp",
        Oddities(table, ids_of(table, "job_id")),
        jobs={"submit_s": table.floats("submission_time"), "gpus": table.whole("num_gpu")},
        truth=Truth.build(table.floats("duration")),
        facts={"duration": "seconds of running as recorded"},
    )
