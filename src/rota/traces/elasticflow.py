"""ElasticFlow workloads: ITP or Philly jobs to which its authors added models, iterations and deadlines.

From      microsoft/elasticflow-traces (`elasticflow-traces.tar.gz`) and pkusys/ElasticFlow
Columns   job_id, submission_time | submit_time (s), num_iteration | iteration, model_name,
          deadline | ddl (s, absolute), batch_size (global), num_gpu, duration (s at num_gpu);
          some add best_effort (1: the deadline does not count), real_duration and real_iteration
Times     kept as they are
Odd       deadline minus submission is 0.5 to 1.5 times the duration, so that about half of the deadlines
          can only be met by scaling out
Handling  deadlines at or before submission, or nearer than the duration, are counted and kept;
          with best_effort = 1 the deadline becomes none
"""

from __future__ import annotations

import numpy as np

from rota.model.columns import Floats
from rota.model.jobs import Truth
from rota.model.trace import Trace
from rota.traces.build import Oddities, finish, ids_of
from rota.traces.registry import trace_format
from rota.traces.source import TraceSource
from rota.traces.table import TextTable, read_table


def _matches(source: TraceSource) -> bool:
    header = set(source.header())
    return {"num_gpu", "duration", "model_name"} <= header and bool({"deadline", "ddl"} & header)


@trace_format(
    "elasticflow",
    description="ElasticFlow workloads: ITP or Philly jobs with models and deadlines",
    recognised="a header with num_gpu, duration, model_name and deadline or ddl",
    matches=_matches,
    example="job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration\n"
    "e1,0,5000,resnet50,2500,256,2,2000\n",
)
def read(source: TraceSource) -> Trace:
    table = read_table(source)
    submit_s = table.floats(table.first_of("submission_time", "submit_time"))
    duration_s = table.floats("duration")
    workload, workload_names = table.codes("model_name")
    deadline_s = _deadlines(table)
    odd = Oddities(table, ids_of(table, "job_id"))
    tight = deadline_s < submit_s + duration_s
    odd.note("deadline nearer than the duration at the requested GPUs", "kept", tight)
    return finish(
        "elasticflow",
        odd,
        jobs={
            "submit_s": submit_s,
            "gpus": table.whole("num_gpu"),
            "deadline_s": deadline_s,
            "batch_size": table.floats("batch_size"),
            "workload": workload,
            "workload_names": workload_names,
        },
        truth=Truth.build(
            duration_s, iterations=table.floats(table.first_of("num_iteration", "iteration", "iterations"))
        ),
        facts={"duration": "seconds at the requested GPUs; at other counts iterations / throughput table"},
    )


def _deadlines(table: TextTable) -> Floats:
    """Absolute deadlines; NaN for best-effort jobs, whatever the file has there."""
    name = table.first_of("deadline", "ddl")
    if not table.has("best_effort"):
        return table.floats(name)
    marks = table.whole("best_effort")
    table.reject(marks > 1, "best_effort", "{} is neither yes nor no", "1 or 0")
    counts = marks == 0
    deadline_s = np.full(len(table), np.nan)
    if counts.any():
        deadline_s[counts] = table.take(counts).floats(name)
    return deadline_s
