"""What policies inside policies say to whoever asks: who is ahead, what is meant to be given."""

from __future__ import annotations

import numpy as np
import pytest

from hearing import heard
from rota.model.cluster import Cluster, NodeShape, parse_cluster
from rota.model.tenants import CellQuota, Tenant, Tenants
from rota.scheduler.policy import parse_policy
from rota.scheduler.reasons.waiting import explain
from rota.systems.chronus.profiling import Trials, profiled

VC = Cluster.build([NodeShape(1, 4, levels={"vc": unit}) for unit in "ab"])
OWNED = [Tenant(one, cells=(CellQuota("node", 1),)) for one in "ab"]
CELLS = Cluster.build([NodeShape(2, 4)], Tenants.of(*OWNED))
OWNERS = {"tenant": np.array([0, 1, 0, 0, 1]), "tenant_names": ("a", "b")}
JOBS = "A 4x1000 B 4x1000 C 2x500@1 D 4x100@2 E 1x900@3"


MEASURED = "fifo, measured"
NEVER_TRIED = "A 16x1000 B 16x100@1 C 16x50@2"


@pytest.mark.parametrize(
    ("policy", "jobs", "cluster", "ahead", "why"),
    [
        ("partition:policy=fifo", JOBS, VC, {2: [], 3: [2], 4: []}, "the parts are apart"),
        (
            "partition:policy=srtf",
            JOBS,
            VC,
            {0: [2], 2: []},
            "C is shorter than A",
        ),
        ("hived:policy=fifo", JOBS, CELLS, {2: [], 3: [2], 4: []}, "in its cells"),
        ("prerun:policy=fifo,nodes=1,least_gpus=99", NEVER_TRIED, parse_cluster("5x4"), {1: [], 2: [1]}, ""),
        (MEASURED, NEVER_TRIED, parse_cluster("5x4"), {1: [], 2: [1]}, "too many GPUs to be measured"),
    ],
)
def test_who_is_ahead(
    policy: str, jobs: str, cluster: Cluster, ahead: dict[int, list[int]], why: str
) -> None:
    inner = parse_policy("fifo").make
    made = profiled(inner, Trials(1)) if policy == MEASURED else parse_policy(policy).make()
    snapshot, decision = heard(made, jobs, cluster, **(OWNERS if jobs == JOBS else {}))
    assert decision.ranking is not None
    said = {row: list(decision.ranking.ahead(snapshot, row)) for row in ahead if snapshot.waits(row)}
    assert said == {row: rows for row, rows in ahead.items() if snapshot.waits(row)}, why
    assert said
    decided = {grant.job for grant in decision.grants}
    for row, rows in said.items():
        told = " ".join(constraint.detail for constraint in explain(snapshot, decision, row))
        assert all(snapshot.jobs.table.ids[one] in told for one in rows if one not in decided)


@pytest.mark.parametrize(
    ("policy", "cluster"),
    [
        ("partition:policy=gavel", VC),
        ("hived:policy=gavel", CELLS),
        ("prerun:policy=gavel,least_gpus=99", VC),
    ],
)
def test_what_is_meant_to_be_given(policy: str, cluster: Cluster) -> None:
    """A and B, each on a node of its own, share it with the jobs of their tenant or with all."""
    _, decision = heard(parse_policy(policy).make(), JOBS, cluster, **OWNERS)
    assert decision.targets is not None
    assert decision.target == "part of its time"
    assert {0, 1} <= set(decision.targets)
    assert all(0.0 <= part <= 1.0 + 1e-9 for part in decision.targets.values())
