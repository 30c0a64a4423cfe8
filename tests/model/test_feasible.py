"""What a cluster has too little of for a job, even with nobody on it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rota.model.cluster import Cluster, NodeShape
from rota.model.feasible import Need, Shortfall, feasible_rows, host_shortfalls, never_fits
from rota.model.jobs import JobTable
from rota.model.reasons import Code
from rota.model.tenants import Tenant, Tenants

CORES, MEMORY = "CPU cores", "GiB of host memory"
TWO = Cluster.build([NodeShape(2, 4, "A100", cpus=8, memory_gib=64)])
MIXED = Cluster.build([NodeShape(1, 4, "A100", memory_gib=64), NodeShape(1, 4, "V100", memory_gib=256)])
UNEVEN = Cluster.build([NodeShape(1, 4, memory_gib=64), NodeShape(1, 4, memory_gib=16)])
OPEN = Cluster.build([NodeShape(1, 4, memory_gib=64), NodeShape(1, 4)])
FIVE = Cluster.build([NodeShape(1, 5, memory_gib=64)])


@pytest.mark.parametrize(
    ("cluster", "need", "shortfalls"),
    [
        (TWO, Need(1, 1, 8, 64), []),
        (TWO, Need(1, 1, 9, 65), [Shortfall(9, 8, CORES), Shortfall(65, 64, MEMORY)]),
        (TWO, Need(0, 0, 0, 65), [Shortfall(65, 64, MEMORY)]),
        (TWO, Need(4, 4, 0, 96), []),  # two on each of the nodes
        (TWO, Need(4, 4, 0, 160), [Shortfall(160, 64, MEMORY)]),
        (TWO, Need(4, 2, 0, 160), []),  # runs on two, one on each of the nodes
        (TWO, Need(16, 16, 16, 0), []),  # devices are what it lacks
        (TWO, Need(16, 16, 160, 0), [Shortfall(40, 8, CORES)]),
        (FIVE, Need(5, 5, 0, 64), []),  # 64 / 12.8 is 5, and a computer's is less
        (MIXED, Need(1, 1, 0, 100), []),
        (MIXED, Need(1, 1, 0, 100, ["A100"]), [Shortfall(100, 64, MEMORY)]),
        (MIXED, Need(0, 0, 0, 100, ["A100"]), []),  # no device, no type
        (UNEVEN, Need(8, 8, 0, 128), [Shortfall(64, 64, MEMORY)]),  # of which there is one
        (OPEN, Need(1, 1, 99, 999), []),  # a capacity of 0 is unlimited
    ],
)
def test_what_no_node_has(cluster: Cluster, need: Need, shortfalls: list[Shortfall]) -> None:
    assert host_shortfalls(cluster, need) == shortfalls


def test_a_node_that_never_comes_back_has_nothing() -> None:
    assert host_shortfalls(replace(MIXED, gone=(1,)), Need(1, 1, 0, 100)) == [Shortfall(100, 64, MEMORY)]


BIG = NodeShape(1, 4, "A100", gpu_memory_gib=80, cpus=16, memory_gib=512)
SMALL = NodeShape(2, 8, "V100", gpu_memory_gib=16, cpus=16, memory_gib=64)
TEAMS = Tenants.of(
    Tenant("ml", quota_gpus=6, hard=True, quota_by_type={"A100": 1}),
    Tenant("ml/ann", quota_gpus=9, hard=True),
    Tenant("soft", quota_gpus=1),
)
BOTH = Cluster.build([BIG, SMALL], TEAMS)


@pytest.mark.parametrize(
    ("need", "sentence"),
    [
        (Need(16, 16), ""),
        (Need(17, 17), "needs 17 GPUs at once; the cluster has 16 it could use"),  # one type, not 20 of two
        (Need(17, 16), ""),  # elastic: it can run on 16
        (Need(5, 5, types=("A100",)), "needs 5 GPUs at once; the cluster has 4 it could use"),
        (Need(1, 1, types=("H100",)), "needs GPUs of type H100; the cluster has none"),
        (Need(4, 4, gpu_memory_gib=80), ""),
        (Need(5, 5, gpu_memory_gib=80), "needs 80 GiB of device memory; too few GPUs have it"),
        (Need(1, 1, gpu_memory_gib=81), "needs 81 GiB of device memory; the largest GPU has 80"),
        (
            Need(1, 1, gpu_memory_gib=20, types=("V100",)),
            "needs 20 GiB of device memory; the largest GPU has 16",
        ),
        (Need(1, 1, cpus=17), "needs 17 CPU cores on one node; the largest node has 16"),
        (Need(8, 8, cpus=32), ""),  # four on each of the two
        (Need(8, 8, cpus=40), "needs 40 CPU cores on one node; the largest node has 16"),
        (Need(4, 4, memory_gib=256), ""),
        (Need(8, 8, memory_gib=256), "needs 256 GiB of host memory on one node; the largest node has 64"),
        (Need(0, 0, cpus=17), "needs 17 CPU cores on one node; the largest node has 16"),
        (Need(6, 6, tenant="ml"), ""),
        (Need(7, 7, tenant="ml"), "tenant ml would use 7 GPUs; its quota is 6"),
        (Need(7, 7, tenant="ml/ann"), "tenant ml would use 7 GPUs; its quota is 6"),
        (Need(2, 2, types=("A100",), tenant="ml"), "tenant ml would use 2 GPUs; its quota is 1"),
        (Need(1, 1, share=0.5, types=("A100",), tenant="ml"), ""),
        (Need(9, 9, tenant="soft"), ""),  # may borrow
    ],
)
def test_what_never_fits(need: Need, sentence: str) -> None:
    assert [one.sentence() for one in never_fits(BOTH, need)] == ([sentence] if sentence else [])


def test_all_that_is_lacking_is_said() -> None:
    lacks = never_fits(BOTH, Need(20, 20, 400, 9999, gpu_memory_gib=99, tenant="ml"))
    codes = [Code.GANG_TOO_LARGE, Code.MEMORY_TOO_LARGE, *2 * [Code.HOST_TOO_LARGE], Code.QUOTA]
    assert [one.code for one in lacks] == codes


def test_half_a_device_under_half_a_quota() -> None:
    tenants = Tenants.of(Tenant("t", quota_gpus=0.5, hard=True))
    cluster = Cluster.build([NodeShape(1, 1)], tenants)
    assert not never_fits(cluster, Need(1, 1, share=0.5, tenant="t"))
    assert never_fits(cluster, Need(1, 1, share=0.6, tenant="t"))


def test_the_rows_of_a_table() -> None:
    """Row by row what `never_fits` says, although equal requests are looked at once."""
    jobs = JobTable.build(
        ["a", "b", "c", "d", "e", "a2"],
        submit_s=[0] * 6,
        gpus=[1, 1, 17, 7, 1, 1],
        cpus=[1.0, 99.0, 0, 0, 0, 1.0],
        gpu_memory_gib=[0, 0, 0, 0, 99.0, 0],
        tenant=[0, 0, 0, 1, 0, 0],
        tenant_names=("free", "ml"),
    )
    assert feasible_rows(jobs, BOTH).tolist() == [True, False, False, False, False, True]
