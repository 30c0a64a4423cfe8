"""Tiresias job lists."""

from __future__ import annotations

import numpy as np
import pytest

from rota.traces import read
from shared_data import data, needs_shared, reference


@needs_shared
@pytest.mark.shared
def test_the_sixty_jobs() -> None:
    trace = read(data("tiresias/60_job.csv.gz"))
    counts = dict(zip(*np.unique(trace.jobs.gpus, return_counts=True), strict=True))
    assert (trace.format, len(trace), counts) == ("tiresias", 60, {1: 30, 2: 10, 4: 10, 8: 10})
    assert trace.jobs.submit_s[-1] == 1779
    assert np.sum(trace.jobs.gpus * trace.truth.duration_s) == 26624
    assert trace.jobs.job(0).workload == "vgg19"


@needs_shared
@pytest.mark.shared
def test_itp_in_this_form() -> None:
    trace = read(reference("tiresias-elasticflow-lucid/workloads/itp06_tiresias.csv.gz"))
    assert (trace.format, len(trace)) == ("tiresias", 2396)
    assert np.sum(trace.jobs.gpus * trace.truth.duration_s) / 3600 == pytest.approx(123878.7, abs=0.06)
