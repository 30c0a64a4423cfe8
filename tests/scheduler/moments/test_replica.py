"""A replica that is told what was done to a table is that table, to the bit, wherever it began."""

from __future__ import annotations

import pickle
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strategies  # noqa: F401  (registers the profile)
from play import job
from rota.knowledge.needs import Knowledge, Known, Provenance
from rota.model.cluster import Cluster, NodeShape, parse_cluster
from rota.model.grants import Grant, Reservation, Role
from rota.model.growing import GrowingTable
from rota.model.tenants import Tenant, Tenants
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.loop import Loop
from rota.scheduler.moments.packing import pack, pack_jobs
from rota.scheduler.moments.replica import Replica, TracedState, Whole, take_frame, take_whole, traced_state
from rota.scheduler.moments.restore import fresh_state, refill, stored
from rota.scheduler.moments.values import digest
from rota.scheduler.policy import parse_policy
from rota.scheduler.snapshot import Snapshot
from rota.table.state import Phase, State
from rota.testing import make_scene
from rota.worlds.simulated.kinds import world_of
from rota.worlds.simulated.providers import make_providers
from rota.worlds.simulated.recorder import RunRecorder

RICH = Cluster.build(
    [
        NodeShape(count=2, gpus=4, gpu_type="A", cpus=16, memory_gib=64, gpu_memory_gib=16),
        NodeShape(count=1, gpus=2, gpu_type="B", cpus=8, memory_gib=32, gpu_memory_gib=8),
        NodeShape(count=1, gpus=0, cpus=8, memory_gib=32),
    ],
    Tenants.of(Tenant("vision", quota_gpus=4, hard=True), Tenant("speech", quota_gpus=3.5)),
)


def prints(state: State) -> str:
    """Everything a policy may see of `state`, as a digest."""
    return digest(pack(Snapshot(state)))


def through_a_pipe(value: Any) -> Any:
    """What another process would get."""
    return pickle.loads(pickle.dumps(value))


