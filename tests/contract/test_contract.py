"""Every registered policy keeps the contract, and so do its variants."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from play import finishes, play, trace_of
from rota.model.cluster import Cluster, NodeShape
from rota.model.tenants import Tenant, Tenants
from rota.scheduler.policy import systems
from rota.testing import check_policy
from rota.testing.subject import all_variants
from rota.worlds.simulated.faults import Fault
from rota.worlds.simulated.run import Setting
from tiers import in_turns

DEFAULTS = list(systems())
VARIED = 25
"""A small scene with a bit of everything: cores, device memory, elastic jobs, one without a GPU, one that
is no gang, dependencies."""
VARIANTS = all_variants()

# Scenes by tier: `make quick` plays a plain and a rich one, `make test` some more, and variants of the
# parameters in a rich one, `make soak` many.  What fails says which sentence, and how to see it again.


@pytest.mark.parametrize("policy", DEFAULTS)
def test_policy(policy: str) -> None:
    check_policy(policy, seeds=(0, 1))


@pytest.mark.soak
@pytest.mark.parametrize("policy", DEFAULTS)
def test_policy_in_more_scenes(policy: str) -> None:
    check_policy(policy, seeds=(2, 3))


@pytest.mark.soak
@pytest.mark.parametrize("policy", VARIANTS)
def test_variant(policy: str) -> None:
    check_policy(policy, seeds=[VARIED])


@pytest.mark.soak
@pytest.mark.parametrize("policy", DEFAULTS)
def test_policy_in_many_scenes(policy: str) -> None:
    check_policy(policy, seeds=[*range(4, 8), *range(100, 130)])


@pytest.mark.soak
@pytest.mark.parametrize("policy", VARIANTS)
def test_variant_in_many_scenes(policy: str) -> None:
    check_policy(policy, seeds=[6, 7, *range(100, 106)])


# -- what the suite has found ----------------------------------------------------------------------


def test_a_limit_that_is_reached_right_after_an_end_undoes_nothing() -> None:
    """A job ends, and half a second later another falls to the next queue: both count at once."""
    check_policy("afs:lengths=no,queues=100/1000", seeds=[56])


HOSTS = Cluster.build([NodeShape(count=2, gpus=2, cpus=8, memory_gib=64, levels={"vc": "default"})])


TWO_GPUS_EACH = Cluster.build([NodeShape(count=2, gpus=4, cpus=8, levels={"vc": "default"})])


@pytest.mark.parametrize("policy", DEFAULTS)
def test_a_gang_whose_nodes_feed_a_part_of_it_each(policy: str) -> None:
    """Four GPUs of four cores each on nodes of eight cores: two on each; D needs all four of a node."""
    trace = trace_of("A 4x10 B 1x10@1 C 3x10@1 D 4x10@2", cpus=[16.0, 1.0, 9.0, 8.0])
    record = play(policy, trace, TWO_GPUS_EACH)
    assert record.jobs["state"].to_list() == ["COMPLETED"] * 4
    assert record.intervals.filter(pl.col("job") == 0)["nodes"].to_list()[0] == [0, 0, 1, 1]


BARRED_FROM_A = {
    "none allowed": {"quota": {"A": 0.0}},
    "too few allowed": {"quota": {"A": 1.0}},
    "cores": {"cpus": 16.0},
    "memory": {"memory_gib": 128.0},
    "device memory": {"gpu_memory_gib": 32.0},
    "nodes": {"node_set": [0] * 4, "node_set_names": ("b",)},
}


@pytest.mark.parametrize(("policy", "barred"), in_turns(2, DEFAULTS, [*BARRED_FROM_A]))
def test_who_can_run_on_one_type_only_does(policy: str, barred: str) -> None:
    """None of four jobs of two GPUs may ever have those of A; B has room for two at a time."""
    columns: dict[str, Any] = dict(BARRED_FROM_A[barred])
    quota = columns.pop("quota", {})
    shapes = [
        NodeShape(2, 2, "A", cpus=4, memory_gib=32, gpu_memory_gib=16, labels=("a",), levels={"vc": "t"}),
        NodeShape(2, 2, "B", cpus=16, memory_gib=128, gpu_memory_gib=32, labels=("b",), levels={"vc": "t"}),
    ]
    tenants = Tenants.of(Tenant("t", quota_gpus=8, hard=True, quota_by_type=quota))
    trace = trace_of("J 2x1000 K 2x1000 L 2x1000 M 2x1000@1", tenant_names=("t",), tenant=[0] * 4, **columns)
    record = play(policy, trace, Cluster.build(shapes, tenants))
    assert record.jobs["state"].to_list() == ["COMPLETED"] * 4
    if policy != "synergy":  # which gives less than is asked for where there is less
        assert record.intervals.filter(pl.col("nodes").list.min() < 2).is_empty()


@pytest.mark.parametrize("policy", DEFAULTS)
def test_a_cpu_job_keeps_off_a_lost_node(policy: str) -> None:
    """Both run on node 0 until it is lost at 4 s; the other node takes them."""
    trace = trace_of("A 0x10 B 0x10", cpus=4.0, memory_gib=8.0)
    record = play(policy, trace, HOSTS, Setting(faults=[Fault(0, 4.0, 1e6)]))
    assert all(finish < 1e5 for finish in finishes(record).values())


@pytest.mark.parametrize("policy", DEFAULTS)
def test_jobs_with_and_without_gpus_share_a_host(policy: str) -> None:
    """A takes six of node 0's CPUs, so that B and C meet on node 1 or wait; all end."""
    trace = trace_of("A 1x10 B 0x10 C 2x10 D 4x10", cpus=[6.0, 3.0, 5.0, 12.0], memory_gib=8.0)
    record = play(policy, trace, HOSTS)
    assert record.jobs["state"].to_list() == ["COMPLETED"] * 4
