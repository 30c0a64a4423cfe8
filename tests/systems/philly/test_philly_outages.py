"""Nodes that are lost: attempts do not wait for them, and their GPUs count for nobody."""

from __future__ import annotations

import pytest

from play import play, starts, trace_of
from rota.model.cluster import Cluster, NodeShape
from rota.model.tenants import Tenant, Tenants
from rota.worlds.simulated.faults import Fault
from rota.worlds.simulated.run import Setting

HOUR_S = 3600.0


@pytest.mark.parametrize(
    ("jobs", "nodes", "lost", "expected", "why"),
    [
        ("A 8x100 B 8x50@10", 2, [(0, 5, HOUR_S)], {"A": 0, "B": 100}, "B waits for A's node"),
        ("A 8x100 B 8x50@10", 2, [(0, 0, HOUR_S)], {"A": 0, "B": 100}, "lost before as well"),
        ("A 8x100 B 8x50@10", 2, [(1, 5, 60)], {"A": 0, "B": 60}, "back within the attempt"),
        ("Z 24x9@1 B 8x50@10 C 8x50@20", 3, [(0, 0, HOUR_S)], {"Z": 3601, "B": 10, "C": 20}, "Z holds none"),
        ("Z 24x9@1 B 8x50@10", 3, [(0, 0, 90)], {"Z": 90, "B": 10}, "until its nodes are there"),
        ("A 8x50 B 8x90 C 8x9@5", 2, [(0, 10, 20)], {"A": 0, "B": 0, "C": 60}, "A is back first"),
    ],
)  # fmt: skip
def test_who_starts_when(
    jobs: str, nodes: int, lost: list[tuple[int, float, float]], expected: dict[str, float], why: str
) -> None:
    setting = Setting(faults=[Fault(*one) for one in lost])
    assert starts(play("philly", jobs, f"{nodes}x8", setting)) == expected, why


def test_a_quota_is_taken_back_where_all_gpus_that_are_there_are_in_use() -> None:
    """Half of the cluster is away for good: the other half was never 90 % of it, and B waited for A's end."""
    tenants = Tenants.of(Tenant("a", 0.0), Tenant("b", 16.0))
    trace = trace_of("A 8x3000 B 8x50@10", tenant=[0, 1], tenant_names=("a", "b"))
    lost = Setting(faults=[Fault(0, 0.0, 9e9)])
    assert starts(play("philly", trace, Cluster.build([NodeShape(2, 8)], tenants), lost))["B"] == 10.0
