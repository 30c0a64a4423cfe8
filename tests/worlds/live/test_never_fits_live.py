"""Who can never run is held aside with the reason, and blocks nobody, whichever policy is in charge."""

from __future__ import annotations

from typing import Any

import pytest
from live_stage import Stage

from rota.model.tenants import Tenant, Tenants
from rota.scheduler.policy import systems

HOPELESS: list[tuple[dict[str, Any], str]] = [
    ({"gpus": 9}, "needs 9 GPUs at once; the cluster has 8 it could use"),
    ({"gpus": 12, "gpus_min": 10, "gpus_max": 16}, "needs 10 GPUs at once; the cluster has 8 it could use"),
    ({"gpu_types": ["H100"]}, "needs GPUs of type H100; the cluster has none"),
    ({"cpus": 20}, "needs 20 CPU cores on one node; the largest node has 16"),
    ({"gpus": 0, "memory_gib": 65}, "needs 65 GiB of host memory on one node; the largest node has 64"),
    ({"gpu_memory_gib": 17}, "needs 17 GiB of device memory; the largest GPU has 16"),
    ({"gpus": 4, "tenant": "capped"}, "tenant capped would use 4 GPUs; its quota is 2"),
    ({"node_set": "n3|n4"}, "needs 1 GPU on nodes n3 or n4; the cluster has none"),
    ({"exclude_nodes": ["n1", "n2"]}, "needs 1 GPU on nodes other than n1 and n2; the cluster has none"),
]
"""What each asks for, and what its user is told."""


@pytest.mark.parametrize("policy", systems())
def test_who_can_never_run_is_held_aside(policy: str) -> None:
    tenants = Tenants.of(Tenant("capped", quota_gpus=2, hard=True))
    limits = {"cpus": 16, "memory_gib": 64, "gpu_memory_gib": 16, "levels": {"vc": "t"}}
    stage = Stage("gpu", gpu_type="A100", limits=limits, tenants=tenants, policy=policy, n1=4, n2=4)
    rows = stage.submit_all([asked for asked, _ in HOPELESS])
    other = stage.submit(gpus=1)
    for _ in range(8):
        if stage.job(other).attempts:
            break
        stage.wait(50.0)
    assert stage.job(other).attempts, "it waits behind those"
    assert [stage.holds(row) for row in rows] == [["infeasible"]] * len(rows)
    told = [stage.job(row).holds["infeasible"].constraint().sentence() for row in rows]
    assert told == [why for _, why in HOPELESS]
