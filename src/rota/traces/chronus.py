"""Chronus workloads: Philly jobs to which its authors added strict and soft deadlines.

From      S-Lab-System-Group/ChronusArtifact, `trace_job_Philly_*.csv`
Columns   job_id, user (VC), num_gpu, submit_time, iterations, model_name, duration, interval,
          expect_time_list (after submission), expect_value_list, best_effort, job_type
          (strict, soft, best); lists are joined by `-`
Units     all times are minutes
Times     minutes become seconds; the origin is kept
Odd       not sorted; about 200 rows ask for no GPU; a soft job has four steps, worth 10, 8, 5 and 2 in
          turn; the expected time of a best-effort job means nothing
Handling  sorted; zero GPUs counted and kept as CPU jobs.  `deadline_s` is the first step (full value),
          `deadlines` all steps of soft jobs; best-effort jobs have no deadline
"""

from __future__ import annotations

import re

import numpy as np

from rota.model.columns import Bools, Floats
from rota.model.job_columns import Deadline
from rota.model.jobs import Truth
from rota.model.trace import Trace
from rota.traces.build import Oddities, finish, ids_of, tenant_paths
from rota.traces.registry import has_header, trace_format
from rota.traces.source import TraceSource
from rota.traces.table import MOST, TextTable, read_table

MINUTE_S = 60.0
_NUMBER = re.compile(r"\d+(?:\.\d*)?|\.\d+", re.ASCII)
KINDS = {kind: kind for kind in ("strict", "soft", "best")}


@trace_format(
    "chronus",
    description="Chronus workloads: Philly jobs with strict and soft deadlines, in minutes",
    recognised="a header with expect_time_list and expect_value_list",
    matches=has_header("expect_time_list", "expect_value_list"),
    example="job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,"
    "expect_time_list,expect_value_list,best_effort,job_type\n"
    "0,vc_a,2,5,900,vgg16,30,1,40-60-80-120,10-8-5-2,0,soft\n",
)
def read(source: TraceSource) -> Trace:
    table = read_table(source)
    submit_s = table.floats("submit_time") * MINUTE_S
    kinds = np.array(table.one_of("job_type", KINDS))
    steps = _steps(table, submit_s, kinds != "best")
    odd = Oddities(table, ids_of(table, "job_id"))
    workload, workload_names = table.codes("model_name")
    first = np.array([several[0].at_s if several else np.nan for several in steps])
    return finish(
        "chronus",
        odd,
        jobs={
            "submit_s": submit_s,
            "gpus": table.whole("num_gpu"),
            "deadline_s": np.where(kinds == "best", np.nan, first),
            "deadlines": {row: steps[row] for row in np.flatnonzero(kinds == "soft").tolist()},
            **tenant_paths(table, "user"),
            "workload": workload,
            "workload_names": workload_names,
        },
        truth=Truth.build(table.floats("duration") * MINUTE_S, iterations=table.floats("iterations")),
        facts={"duration": "minutes as recorded, times 60"},
    )


def _steps(table: TextTable, submit_s: Floats, counts: Bools) -> list[tuple[Deadline, ...]]:
    """Deadlines of each job from its two lists; jobs marked in `counts` must have valid ones."""
    times = [_numbers(cell) for cell in table.text("expect_time_list")]
    values = [_numbers(cell) for cell in table.text("expect_value_list")]
    for name, lists in (("expect_time_list", times), ("expect_value_list", values)):
        table.reject(_empty(lists) & counts, name, "{} is not a list", "numbers joined by -")
    uneven = np.array([len(t) != len(v) for t, v in zip(times, values, strict=True)])
    table.reject(
        uneven & counts, "expect_value_list", "{} is not as long as expect_time_list", "a value for each time"
    )
    falls = np.array([t != sorted(t) for t in times], dtype=np.bool_)
    table.reject(falls & counts, "expect_time_list", "{} does not rise", "the earliest time first")
    return [
        tuple(
            Deadline(float(start + minutes * MINUTE_S), value) for minutes, value in zip(t, v, strict=False)
        )
        for start, t, v in zip(submit_s, times, values, strict=True)
    ]


def _numbers(cell: str) -> list[float]:
    """Numbers joined by `-`; empty if anything is not a number."""
    parts = cell.strip().split("-")
    numbers = [float(part) for part in parts if _NUMBER.fullmatch(part)]
    return numbers if len(numbers) == len(parts) and all(number <= MOST for number in numbers) else []


def _empty(lists: list[list[float]]) -> Bools:
    return np.array([not numbers for numbers in lists], dtype=np.bool_)
