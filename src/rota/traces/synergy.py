"""Job lists of Synergy's simulator: a model, a number of iterations and how long one takes at the fair share.

From      msr-fiddle/synergy, `simulator/`; its generator keeps jobs in memory, the list is what it drew
Columns   job_id, model, arrival_s, total_iterations, gpus, iteration_time_s
Times     kept as they are
Odd       iterations are as long on one GPU as on eight; the speed-up by more cores or memory is in the
          profile of the model (`--slowdowns hosts=FILE`), and lists have the one that it gave them
Handling  the model is the workload; the duration is iterations x iteration time, at the share of cores and
          memory in proportion to GPUs
"""

from __future__ import annotations

from rota.model.jobs import Truth
from rota.model.trace import Trace
from rota.traces.build import Oddities, finish, ids_of
from rota.traces.registry import has_header, trace_format
from rota.traces.source import TraceSource
from rota.traces.table import read_table

COLUMNS = ("job_id", "model", "arrival_s", "total_iterations", "gpus", "iteration_time_s")


@trace_format(
    "synergy",
    description="Job lists of Synergy's simulator",
    recognised="a header with " + ", ".join(COLUMNS),
    matches=has_header(*COLUMNS),
    example="job_id,model,arrival_s,total_iterations,gpus,iteration_time_s\n0,res18,60,1000,1,0.64\n",
)
def read(source: TraceSource) -> Trace:
    table = read_table(source)
    table.require(*COLUMNS)
    workload, workload_names = table.codes("model")
    iterations = table.floats("total_iterations")
    return finish(
        "synergy",
        Oddities(table, ids_of(table, "job_id")),
        jobs={
            "submit_s": table.floats("arrival_s"),
            "gpus": table.whole("gpus"),
            "workload": workload,
            "workload_names": workload_names,
        },
        truth=Truth.build(iterations * table.floats("iteration_time_s"), iterations=iterations),
        facts={"duration": "iterations x iteration time, at the share in proportion to GPUs"},
    )
