"""HiveD: a policy inside a virtual cluster sees its cells as a cluster of its own, whatever they are of."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from play import finishes, play, trace_of
from rota.model.cluster import Cluster, NodeShape
from rota.model.tenants import CellQuota, Tenant, Tenants
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.policy import Policy, parse_policy
from rota.scheduler.snapshot import Snapshot
from rota.testing.subject import Watched


def of_sizes(*gpus: int) -> Cluster:
    return Cluster.build([NodeShape(1, each) for each in gpus])


def remembering_nothing_else(policy: str) -> Watched:
    """The policy made anew for each decision: all it knows of the last one is its memory."""

    def around(inner: Policy, snapshot: Snapshot, memory: Memory) -> Decision:
        return parse_policy(policy).make().decide(snapshot, memory)

    return Watched(parse_policy(policy).make(), around)


@pytest.mark.parametrize("seen", [str, remembering_nothing_else])
@pytest.mark.parametrize("policy", ["fifo", "las", "srtf", "tiresias", "drf"])
def test_a_gang_on_nodes_of_unlike_sizes(policy: str, seen: Callable[[str], str | Watched]) -> None:
    """A needs both nodes; it waited for ever, and all others behind it."""
    jobs = "A 3x10 B 1x10@1 C 2x10@2 D 3x10@3 E 3x2@4"
    alone = finishes(play(policy, jobs, of_sizes(1, 2)))
    assert finishes(play(seen(f"hived:policy={policy}"), jobs, of_sizes(1, 2))) == alone


@pytest.mark.parametrize("policy", ["fifo", "srtf", "gandiva_fair", "hived"])
def test_a_gang_goes_where_cores_feed_it(policy: str) -> None:
    """A needs three cores, which one node has not; each feeds one of its GPUs.  B comes behind it."""
    cluster = Cluster.build([NodeShape(1, 2, cpus=2), NodeShape(1, 2, cpus=2)])
    trace = trace_of("A 2x10 B 1x10@1 C 1x10@2", cpus=[3.0, 1.0, 2.0])
    assert max(finishes(play(f"hived:policy={policy}", trace, cluster)).values()) <= 130.0


def test_types_are_called_as_by_whoever_tells_of_them() -> None:
    """`gavel` was told of all types by their codes, and counted those of its tenant's cells from 0."""
    cells = {name: (CellQuota("node", 1, gpu_type=kind),) for name, kind in (("a", "V100"), ("b", "T4"))}
    tenants = Tenants.of(*(Tenant(name, cells=own) for name, own in cells.items()))
    cluster = Cluster.build([NodeShape(1, 4, gpu_type="T4"), NodeShape(1, 4, gpu_type="V100")], tenants)
    trace = trace_of("A 1x10 B 4x10 C 4x10@1", tenant=[0, 1, 0], tenant_names=("a", "b"))
    record = play("hived:policy=gavel", trace, cluster)
    assert finishes(record) == {"A": 10.0, "B": 10.0, "C": 20.0}
    assert record.intervals.filter(record.intervals["job_id"] == "B")["devices"].to_list() == [[0, 1, 2, 3]]


def test_who_is_refused_reads_a_sentence() -> None:
    record = play("hived", "A 3x10", of_sizes(1, 2))
    assert record.jobs["why"][0].startswith("asks for 3 GPUs; no kind of node has cells that could ever hold")
