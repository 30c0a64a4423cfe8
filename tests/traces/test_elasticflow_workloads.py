"""ElasticFlow workloads: the two spellings of its columns, deadlines, best effort."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rota.traces import read
from shared_data import data, needs_shared, reference


def test_the_other_spelling_and_best_effort(read_text: Any) -> None:
    trace = read_text(
        "job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu,duration,best_effort\n"
        "0,10,100,vgg16,500,64,2,300,0\n"
        "1,20,200,gpt2,90,128,1,300,1\n"
        "2,30,300,gpt2,90,128,1,300,0\n"
    )
    assert trace.jobs.deadline_s.tolist() == pytest.approx([500, np.nan, 90], nan_ok=True)
    assert trace.truth.iterations.tolist() == [100, 200, 300]
    assert [trace.jobs.name_of("workload", row) for row in range(3)] == ["vgg16", "gpt2", "gpt2"]
    assert [(odd.what, odd.count) for odd in trace.odd] == [
        ("deadline nearer than the duration at the requested GPUs", 1)
    ]


def test_a_best_effort_job_may_have_anything_for_a_deadline(read_text: Any) -> None:
    """Nothing, or the -1 by which some lists say that there is none."""
    trace = read_text(
        "job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu,duration,best_effort\n"
        "0,10,100,vgg16,500,64,2,300,0\n"
        "1,20,200,gpt2,-1,128,1,300,1\n"
        "2,30,300,gpt2,,128,1,300,1\n"
    )
    assert trace.jobs.deadline_s.tolist() == pytest.approx([500, np.nan, np.nan], nan_ok=True)


def test_a_wrong_deadline_of_a_job_that_has_one_is_named(read_text: Any) -> None:
    trace = read_text(
        "job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu,duration,best_effort\n"
        "0,10,100,vgg16,,64,2,300,1\n"
        "1,20,200,gpt2,,128,1,300,0\n"
        "2,30,200,gpt2,900,128,1,300,0\n"
    )
    assert list(trace.jobs.ids) == ["0", "2"]
    assert trace.remarks[0].startswith("Left out: 1 row (row 3): ddl: the cell is empty; expected")


# file  jobs  GPU-hours
FILES = [
    (data("itp_elasticflow/with_deadlines/195job.csv.gz"), 195, 5489.8),
    (data("itp_elasticflow/with_deadlines/cluster10.csv.gz"), 260, 4023.5),
    (data("elasticflow/philly_103959.csv.gz"), 876, None),
    (reference("tiresias-elasticflow-lucid/workloads/elasticflow_100jobs_1500lam.csv.gz"), 100, None),
    (reference("tiresias-elasticflow-lucid/workloads/elasticflow_elasticVpollux_e.csv.gz"), 195, None),
    (reference("tiresias-elasticflow-lucid/workloads/elasticflow_itp10.csv.gz"), 260, 4023.5),
    (reference("tiresias-elasticflow-lucid/workloads/elasticflow_itp195.csv.gz"), 195, 5489.8),
]


@needs_shared
@pytest.mark.shared
@pytest.mark.parametrize(
    ("file", "jobs", "gpu_hours"), FILES, ids=lambda value: getattr(value, "name", str(value))
)
def test_published_files(file: Any, jobs: int, gpu_hours: float | None) -> None:
    trace = read(file)
    assert (trace.format, len(trace)) == ("elasticflow", jobs)
    if gpu_hours is not None:
        assert np.sum(trace.jobs.gpus * trace.truth.duration_s) / 3600 == pytest.approx(gpu_hours, abs=0.06)


@needs_shared
@pytest.mark.shared
def test_slack_and_scale_of_the_published_files() -> None:
    itp = read(data("itp_elasticflow/with_deadlines/cluster04.csv.gz"))
    slack = (itp.jobs.deadline_s - itp.jobs.submit_s) / itp.truth.duration_s
    assert (slack.min(), slack.max()) == pytest.approx((0.5, 1.5), abs=0.01)
    philly = read(data("elasticflow/philly_103959.csv.gz"))
    counts = dict(zip(*np.unique(philly.jobs.gpus, return_counts=True), strict=True))
    assert counts == {1: 513, 4: 330, 2: 33}
