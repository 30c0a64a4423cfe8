"""Gavel traces in both widths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rota.traces import read
from shared_data import data, needs_shared, reference

LM = 'LM (batch size 10)\tpython3 main.py --data "%s"\tlm\t--steps\t1'


def test_ten_columns(read_text: Any) -> None:
    """Factors that matter are kept by job id; a quote is an ordinary character."""
    trace = read_text(f"{LM}\t1200\t2\t1\t-1.000000\t30\n{LM}\t900\t4\t5\t1.2\t60\n")
    assert trace.jobs.gpus.tolist() == [2, 4]
    assert trace.jobs.submit_s.tolist() == [30, 60]
    assert trace.truth.iterations.tolist() == [1200, 900]
    assert np.isnan(trace.truth.duration_s).all()
    assert np.isnan(trace.jobs.deadline_s).all()
    assert trace.jobs.weight.tolist() == [1, 5]
    assert trace.jobs.job(1).workload == "LM (batch size 10)"
    assert trace.facts == {
        "duration": "steps / throughput table",
        "slo_factor": {"1": 1.2},
    }


def test_seven_columns(read_text: Any) -> None:
    trace = read_text("A3C\tpython3 a.py\t-n\t1\t500\t7.5\t12\n")
    job = trace.jobs.job(0)
    assert (job.workload, job.submit_s, job.gpus) == ("A3C", 7.5, 12)
    assert [(odd.what, odd.count) for odd in trace.odd] == [("scale factor without measured throughput", 1)]


# trace  jobs
MSR = [
    *(("0e4a51", 1181), ("103959", 986), ("ed69ec", 951), ("e13805", 607)),
    *((big, 2000) for big in ("11cb48", "6214e9", "6c71a0", "b436b2", "ee9e8c")),
]
PHYSICAL = [
    *(("max_min_fairness", 96), ("minimize_makespan", 100), ("artifact_evaluation", 15), ("small_test", 20)),
    *(("medium_test", 20), ("highmem_test", 8), ("debug", 14)),
]
FILES = [(f"traces_msr_seed0/{n}", jobs) for n, jobs in MSR] + [
    (f"traces_physical/{n}", jobs) for n, jobs in PHYSICAL
]


@needs_shared
@pytest.mark.shared
@pytest.mark.parametrize(("name", "jobs"), FILES)
def test_published_traces(name: str, jobs: int) -> None:
    trace = read(data(f"gavel/{name}.trace.gz"))
    assert (trace.format, len(trace)) == ("gavel", jobs)
    assert (trace.truth.iterations > 0).all()


@needs_shared
@pytest.mark.shared
def test_the_physical_trace_and_its_table_agree() -> None:
    trace = read(data("gavel/traces_physical/max_min_fairness.trace.gz"))
    table = read(reference("gavel-pollux-sia/inputs/gavel_physical_las.csv.gz"))
    counts = dict(zip(*np.unique(trace.jobs.gpus, return_counts=True), strict=True))
    assert counts == {1: 59, 2: 19, 4: 18}
    assert trace.jobs.submit_s[-1] == 46317
    for column in ("submit_s", "gpus", "workload"):
        np.testing.assert_array_equal(getattr(trace.jobs, column), getattr(table.jobs, column))
    assert list(trace.jobs.ids) == list(table.jobs.ids)
