"""Gandiva_fair: what the small jobs of a server may not use, a job on several servers does."""

from __future__ import annotations

import pytest

from play import finishes, play, trace_of
from rota.model.cluster import Cluster, NodeShape
from rota.model.tenants import Tenant, Tenants


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_no_big_job_gives_way_to_one_that_its_quota_keeps_out(share: float) -> None:
    """A uses up the quota of s; B, of s too, belongs to a server of C, which nobody else can use."""
    cluster = Cluster.build(
        [NodeShape(2, 1, gpu_type="K80"), NodeShape(2, 1, gpu_type="V100")],
        Tenants.of(Tenant("s", quota_gpus=2.0, hard=True)),
    )
    trace = trace_of(
        "A 2x1200 B 1x100 C 2x300",
        tenant=[0, 0, 1],
        tenant_names=("s", "v"),
        type_names=("K80", "V100"),
        gpu_types=[1, 2, 2],
        gpu_share=[1.0, 1.0, share],
    )
    assert finishes(play("gandiva_fair", trace, cluster)) == {"A": 1200.0, "B": 1300.0, "C": 300.0}
