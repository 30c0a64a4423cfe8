"""Pollux and Sia workloads."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from rota.errors import InputError
from rota.traces import read
from shared_data import data, needs_shared, reference

HEAD = "name,time,application,num_replicas,batch_size\n"


def test_a_workload(read_text: Any) -> None:
    trace = read_text(HEAD + "ncf-0,20,ncf,4,32768\n")
    job = trace.jobs.job(0)
    assert (job.id, job.submit_s, job.workload, job.gpus, job.batch_size) == ("ncf-0", 20, "ncf", 4, 32768)
    assert np.isnan(trace.truth.duration_s).all()


def test_several_workloads_in_one_table_are_refused(read_text: Any) -> None:
    with pytest.raises(InputError, match="column 'workload': the table holds several workloads"):
        read_text("workload," + HEAD + "w1,a,1,ncf,1,512\nw2,a,1,ncf,1,512\n")


@needs_shared
@pytest.mark.shared
def test_the_published_load() -> None:
    traces = [read(data(f"pollux/workloads/workload-{n}.csv.gz")) for n in range(1, 8)]
    assert [len(trace) for trace in traces] == [160] * 7
    apps = Counter(trace.jobs.job(row).workload for trace in traces for row in range(len(trace)))
    assert apps == {"ncf": 448, "cifar10": 430, "deepspeech2": 94, "bert": 74, "yolov3": 51, "imagenet": 23}
    gpus = np.concatenate([trace.jobs.gpus for trace in traces])
    assert np.mean(gpus == 1) == pytest.approx(0.400, abs=6e-4)
    assert gpus.max() == 48


@needs_shared
@pytest.mark.shared
@pytest.mark.parametrize(
    ("file", "jobs"),
    [
        ("pollux/workloads-0.5/workload-1", 80),
        ("sia/workloads/newtrace/workload-1", 960),
        ("sia/workloads/scale/scale_32x/workload-1", 5120),
    ],
)
def test_other_published_workloads(file: str, jobs: int) -> None:
    trace = read(data(f"{file}.csv.gz"))
    assert (trace.format, len(trace)) == ("pollux", jobs)


@needs_shared
@pytest.mark.shared
def test_a_table_of_many_workloads_asks_for_one() -> None:
    with pytest.raises(InputError, match="expected one workload"):
        read(reference("gavel-pollux-sia/inputs/pollux_workloads.csv.gz"))
