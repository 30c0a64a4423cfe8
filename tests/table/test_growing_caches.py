"""Policies keep what they derive from the table of jobs; when jobs arrive in it, that must not be stale."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from play import job
from rota.model.cluster import Cluster, NodeShape
from rota.model.growing import GrowingTable
from rota.scheduler.decision import Event
from rota.scheduler.moments.replica import TracedState, traced_state
from rota.scheduler.moments.values import copied
from rota.scheduler.policy import Policy, parse_policy, systems
from rota.scheduler.snapshot import Snapshot
from rota.table.state import Phase
from tiers import first

CLUSTER = Cluster.build(
    [
        NodeShape(count=1, gpus=4, cpus=16, memory_gib=64, levels={"vc": "vision", "rack": "r0"}),
        NodeShape(count=1, gpus=4, cpus=16, memory_gib=64, levels={"vc": "speech", "rack": "r1"}),
    ]
)
PLAIN = sorted(name for name, entry in systems().items() if not entry.needs and name != "partition")
VARIANTS = ["fifo:skip=yes", "partition:by=vc,policy=fifo[skip=yes]", "tiresias:promote=2"]


def arrive(state: TracedState, table: GrowingTable, rng: Random) -> None:
    gpus = rng.choice([1, 1, 2, 3, 4])
    extra = {"cpus": rng.choice([0.0, 1.0, 3.0, 9.0])} if rng.random() < 0.7 else {}
    tenant = rng.choice(["vision", "speech/bob"])
    one = job(f"j{table.filled}", gpus=gpus, tenant=tenant, submit_s=state.now, limit_s=50.0, **extra)
    one = replace(one, gang=True)
    row = table.append(one)
    state.entered(replace(one, row=row), ())
    state.submit(row)


def carry_out(
    state: TracedState, policy: Policy, twin: Policy, memory: dict[str, object]
) -> dict[str, object]:
    """One decision, made by `policy` and by a fresh `twin`."""
    snapshot = Snapshot(state, int(Event.ANY), {}, frozenset(policy.needs))
    told = copied(memory)
    decision = policy.decide(snapshot, memory)
    again = twin.decide(Snapshot(state, int(Event.ANY), {}, frozenset(policy.needs)), told)
    assert (list(again.grants), list(again.preempt)) == (list(decision.grants), list(decision.preempt))
    for row in decision.preempt:
        state.free(row)
        state.stop(row)
    for row in decision.reject:
        state.withdraw(row, Phase.REJECTED)
    if decision.reservations is not None:
        state.reservations = tuple(decision.reservations)
    moves = [grant for grant in decision.grants if grant.job in state.grants]
    for grant in moves:
        state.free(grant.job)
    for grant in moves:
        state.change(grant)
    for grant in decision.grants:
        if grant.job not in state.grants:
            state.start(grant)
    return decision.memory


@pytest.mark.parametrize("name", [*PLAIN, *VARIANTS])
@pytest.mark.parametrize("seed", first(1, range(3)))
def test_a_policy_with_caches_decides_as_one_without(name: str, seed: int) -> None:
    rng, table = Random(seed), GrowingTable(80)
    state = traced_state(table, CLUSTER)
    policy, memory = parse_policy(name).make(), dict[str, object]()
    for _ in range(60):
        state.now += rng.choice([0.0, 5.0, 30.0, 120.0])
        for _ in range(rng.randint(0, 2)):
            arrive(state, table, rng) if table.filled < table.capacity else None
        running = state.running.sorted().tolist()
        if running and rng.random() < 0.5:
            row = rng.choice(running)
            state.free(row)
            state.stop(row, Phase.COMPLETED)
        for grant in state.grants.values():
            state.progress.pace(grant.job, 1.0, state.now, state.now)
        memory = carry_out(state, policy, parse_policy(name).make(), memory)
    assert state.starts.sum() > 10
