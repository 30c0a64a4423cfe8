"""PAI job lists: instances, fractions of GPUs."""

from __future__ import annotations

from typing import Any

import pytest

from rota.traces import read
from shared_data import needs_shared, reference

HEAD = "job_id,user,group,submit_time,duration,num_gpu,num_cpu,num_inst\n"


# GPUs per instance  instances  GPUs  share  odd
@pytest.mark.parametrize(
    ("per_instance", "instances", "gpus", "share", "odd"),
    [
        ("0.25", 1, 1, 0.25, False),
        ("1", 1, 1, 1.0, False),
        ("2", 4, 8, 1.0, False),
        ("0", 3, 0, 1.0, False),
        ("0.5", 4, 4, 0.5, False),
        ("1.5", 1, 2, 1.0, True),
    ],
)
def test_sizes(read_text: Any, per_instance: str, instances: int, gpus: int, share: float, odd: bool) -> None:
    trace = read_text(HEAD + f"0,u,g,5,60,{per_instance},6,{instances}\n")
    job = trace.jobs.job(0)
    assert (job.gpus, job.gpu_share, job.cpus) == (gpus, share, 6 * instances)
    assert ("fraction beyond one GPU" in {o.what for o in trace.odd}) is odd


@needs_shared
@pytest.mark.shared
def test_the_stand_in_list() -> None:
    trace = read(reference("tiresias-elasticflow-lucid/workloads/pai_itp5k.csv.gz"))
    assert (trace.format, len(trace), trace.odd) == ("pai", 5000, ())
    job = trace.jobs.job(0)
    assert (job.tenant, job.group, job.submit_s) == ("07vgg16", "07vgg16-128", 1999)
