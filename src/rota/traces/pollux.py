"""Pollux and Sia workloads: which application, when, at what size.

From      petuum/adaptdl (osdi21-artifact) and siasosp23/artifacts, `workload-N.csv`
Columns   name, time (s), application, num_replicas (GPUs a user would ask for), batch_size (global)
Times     kept as they are: seconds from the start of the window
Odd       no durations: a job ends when its application has made the progress its profile asks for;
          some tables of workloads put several files together (column workload, with load or family)
Handling  `duration_s` is NaN; `facts["duration"]` names the source that is needed.  Several workloads in
          one table are refused: pick one first
"""

from __future__ import annotations

import numpy as np

from rota.errors import InputError
from rota.model.jobs import Truth
from rota.model.trace import Trace
from rota.traces.build import Oddities, finish, ids_of
from rota.traces.registry import has_header, trace_format
from rota.traces.source import TraceSource
from rota.traces.table import TextTable, read_table

COLUMNS = ("name", "time", "application", "num_replicas", "batch_size")


@trace_format(
    "pollux",
    description="Pollux and Sia workloads",
    recognised="a header with " + ", ".join(COLUMNS),
    matches=has_header(*COLUMNS),
    example="name,time,application,num_replicas,batch_size\ncifar10-0,16,cifar10,2,512\n",
)
def read(source: TraceSource) -> Trace:
    table = read_table(source)
    table.require(*COLUMNS)
    _check_single(table)
    workload, workload_names = table.codes("application")
    return finish(
        "pollux",
        Oddities(table, ids_of(table, "name")),
        jobs={
            "submit_s": table.floats("time"),
            "gpus": table.whole("num_replicas"),
            "batch_size": table.floats("batch_size"),
            "workload": workload,
            "workload_names": workload_names,
        },
        truth=Truth.build(np.full(len(table), np.nan)),
        facts={"duration": "epochs of the application's profile / goodput"},
    )


def _check_single(table: TextTable) -> None:
    """Raise if the table holds more than one workload, whose jobs would be mixed."""
    for column in ("workload", "load", "family"):
        if table.has(column) and table.text(column).n_unique() > 1:
            raise InputError.at(
                "the table holds several workloads",
                file=table.file,
                field=column,
                expected="one workload; filter the rows of the one to read",
            )
