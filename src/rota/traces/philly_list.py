"""Microsoft Philly, 2017, as the list that Pollux cleaned and others reuse.

From      petuum/adaptdl, branch osdi21-artifact, `simulator/traces/philly.csv` (also in Sia, ElasticFlow)
Columns   timestamp (submission, local time without zone; the utilisation files say US Pacific),
          duration (s), num_gpus, gpu_time (duration x num_gpus; not needed), cluster (hash of the VC)
Times     shifted: the first submission is at 0
Odd       not sorted; 65 exact duplicates; no ids, status or queueing time; a subset (82,247 of
          117,325 jobs) picked by an undocumented rule, so absolute load is low; ends with a blank line
Handling  sorted; duplicates counted and kept; jobs are numbered from 0 in the order of the file;
          the tenant is the VC
"""

from __future__ import annotations

from rota.model.jobs import Truth
from rota.model.trace import Trace
from rota.traces.build import Oddities, finish, numbered, tenant_paths
from rota.traces.registry import trace_format
from rota.traces.source import TraceSource
from rota.traces.table import read_table

COLUMNS = ("timestamp", "duration", "num_gpus", "gpu_time", "cluster")


@trace_format(
    "philly-list",
    description="Microsoft Philly 2017 as a cleaned list (Pollux, Sia, ElasticFlow artifacts)",
    recognised="a header of exactly " + ",".join(COLUMNS),
    matches=lambda source: set(source.header()) == set(COLUMNS),
    example="timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-01 08:00:00,60.0,2,120.0,vc1\n",
)
def read(source: TraceSource) -> Trace:
    table = read_table(source)
    table.require(*COLUMNS)
    return finish(
        "philly-list",
        Oddities(table, numbered(table)),
        jobs={
            "submit_s": table.stamps("timestamp"),
            "gpus": table.whole("num_gpus"),
            **tenant_paths(table, "cluster"),
        },
        truth=Truth.build(table.floats("duration")),
        facts={"duration": "seconds of running as recorded"},
        zone="local time of the cluster, zone not recorded",
    )
