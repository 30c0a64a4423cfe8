"""A cluster on which nobody runs waits for no round: who comes, or waits, and fits starts at once."""

from __future__ import annotations

from typing import Any

import pytest

from play import finishes, play, starts, trace_of
from rota.model.cluster import Cluster, NodeShape
from rota.model.tenants import CellQuota, Tenant, Tenants
from rota.model.trace import Trace
from rota.scheduler.policy import systems

EVERY = [name for name in systems() if name != "chronus"]
"""But for the one whose slots stand on the clock, because what it promises is counted in them."""
BY_ROUNDS = ["gavel", "gavel:objective=fifo,aware=no", "shockwave", "sia", "optimus", "synergy"]
ALONE = Cluster.build([NodeShape(1, 4, levels={"vc": "default"})])
PARTS = Cluster.build([NodeShape(1, 4, levels={"vc": unit}) for unit in "ab"])
CELLS = Cluster.build(
    [NodeShape(2, 4, device_levels={"pair": 2})],
    Tenants.of(*(Tenant(unit, cells=(CellQuota("node", 1),)) for unit in "ab")),
)


@pytest.mark.parametrize("policy", [*EVERY, *BY_ROUNDS, "synergy:policy=gavel", "synergy:policy=srtf"])
@pytest.mark.parametrize(
    ("jobs", "expected", "why"),
    [
        ("A 1x10 B 1x100@20", 20.0, "it comes after the only one has ended, within its round"),
        ("A 4x10 B 4x100@1", 10.0, "it waits while the only one has all GPUs"),
        ("A 1x10 B 1x100@20 C 0x99", 20.0, "who runs without a GPU keeps nobody waiting"),
    ],
    ids=["comes", "waits", "beside a CPU job"],
)
def test_an_idle_cluster_waits_for_no_round(policy: str, jobs: str, expected: float, why: str) -> None:
    assert starts(play(policy, jobs, ALONE))["B"] == expected, why


@pytest.mark.parametrize("policy", BY_ROUNDS)
def test_jobs_by_turns_on_an_otherwise_idle_cluster_end_one_after_the_other(policy: str) -> None:
    """Five of whole nodes and 10 s each, by ends alone; none of them outlives a round."""
    record = play(policy, "A 4x10 B 4x10@1 C 4x10@2 D 4x10@3 E 4x10@4", ALONE)
    assert sorted(finishes(record).values()) == [10.0, 20.0, 30.0, 40.0, 50.0]


def by_tenants(jobs: str, owners: str, **columns: Any) -> Trace:
    return trace_of(jobs, tenant=["ab".index(one) for one in owners], tenant_names=("a", "b"), **columns)


@pytest.mark.parametrize(
    ("policy", "cluster"),
    [
        *((f"partition:policy={one}", PARTS) for one in ("gavel", "shockwave", "sia", "optimus", "synergy")),
        *((f"hived:policy={one}", CELLS) for one in ("gavel", "shockwave", "synergy")),
    ],
)
def test_a_part_that_is_idle_waits_for_no_round(policy: str, cluster: Cluster) -> None:
    """L runs all the time in the other part."""
    jobs = by_tenants("A 1x10 L 4x5000 B 1x100@20", "aba")
    assert starts(play(policy, jobs, cluster))["B"] == 20.0


@pytest.mark.parametrize("policy", ["gavel", "shockwave", "synergy"])
def test_what_is_left_of_a_pool_waits_for_no_round(policy: str) -> None:
    """Both go through the pool for 5 s, where L is when B comes out of it."""
    record = play(f"prerun:policy={policy},for_s=5", "A 1x10 B 1x100@15 L 1x2@21", "2x4")
    assert finishes(record)["B"] == 115.0


@pytest.mark.parametrize(
    ("policy", "round_s"),
    [
        ("gavel@authors", 360.0),
        ("gavel@sia", 360.0),
        ("shockwave@authors", 120.0),
        ("sia@authors", 60.0),
        ("sia@fixed", 60.0),
        ("optimus@pollux", 60.0),
        ("synergy@authors", 300.0),
    ],
)
def test_who_reproduces_an_artifact_keeps_its_grid(policy: str, round_s: float) -> None:
    assert starts(play(policy, "A 1x10 B 1x100@20", ALONE))["B"] == round_s
