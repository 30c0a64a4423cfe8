"""MIG slices count by their part of a GPU in what a report says was held."""

from __future__ import annotations

import pytest

import rota
from play import trace_of
from rota.reports.metrics import granted_gpu_s, utilisation
from rota.reports.occupancy import job_parts, whole_gpus_of
from rota.reports.sample import Sample


def simulated(cluster: str) -> rota.Results:
    """A job on two devices for 70 s, then one on one device for 70 s, of the second type if there are two."""
    types = tuple(dict.fromkeys(part.split(":")[1] for part in cluster.split(",")))
    masks = [1, 1 << (len(types) - 1)]
    trace = trace_of("A 2x70 B 1x70@70", gpu_types=masks, type_names=types)
    return rota.simulate(trace, cluster=cluster, policies="fifo")


# the cluster, GPU-seconds granted, GPUs of the cluster
@pytest.mark.parametrize(
    ("cluster", "granted", "gpus"),
    [
        ("1x2:a100", 210.0, 2.0),
        ("1x7:1g.5gb", 30.0, 1.0),
        ("1x7:1g.5gb,1x1:a100", 20.0 + 70.0, 2.0),
        ("1x2:1g.5gb,1x1:3g.20gb", 20.0 + 30.0, 5 / 7),
    ],
)
def test_what_was_held_counts_by_its_part(cluster: str, granted: float, gpus: float) -> None:
    results = simulated(cluster)
    record = results["fifo"]
    sample = Sample.of(record)
    assert granted_gpu_s(sample) == pytest.approx(granted)
    assert whole_gpus_of(record) == pytest.approx(gpus)
    assert utilisation(sample) == pytest.approx(granted / (140.0 * gpus))
    assert len(job_parts(record)) == 2
    assert any("MIG slice" in remark for remark in results.remarks) == ("g." in cluster)
