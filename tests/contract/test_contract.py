"""Every registered policy keeps the contract, and so do its variants."""

from __future__ import annotations

import pytest

from play import finishes, play, trace_of
from rota.model.cluster import Cluster, NodeShape
from rota.scheduler.policy import systems
from rota.testing import PROPERTIES, Property, check_policy, check_property, subject_of, variants
from rota.worlds.simulated.faults import Fault
from rota.worlds.simulated.run import Setting

DEFAULTS = list(systems())
VARIANTS = [variant for name in systems() for variant in variants(name)[1:]]

# Scenes by tier: `make quick` plays a plain and a rich one, `make test` some more, and variants of the
# parameters too, `make soak` many.


@pytest.mark.parametrize("policy", DEFAULTS)
@pytest.mark.parametrize("prop", PROPERTIES, ids=str)
def test_policy(policy: str, prop: Property) -> None:
    check_property(subject_of(policy), prop, seeds=(0, 1))


@pytest.mark.slow
@pytest.mark.parametrize("policy", DEFAULTS)
def test_policy_in_more_scenes(policy: str) -> None:
    check_policy(policy, seeds=range(2, 14))


@pytest.mark.slow
@pytest.mark.parametrize("policy", VARIANTS)
def test_variant(policy: str) -> None:
    check_policy(policy, seeds=range(6, 10))


@pytest.mark.soak
@pytest.mark.parametrize("policy", DEFAULTS)
def test_policy_in_many_scenes(policy: str) -> None:
    check_policy(policy, seeds=range(100, 140))


@pytest.mark.soak
@pytest.mark.parametrize("policy", VARIANTS)
def test_variant_in_many_scenes(policy: str) -> None:
    check_policy(policy, seeds=range(100, 110))


# -- what the suite has found ----------------------------------------------------------------------

HOSTS = Cluster.build([NodeShape(count=2, gpus=2, cpus=8, memory_gib=64, levels={"vc": "default"})])


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
