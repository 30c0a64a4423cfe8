"""What is kept of who stays: dropping it before every decision changes nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from play import trace_of
from rota.model.cluster import Cluster, NodeShape
from rota.model.trace import Trace
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.snapshot import Snapshot
from rota.systems.synergy.demand import Demands
from rota.systems.synergy.kept import KeptAsks
from rota.systems.synergy.system import Synergy
from rota.systems.synergy.unmoved import Unmoved
from rota.table.free import Free
from rota.worlds.simulated.faults import Fault
from rota.worlds.simulated.run import Setting, run
from tiers import first

NODES = Cluster.build([NodeShape(count=4, gpus=4, cpus=32, memory_gib=64)])
ENDLESS = Cluster.build([NodeShape(count=4, gpus=4)])
TYPES = Cluster.build(
    [NodeShape(count=2, gpus=4, gpu_type="V100"), NodeShape(count=2, gpus=4, gpu_type="P100")]
)
FAULTS = (Fault(0, 500.0, 900.0), Fault(2, 3000.0, 4200.0))
SETTINGS = ("synergy", "synergy:policy=srtf", "synergy:migrate=yes", "synergy:mechanism=greedy")


BARE_SETTINGS = ("synergy", "synergy:policy=srtf", "synergy:policy=las[quantum=600]", "synergy:round_s=0")


def many(seed: int) -> Trace:
    draw = np.random.default_rng(seed)
    at_s = np.cumsum(draw.exponential(120.0, 40)).round(1)
    sizes, lengths = draw.choice([1, 1, 2, 3, 8], 40), draw.integers(50, 2000, 40)
    trace = trace_of(" ".join(f"J{i} {sizes[i]}x{lengths[i]}@{at_s[i]}" for i in range(40)))
    cpus = sizes * draw.choice([0.0, 2.0, 9.0], 40)
    return replace(trace, jobs=replace(trace.jobs, cpus=cpus))


@pytest.mark.parametrize("faults", [(), FAULTS], ids=["well", "faults"])
@pytest.mark.parametrize("policy", SETTINGS)
@pytest.mark.parametrize("seed", first(1, range(4)))
def test_keeping_changes_nothing(
    seed: int, policy: str, faults: tuple[Fault, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = run(policy, many(seed), NODES, Setting(faults=faults))
    decide = Synergy.decide

    def afresh(policy: Synergy, snapshot: Snapshot, memory: Memory) -> Decision:
        policy._view = None
        return decide(policy, snapshot, memory)

    monkeypatch.setattr(Synergy, "decide", afresh)
    fresh = run(policy, many(seed), NODES, Setting(faults=faults))
    assert kept.intervals.equals(fresh.intervals)
    assert kept.decisions == fresh.decisions


def bare(seed: int) -> Trace:
    """The same without cores: nobody is short of anything."""
    trace = many(seed)
    return replace(trace, jobs=replace(trace.jobs, cpus=np.zeros(len(trace))))


@pytest.mark.parametrize("faults", [(), FAULTS], ids=["well", "faults"])
@pytest.mark.parametrize("cluster", [ENDLESS, TYPES], ids=["one", "two"])
@pytest.mark.parametrize("policy", BARE_SETTINGS)
@pytest.mark.parametrize("seed", first(1, range(4)))
def test_looking_at_everybody_changes_nothing(
    seed: int, policy: str, cluster: Cluster, faults: tuple[Fault, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = run(policy, bare(seed), cluster, Setting(faults=faults))
    monkeypatch.setattr(Unmoved, "knows", lambda *_: False)
    whole = run(policy, bare(seed), cluster, Setting(faults=faults))
    assert quick.intervals.equals(whole.intervals)
    assert quick.decisions == whole.decisions


def test_who_stays_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    wants = Demands.of

    def seen(demands: Demands, row: int, gpus: int) -> object:
        looked.append(row)
        return wants(demands, row, gpus)

    monkeypatch.setattr(Demands, "of", seen)
    stay = " ".join(f"S{i} 1x90000@0" for i in range(12))
    come = " ".join(f"C{i} 1x250@{100 + 600 * i}" for i in range(20))
    run("synergy", trace_of(f"{stay} {come}"), ENDLESS)
    # When it starts, when the world has started it, and when it is gone.
    assert max(map(looked.count, looked)) <= 3


@pytest.mark.parametrize("policy", BARE_SETTINGS)
def test_only_who_runs_is_kept(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    feed = Synergy._fed

    def checked(synergy: Synergy, snapshot: Snapshot, decision: Decision, own: Memory) -> Decision:
        fed = feed(synergy, snapshot, decision, own)
        assert synergy._kept is not None
        runs = {*snapshot.grants, *(grant.job for grant in fed.grants)} - {*fed.preempt, *fed.cancel}
        assert synergy._given.keys() == synergy._kept.asks.keys() == runs
        return fed

    monkeypatch.setattr(Synergy, "_fed", checked)
    run(policy, bare(0), ENDLESS, Setting(faults=FAULTS))


def test_the_empty_cluster_has_no_devices_that_are_down() -> None:
    kept, whole = KeptAsks(NODES), Free.of(NODES)
    kept.empty(set()).take(0, 3)  # of a copy
    for down in (set(), {1, 2, 9}, {9}, set()):
        free = kept.empty(down)
        assert {device for device in range(16) if not free.is_free(device)} == down
        assert free.total == whole.total - len(down)
