"""Elastic jobs of Themis that pay with what they have just got, while others have come to where they were."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rota.model.cluster import Cluster, NodeShape
from rota.model.trace import Trace
from rota.stages.resize import keeping
from rota.table.free import Free
from rota.traces.generate import generate
from rota.worlds.simulated.run import run

BARE = Cluster.build([NodeShape(count=10, gpus=8)])
SHORT = Cluster.build([NodeShape(count=10, gpus=8, cpus=96)])


def elastic(cluster: Cluster) -> Trace:
    """Six jobs in ten can do with half of what they ask for, or use up to four times as much."""
    trace = generate(100, seed=1, load=0.7, cluster=BARE)
    draw = np.random.default_rng(1)
    gpus = np.minimum(trace.jobs.gpus, 16)
    grows = draw.random(len(trace)) < 0.6
    most = np.where(grows, np.minimum(gpus * draw.integers(1, 5, len(trace)), 32), gpus)
    least = np.where(grows, np.maximum(gpus // 2, 1), gpus)
    cpus = gpus * draw.choice([0.0, 2.0, 4.0, 8.0, 12.0], len(trace)) * (cluster is SHORT)
    jobs = replace(trace.jobs, gpus=gpus, gpus_min=least, gpus_max=np.maximum(most, gpus), cpus=cpus)
    return replace(trace, jobs=jobs)


@pytest.mark.soak
@pytest.mark.parametrize("cluster", [BARE, SHORT], ids=["bare", "cores"])
def test_who_pays_goes_back_to_where_nobody_is(cluster: Cluster) -> None:
    trace = elastic(cluster)
    record = run("themis", trace, cluster)
    assert not {"PENDING", "RUNNING"} & set(record.jobs["state"])
    assert len(record.jobs) == len(trace)


def test_of_devices_that_a_node_cannot_feed_none_is_kept() -> None:
    free = Free.of(BARE)
    free.remove(1)  # a job of 0, 1 and 2 is to grow where only two can be fed
    for gpus in (1, 2, 3, 4, 12):
        trial = free.copy()
        devices = keeping((0, 1, 2))(trial, gpus)
        assert devices is not None
        assert len(set(devices)) == gpus
        assert all(map(free.is_free, devices))
        assert trial.total == free.total - gpus
