"""The cleaned Philly list."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rota.traces import read
from shared_data import data, needs_shared


def test_stamps_are_shifted_and_rows_sorted(read_text: Any) -> None:
    trace = read_text(
        "timestamp,duration,num_gpus,gpu_time,cluster\n"
        "2017-10-02 00:00:00,66.0,1,66.0,vcb\n2017-10-01 00:00:00,10.0,8,80.0,vca\n\n"
    )
    assert trace.jobs.submit_s.tolist() == [0.0, 86400.0]
    assert list(trace.jobs.ids) == ["1", "0"]
    assert [trace.jobs.job(row).tenant for row in range(2)] == ["vca", "vcb"]
    assert trace.facts["epoch"] == "2017-10-01 00:00:00"


@needs_shared
@pytest.mark.shared
def test_the_published_list() -> None:
    trace = read(data("philly/philly_jobs_pollux.csv.gz"))
    gpus, duration_s = trace.jobs.gpus, trace.truth.duration_s
    odd = {odd.what: odd.count for odd in trace.odd}
    counts = dict(zip(*np.unique(gpus, return_counts=True), strict=True))
    assert (len(trace), len(trace.jobs.tenant_names)) == (82247, 15)
    assert np.sum(gpus * duration_s) / 3600 == pytest.approx(978078.5, abs=0.06)
    assert counts == {1: 76627, 2: 1818, 4: 1870, 8: 1643, 12: 7, 16: 199, 24: 7, 32: 67, 64: 6, 128: 3}
    assert np.percentile(duration_s, [50, 90, 99]) == pytest.approx([1144.0, 11264.8, 254758.4], abs=0.06)
    assert int((duration_s >= 3600).sum()) == 18645
    assert odd["exact duplicate of an earlier row"] == 65
    assert trace.facts["epoch"] == "2017-09-04 10:30:41"
    assert (np.diff(trace.jobs.submit_s) >= 0).all()
