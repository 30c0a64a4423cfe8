"""An attempt that hard quotas, cores or memory keep from starting stays open, and starts when they let it."""

from __future__ import annotations

from typing import Any

import pytest

from play import play, starts, trace_of
from rota.model.cluster import Cluster, NodeShape
from rota.model.tenants import Tenant, Tenants

CAPPED = Tenants.of(Tenant("capped", quota_gpus=2.0, hard=True))
HOST = {"cpus": 16.0, "memory_gib": 64.0}


def started(jobs: str, owners: str, nodes: int = 1, **columns: Any) -> dict[str, float]:
    """Starts on nodes of 4 GPUs, 16 cores and 64 GiB; `owners` has c for who may use 2 GPUs."""
    cluster = Cluster.build([NodeShape(nodes, 4, **HOST)], CAPPED)
    tenants = ["oc".index(one) for one in owners]
    trace = trace_of(jobs, tenant=tenants, tenant_names=("open", "capped"), **columns)
    return starts(play("philly", trace, cluster))


@pytest.mark.parametrize(
    ("jobs", "owners", "expected", "why"),
    [
        ("A 2x10 B 2x10", "cc", 10.0, "the quota has room when A ends, within the attempt"),
        ("A 2x10 B 2x10@5", "cc", 10.0, "the attempt opened at 5"),
        ("A 2x10 C 2x10 D 2x10 B 2x10", "cccc", 30.0, "one after the other, in order"),
        ("A 2x200 B 2x10", "cc", 300.0, "the attempt ended at 180, and the pause at 300"),
        ("A 1x10 O 3x20 B 2x10", "coc", 20.0, "the quota has room at 10, the node at 20"),
    ],
)
def test_a_quota_that_has_room_again(jobs: str, owners: str, expected: float, why: str) -> None:
    assert started(jobs, owners)["B"] == expected, why


@pytest.mark.parametrize("asked", [{"cpus": [16, 4, 0]}, {"memory_gib": [64, 4, 0]}])
def test_cores_and_memory_that_are_free_again(asked: dict[str, Any]) -> None:
    """And nobody who needs none is kept waiting by what B could not use yet."""
    assert started("A 1x10 B 1x10 O 3x5@1", "ooo", **asked) == {"A": 0.0, "B": 10.0, "O": 1.0}


def test_who_may_not_start_holds_nothing() -> None:
    """B is older than O and may have no GPU before 50."""
    assert started("A 2x50 B 2x10 O 2x10@1", "cco") == {"A": 0.0, "B": 50.0, "O": 1.0}


def test_a_gang_that_nodes_feed_in_part() -> None:
    """A has the cores of one node; B needs 8 for each GPU, two on either node."""
    assert started("A 1x10 B 4x10", "oo", nodes=2, cpus=[16, 32]) == {"A": 0.0, "B": 10.0}
