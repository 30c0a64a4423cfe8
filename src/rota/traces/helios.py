"""SenseTime Helios, 2020: four clusters with state, user and queueing time of every job.

From      S-Lab-System-Group/HeliosData, `cluster_log.csv` of each cluster
Columns   job_id, user, vc, gpu_num, cpu_num (cores in all), node_num, state, submit_time, start_time,
          end_time, duration (s of running), queue (s of waiting; not needed)
States    COMPLETED, CANCELLED, FAILED, TIMEOUT, NODE_FAIL
Times     local stamps without zone; shifted: the first submission is at 0
Odd       more than half of the jobs ask for no GPU; a job cancelled while waiting has no start
Handling  CPU jobs counted and kept; cancelled while waiting: kept with duration 0 as CANCELLED;
          TIMEOUT and NODE_FAIL count as FAILED; no run time recorded for another state: dropped.
          The tenant is `vc/user`
"""

from __future__ import annotations

import numpy as np

from rota.model.jobs import Outcome, RecordedRun, Truth
from rota.model.trace import Trace
from rota.traces.build import Oddities, finish, ids_of, tenant_paths
from rota.traces.registry import has_header, trace_format
from rota.traces.source import TraceSource
from rota.traces.table import read_table

COLUMNS = (
    *("job_id", "user", "vc", "gpu_num", "cpu_num", "node_num", "state"),
    *("submit_time", "start_time", "end_time", "duration", "queue"),
)
STATES = {
    "COMPLETED": Outcome.COMPLETED,
    "CANCELLED": Outcome.CANCELLED,
    "FAILED": Outcome.FAILED,
    "TIMEOUT": Outcome.FAILED,
    "NODE_FAIL": Outcome.FAILED,
}


@trace_format(
    "helios",
    description="SenseTime Helios 2020, cluster_log.csv",
    recognised="a header with " + ", ".join(COLUMNS),
    matches=has_header(*COLUMNS),
    example=",".join(COLUMNS) + "\n"
    "7,u1,vc1,8,64,1,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:01:00,2020-04-01 01:01:00,3600,60\n",
)
def read(source: TraceSource) -> Trace:
    table = read_table(source)
    table.require(*COLUMNS)
    submitted, start, end = (
        table.stamps(name, blank=name != "submit_time") for name in ("submit_time", "start_time", "end_time")
    )
    outcome = np.array(table.one_of("state", STATES))
    odd = Oddities(table, ids_of(table, "job_id"))
    duration_s = table.floats("duration", blank=np.nan)
    waiting = (outcome == Outcome.CANCELLED) & np.isnan(start) & ~(duration_s > 0)
    duration_s[waiting] = 0.0
    odd.note("cancelled while waiting", "kept with duration 0", waiting)
    for state in ("TIMEOUT", "NODE_FAIL"):
        ended = (table.text("state").str.strip_chars().str.to_uppercase() == state).to_numpy()
        odd.note(f"ended as {state}", "kept as failed", ended)
    odd.drop("no run time recorded", "how long it ran is not known", np.isnan(duration_s))
    return finish(
        "helios",
        odd,
        jobs={
            "submit_s": submitted,
            "gpus": table.whole("gpu_num"),
            "cpus": table.floats("cpu_num", blank=0.0),
            **tenant_paths(table, "vc", "user"),
        },
        truth=Truth.build(duration_s, outcome=outcome),
        observed=RecordedRun(start, end),
        facts={"duration": "seconds of running as recorded"},
        zone="local time of the cluster, zone not recorded",
    )