class Twins:
    """A traced table, the replica that follows it, and verbs chosen at random among the legal ones."""

    def __init__(self, rng: Random, cluster: Cluster = RICH, capacity: int = 40) -> None:
        self.rng = rng
        self.table = GrowingTable(capacity, cluster.type_names)
        self.state: TracedState = traced_state(self.table, cluster)
        self.state.progress.steady = False
        self.replica = self.begin()
        self.later: list[Replica] = []

    def begin(self) -> Replica:
        return Replica(through_a_pipe(take_whole(self.state, self.table)))

    def compare(self) -> None:
        frame = through_a_pipe(take_frame(self.state))
        for replica in (self.replica, *self.later):
            replica.follow(frame)
            assert prints(replica.state) == prints(self.state)
            assert replica.state.plain == self.state.plain
            assert replica.state.occupancy.free.buckets == self.state.occupancy.free.buckets
            assert replica.table.filled == self.table.filled

    # -- verbs -------------------------------------------------------------------------------------

    def pick(self, rows: Any) -> int | None:
        rows = list(rows)
        return self.rng.choice(rows) if rows else None

    def arrive(self) -> None:
        if self.table.filled == self.table.capacity or self.table.filled != self.state.submitted:
            return
        share = self.rng.choice([1.0, 1.0, 0.1, 0.3, 0.7])
        gpus = 1 if share < 1.0 else self.rng.choice([0, 1, 2, 3, 4, 99])
        types = self.rng.choice([(), ("A",), ("B", "A"), ("C",)])
        tenant = self.rng.choice(["vision", "vision/ann", "speech", "others"])
        extra = {"cpus": self.rng.choice([0.0, 1.1]), "memory_gib": 0.3, "gpu_memory_gib": 0.7}
        one = job(
            f"j{self.table.filled}", gpus=gpus, gpu_share=share, tenant=tenant, submit_s=self.state.now,
            **(extra if self.rng.random() < 0.5 else {}),
        )  # fmt: skip
        row = self.table.append(one, types)
        self.state.entered(replace(one, row=row), types)
        if self.rng.random() < 0.5:
            self.compare()  # entered, not yet submitted
        if self.rng.randint(0, 4) == 0:
            self.state.submit_held(row, "begins later")
        else:
            self.state.submit(row)

    def hold(self) -> None:
        row = self.pick([*self.state.waiting.sorted().tolist(), *self.state.held])
        if row is not None:
            self.state.hold(row, self.rng.choice(["a person", "back-off"]))

    def release(self) -> None:
        row = self.pick(self.state.held)
        if row is not None:
            self.state.release(row)

    def update(self) -> None:
        row = self.pick(self.state.waiting.sorted().tolist())
        if row is not None:
            values = {"priority": self.rng.randint(0, 5), "group": self.rng.choice(["", "g"])}
            if self.rng.random() < 0.5:
                values |= {"gpus": 2, "gpu_share": 1.0}
            self.table.update(row, **values)
            self.state.updated(row, values)

    def grant(self, row: int) -> Grant | None:
        """Some devices with room for `row`, whatever a policy would think of them."""
        state = self.state
        gpus, share = state.gpus_of[row], state.jobs.gpu_share.item(row)
        if not gpus:
            return Grant(row, (), node=3)
        whole = [d for d in range(10) if state.occupancy.free.is_free(d)]
        partly = [d for d, left in state.occupancy.spare.items() if left >= share]
        room = partly + whole if share < 1.0 else whole
        if len(room) < gpus:
            return None
        devices = tuple(sorted(self.rng.sample(room, gpus)))
        role = Role.ALONE if share == 1.0 else Role.PACKED
        if role == Role.PACKED and self.rng.randint(0, 3) == 0:
            role = Role.OPPORTUNISTIC
        return Grant(row, devices, share, role)

    def start(self) -> None:
        row = self.pick(self.state.waiting.sorted().tolist())
        grant = self.grant(row) if row is not None else None
        if grant is None:
            return
        self.state.start(grant)
        fate = self.rng.randint(0, 5)
        if fate == 0:
            self.state.take_back(grant.job, has_run=False)
        else:
            self.state.progress.pace(grant.job, 0.7, self.state.now + 0.1, self.state.now)

    def move(self) -> None:
        row = self.pick(self.state.running.sorted().tolist())
        if row is None:
            return
        self.state.free(row)
        old = self.state.grants[row]
        grant = self.grant(row)
        if grant is None:
            self.state.stop(row)
        else:
            assert self.state.change(grant) == old

    def stop(self) -> None:
        row = self.pick(self.state.running.sorted().tolist())
        if row is None:
            return
        self.state.progress.stop(row, self.state.now)
        self.state.free(row)
        phase = self.rng.choice([Phase.PENDING, Phase.COMPLETED, Phase.FAILED])
        if phase is Phase.PENDING:
            self.state.preemptions[row] += 1  # as the loop counts them
        if phase is Phase.FAILED:
            self.state.failures[row] += 1
        since = self.state.since_s.item(row)
        self.state.stop(row, phase, self.rng.choice([None, since, (since + self.state.now) / 2]))

    def withdraw(self) -> None:
        row = self.pick([*self.state.waiting.sorted().tolist(), *self.state.held])
        if row is not None:
            self.state.withdraw(row, Phase.CANCELLED)

    def close(self) -> None:
        node = self.rng.randint(0, 3)
        verb = self.rng.choice(["lose", "regain"])
        getattr(self.state, verb)(node)

    def devices(self) -> None:
        verb = self.rng.choice(["close", "open"])
        down = self.state.occupancy.down_nodes
        healthy = [d for d in range(10) if int(RICH.device_node[d]) not in down]
        getattr(self.state, verb)(self.rng.sample(healthy, min(2, len(healthy))))

    def said(self) -> None:
        """What the loop sets beside the verbs."""
        row = self.pick(self.state.waiting.sorted().tolist())
        self.state.refused = {} if row is None else {row: "was too large"}
        self.state.reservations = () if row is None else (Reservation(row, (1, 2), self.state.now + 5.5),)

    def pace(self) -> None:
        row = self.pick(self.state.running.sorted().tolist())
        if row is not None:
            self.state.progress.pace(row, 0.3, self.state.now, self.state.now)
            self.state.paced.add(row)


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
@pytest.mark.parametrize("seed", range(6))
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
