"""A traced table, a replica that follows it, and verbs chosen at random among the legal ones."""

from __future__ import annotations

import pickle
from dataclasses import replace
from random import Random
from typing import Any

from play import job
from rota.model.cluster import Cluster, NodeShape
from rota.model.grants import Grant, Reservation, Role
from rota.model.growing import GrowingTable
from rota.model.tenants import Tenant, Tenants
from rota.scheduler.moments.packing import pack
from rota.scheduler.moments.replica import Replica, TracedState, take_frame, take_whole, traced_state
from rota.scheduler.moments.values import digest
from rota.scheduler.snapshot import Snapshot
from rota.table.state import Phase, State

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
