"""Cells that are kept between decisions: what comes out is what cells built anew at each of them give."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from play import trace_of
from rota.model.cluster import Cluster, NodeShape
from rota.model.job_columns import JobKind
from rota.model.tenants import CellQuota, Tenant, Tenants
from rota.model.trace import Trace
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.snapshot import Snapshot
from rota.systems.hived.system import Hived
from rota.worlds.simulated.faults import Fault
from rota.worlds.simulated.run import Setting, run
from tiers import first, in_turns

TENANTS = (
    Tenant("A", cells=(CellQuota("node", 2),)),
    Tenant("B", cells=(CellQuota("pair", 2), CellQuota("device", 2))),
    Tenant("C"),
)
CLUSTER = Cluster.build([NodeShape(count=4, gpus=4, device_levels={"pair": 2})], Tenants.of(*TENANTS))
SETTINGS = ("hived", "hived:lazy=yes", "hived:policy=srtf", "hived:policy=las[quantum=60]")
FAULTS = (Fault(0, 50.0, 90.0), Fault(2, 300.0, 420.0))


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """While its one item is True every policy forgets all that it keeps besides its memory."""
    forgets, decide = [False], Hived.decide

    def afresh(policy: Hived, snapshot: Snapshot, memory: Memory) -> Decision:
        if forgets[0]:
            policy._kept = policy._asked = policy._lines = None
        return decide(policy, snapshot, memory)

    monkeypatch.setattr(Hived, "decide", afresh)
    return forgets


def many(seed: int) -> Trace:
    """Jobs of tenants with and without cells, some of them urgent, some opportunists."""
    draw = np.random.default_rng(seed)
    count = 40
    at_s = np.cumsum(draw.exponential(12.0, count)).round(1)
    sizes, lengths = draw.choice([1, 1, 2, 3, 4], count), draw.integers(5, 200, count)
    text = " ".join(f"J{i} {sizes[i]}x{lengths[i]}@{at_s[i]}" for i in range(count))
    trace = trace_of(text, tenant=draw.integers(0, 3, count), tenant_names=("A", "B", "C"))
    kinds = np.where(draw.random(count) < 0.2, int(JobKind.OPPORTUNISTIC), trace.jobs.kind)
    return replace(trace, jobs=replace(trace.jobs, priority=draw.integers(0, 3, count), kind=kinds))


@pytest.mark.parametrize(("policy", "state"), in_turns(1, SETTINGS, ["well", "faults"]))
@pytest.mark.parametrize("seed", first(1, range(4)))
def test_keeping_the_cells_changes_nothing(seed: int, policy: str, state: str, forgetful: list[bool]) -> None:
    records, faults = [], FAULTS if state == "faults" else ()
    for forgets in (False, True):
        forgetful[0] = forgets
        records.append(run(policy, many(seed), CLUSTER, Setting(faults=faults)))
    kept, afresh = records
    assert kept.intervals.equals(afresh.intervals)
    assert kept.decisions == afresh.decisions


def test_cells_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are built once for a run in which nothing breaks."""
    built, clusters = [], Hived._layout_of

    def noted(policy: Hived, cluster: Cluster) -> object:
        built.append(policy._kept is None)
        return clusters(policy, cluster)

    monkeypatch.setattr(Hived, "_layout_of", noted)
    run("hived", many(0), CLUSTER)
    assert built.count(True) == 1
    assert len(built) > 60
