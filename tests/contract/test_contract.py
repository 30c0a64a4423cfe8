"""Every registered policy keeps the contract, and so do its variants."""

from __future__ import annotations

import polars as pl
import pytest

from play import finishes, play, starts, trace_of
from rota.model.cluster import Cluster, NodeShape
from rota.model.tenants import Tenant, Tenants
from rota.scheduler.policy import systems
from rota.testing import check_policy, variants
from rota.worlds.simulated.faults import Fault
from rota.worlds.simulated.run import Setting

DEFAULTS = list(systems())
VARIED = 25
"""A small scene with a bit of everything: cores, device memory, elastic jobs, one without a GPU, one that
is no gang, dependencies."""
VARIANTS = [variant for name in systems() for variant in variants(name)[1:]]

# Scenes by tier: `make quick` plays a plain and a rich one, `make test` some more, and variants of the
# parameters in a rich one, `make soak` many.  What fails says which sentence, and how to see it again.


@pytest.mark.parametrize("policy", DEFAULTS)
def test_policy(policy: str) -> None:
    check_policy(policy, seeds=(0, 1))


@pytest.mark.slow
@pytest.mark.parametrize("policy", DEFAULTS)
def test_policy_in_more_scenes(policy: str) -> None:
    check_policy(policy, seeds=(2, 3))


@pytest.mark.slow
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


def hopeless(name: str, **demand: float) -> object:
    return pytest.param(demand, id=name)


LIMITED = Cluster.build(
    [NodeShape(count=2, gpus=4, cpus=16, memory_gib=64, gpu_memory_gib=16, levels={"vc": "default"})],
    Tenants.of(Tenant("default", quota_gpus=2, hard=True)),
)


@pytest.mark.parametrize(
    "policy", [*DEFAULTS, "fifo:skip=yes", "fifo:backfill=easy", "tiresias:mode=artifact"]
)
@pytest.mark.parametrize(
    "demand",
    [
        hopeless("cores", cpus=20.0),
        hopeless("memory", memory_gib=65.0),
        hopeless("device memory", gpu_memory_gib=17.0),
        hopeless("quota", gpus=4),
        hopeless("type", gpu_types=1),
    ],
)
def test_who_can_never_run_is_refused_and_delays_nobody(policy: str, demand: dict[str, float]) -> None:
    """The first of two jobs asks for what no node, no device and no quota ever gives."""
    gpus = int(demand.get("gpus", 1))
    columns = {name: [value, 0] for name, value in demand.items() if name != "gpus"}
    trace = trace_of(f"A {gpus}x10 B 1x10@1", type_names=("H100",), **columns)
    record = play(policy, trace, LIMITED)
    assert record.jobs["state"].to_list() == ["REJECTED", "COMPLETED"]
    assert starts(record)["B"] < 361  # a round of max_min


TWO_GPUS_EACH = Cluster.build([NodeShape(count=2, gpus=4, cpus=8, levels={"vc": "default"})])


@pytest.mark.parametrize(
    "policy", [one for one in DEFAULTS if one not in ("gandiva", "gandiva_fair", "philly", "prerun")]
)
def test_a_gang_whose_nodes_feed_a_part_of_it_each(policy: str) -> None:
    """Four GPUs of four cores each on nodes of eight cores: two on each."""
    trace = trace_of("A 4x10 B 1x10@1", cpus=[16.0, 1.0])
    record = play(policy, trace, TWO_GPUS_EACH)
    assert record.jobs["state"].to_list() == ["COMPLETED"] * 2
    assert record.intervals.filter(pl.col("job") == 0)["nodes"].to_list()[0] == [0, 0, 1, 1]


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
