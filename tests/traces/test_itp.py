"""ITP job lists, raw: the totals the publisher's files must give."""

from __future__ import annotations

import numpy as np
import pytest

from rota.traces import read
from shared_data import data, needs_shared

# cluster  jobs  GPU-hours  share of single-GPU jobs  most GPUs
ITP = [
    ("01", 1595, 22740.1, 0.9592, 64),
    ("02", 5778, 123748.4, 0.8544, 64),
    ("03", 3011, 165442.5, 0.3368, 64),
    ("04", 15802, 705682.9, 0.7546, 64),
    ("05", 3629, 14303.1, 0.9548, 8),
    ("06", 2396, 123878.7, 0.4478, 64),
    ("07", 12699, 366799.8, 0.7760, 16),
    ("09", 11134, 39000.8, 1.0000, 1),
    ("10", 260, 4023.5, 0.7423, 16),
]


@needs_shared
@pytest.mark.shared
@pytest.mark.parametrize(("cluster", "jobs", "gpu_hours", "single", "most"), ITP)
def test_clusters(cluster: str, jobs: int, gpu_hours: float, single: float, most: int) -> None:
    trace = read(data(f"itp_elasticflow/raw/cluster{cluster}.csv.gz"))
    gpus, duration_s = trace.jobs.gpus, trace.truth.duration_s
    assert (trace.format, len(trace), int(gpus.max())) == ("itp", jobs, most)
    assert np.sum(gpus * duration_s) / 3600 == pytest.approx(gpu_hours, abs=0.06)
    assert np.mean(gpus == 1) == pytest.approx(single, abs=6e-5)
    assert duration_s.min() >= 600
    assert trace.odd == ()


@needs_shared
@pytest.mark.shared
def test_the_origin_common_to_all_clusters_is_kept() -> None:
    """Cluster 01 starts weeks after the collection did."""
    assert read(data("itp_elasticflow/raw/cluster01.csv.gz")).jobs.submit_s[0] == 1932025
