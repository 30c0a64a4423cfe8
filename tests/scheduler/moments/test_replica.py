"""A replica that is told what was done to a table is that table, to the bit, wherever it began."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strategies  # noqa: F401  (registers the profile)
from play import job
from replica_twins import RICH, Twins, through_a_pipe
from rota.knowledge.needs import Knowledge, Known, Provenance
from rota.model.cluster import parse_cluster
from rota.model.growing import GrowingTable
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.loop import Loop
from rota.scheduler.moments.packing import pack, pack_jobs
from rota.scheduler.moments.replica import Replica, TracedState, Whole, take_frame, traced_state
from rota.scheduler.moments.restore import fresh_state, refill, stored
from rota.scheduler.moments.values import digest
from rota.scheduler.policy import parse_policy
from rota.scheduler.snapshot import Snapshot
from rota.table.state import Phase
from rota.testing import make_scene
from rota.worlds.simulated.kinds import world_of
from rota.worlds.simulated.providers import make_providers
from rota.worlds.simulated.recorder import RunRecorder
from tiers import first

VERBS = [
    *[Twins.arrive] * 4, *[Twins.start] * 4, Twins.hold, Twins.release, Twins.update, Twins.move, Twins.stop,
    Twins.withdraw, Twins.close, Twins.devices, Twins.said, Twins.pace,
]  # fmt: skip


@pytest.mark.slow
@given(st.integers(0, 2**40).map(Random))
def test_any_legal_sequence_is_followed(rng: Random) -> None:
    """Verbs in any order, frames of any length, and replicas that begin in the middle."""
    twins = Twins(rng)
    for _ in range(rng.randint(1, 30)):
        twins.state.now += rng.choice([0.0, 0.1, 3.7])
        rng.choice(VERBS)(twins)
        what = rng.randint(0, 5)
        if what == 0 and len(twins.later) < 3:
            twins.compare()  # frames that were due are taken before a new replica begins
            twins.later.append(twins.begin())
        elif what < 4:
            twins.compare()
    twins.compare()


@given(st.integers(0, 2**40).map(Random))
def test_a_table_is_built_anew_from_what_is_stored_without_sums(rng: Random) -> None:
    """After a crash the sums of claims are added up anew from the grants: the same but for rounding."""
    twins = Twins(rng)
    for _ in range(25):
        twins.state.now += 1.3
        rng.choice(VERBS)(twins)
    again = fresh_state(twins.table, RICH)
    refill(again, replace(stored(twins.state), occupancy=None, running=None))
    old, new = twins.state.occupancy, again.occupancy
    assert np.allclose(new.claimed, old.claimed)
    assert np.allclose(new.cpus_used, old.cpus_used)
    assert (new.free.devices, new.down, new.down_nodes) == (old.free.devices, old.down, old.down_nodes)
    assert again.grants == twins.state.grants
    assert again.waiting.rows.tolist() == twins.state.waiting.rows.tolist()
    assert (again.special, again.waiting_gpus) == (twins.state.special, twins.state.waiting_gpus)


@pytest.mark.parametrize("policy", ["tiresias:limits=20/60,promote=2", "srtf", "las", "gandiva", "pai"])
@pytest.mark.parametrize("seed", first(3, range(6)))
def test_a_whole_run_is_replicated(policy: str, seed: int) -> None:
    """The loop drives a simulated world; a policy that looks at the replica decides as one that does not."""
    scene = make_scene(seed)
    instance = parse_policy(policy).make()
    world = world_of(scene.setting.semantics)(
        scene.trace, scene.cluster, costs=scene.setting.costs, semantics=scene.setting.semantics,
        faults=scene.setting.faults, retries=scene.setting.retries,
    )  # fmt: skip
    if world.jobs.after:
        pytest.skip("a table that grows has no dependencies: the controller holds jobs itself")
    state = TracedState(world.jobs, scene.cluster, world.progress)
    jobs = pack_jobs(world.jobs, len(world.jobs))
    replica = Replica(through_a_pipe(Whole(len(world.jobs), scene.cluster, jobs, stored(state))))
    twin, seen = parse_policy(policy).make(), 0

    class Beside:
        needs = instance.needs

        def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
            nonlocal seen
            state.paced |= set(range(state.submitted))  # this world says nowhere whom it touched
            replica.follow(through_a_pipe(take_frame(state)))
            there = Snapshot(
                replica.state, snapshot.cause, snapshot._known, frozenset(self.needs), snapshot.seed
            )
            assert digest(pack(there)) == digest(pack(snapshot))
            told = through_a_pipe(memory)
            decision = instance.decide(snapshot, memory)
            assert twin.decide(there, told).grants == decision.grants
            seen += 1
            return decision

    kinds = instance.needs
    providers = make_providers(kinds, {}, scene.trace, scene.cluster, None) if kinds else {}
    Loop(world, Beside(), RunRecorder(), providers=providers, state=state).run()
    assert seen > 3


def test_a_waiting_job_that_changes_is_placed_anew() -> None:
    """Policies keep waiting jobs sorted; that the limit of one has changed must reach them."""
    table = GrowingTable(8)
    state = traced_state(table, parse_cluster("1x1"))
    policy = parse_policy("sjf").make()
    limits = np.array([50.0, 40.0, 30.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    known = {Knowledge.DURATION: Known(limits, Provenance.USER)}
    for name in ("first", "second", "third"):
        one = job(name)
        row = table.append(one)
        state.entered(replace(one, row=row), ())
        state.submit(row)
    state.lose(0)
    assert not policy.decide(Snapshot(state, 0, known, policy.needs), {}).grants
    limits[0] = 20.0
    state.updated(0, {"limit_s": 20.0})
    state.regain(0)
    decision = policy.decide(Snapshot(state, 0, known, policy.needs), {})
    assert [grant.job for grant in decision.grants] == [0]


def test_a_request_that_grows_is_counted_anew() -> None:
    table = GrowingTable(8)
    state = traced_state(table, parse_cluster("2x4"))
    row = table.append(job("one"))
    state.entered(replace(job("one"), row=row), ())
    state.submit(row)
    assert (state.waiting_gpus, state.plain) == (1, True)
    table.update(row, gpus=3, gang=False)
    state.updated(row, {"gpus": 3, "gang": False})
    assert (state.waiting_gpus, state.plain, state.special) == (3, False, 1)
    state.withdraw(row, Phase.CANCELLED)
    assert (state.waiting_gpus, state.plain, state.special) == (0, True, 0)
