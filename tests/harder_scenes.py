"""Random scenes in which people step in, and in which more is asked for than in those of the contract.

`harder_scene` draws what `rota.testing.scenes` does not: nodes of several sizes or without GPUs, nodes that a
job must or must not have, weights, deadlines by value, sizes in steps, groups of which one is enough, time
limits, estimates of users in place of the truth, programs that bear little, prices of nothing or of hours.

`Commanded` is a policy under test on a cluster whose people cancel, hold, suspend, requeue and change jobs,
drain nodes and close devices: at the moments at which jobs end or arrive, and at those at which they have
just been started.  After a while all is open again and nobody steps in, so that whoever could end ends.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np

from rota.model.cluster import Cluster, NodeShape
from rota.model.grants import Can
from rota.model.job_columns import Deadline, GroupRule
from rota.model.jobs import JobTable
from rota.model.tenants import Tenant, Tenants
from rota.scheduler.decision import Event
from rota.scheduler.loop import Loop
from rota.scheduler.moments.values import copied
from rota.scheduler.world import Batch, Ended, How
from rota.table.state import Phase
from rota.testing.scenes import WORKLOADS, Scene, make_scene
from rota.testing.subject import Around, Subject
from rota.worlds.simulated.abilities import LATE
from rota.worlds.simulated.costs import CostModel, Costs
from rota.worlds.simulated.limits import TimeLimits
from rota.worlds.simulated.recorder import RunRecorder
from rota.worlds.simulated.retries import parse_retries

PRICES_S = [0.0, 0.0, 1.0, 20.0, 3600.0]
ABILITIES = [Can.NOTHING, Can.SUSPEND, Can.CHECKPOINT, Can.CHECKPOINT | Can.RESIZE, Can.ALL, Can.ALL | LATE]
MOST_COMMANDS = 25


def harder_scene(seed: int) -> Scene:
    """The scene of `seed`, without lost nodes: those are the business of `Commanded`."""
    draw = Random(f"harder {seed}")
    base = make_scene(seed)
    cluster = _uneven(draw, base.cluster)
    jobs = _harder(draw, base.trace.jobs, cluster)
    setting = replace(
        base.setting,
        faults=(),
        costs=_costs(draw) if draw.random() < 0.6 else base.setting.costs,
        can={name: draw.choice(ABILITIES) for name in WORKLOADS} if draw.random() < 0.4 else {},
        limits=TimeLimits.ENFORCE if draw.random() < 0.3 else TimeLimits.IGNORE,
        knowledge={"duration": "user"} if draw.random() < 0.5 else {},
        retries=parse_retries(draw.choice(["0", "1", "adaptive"])) if draw.random() < 0.4 else None,
    )
    return Scene(seed, replace(base.trace, jobs=jobs), cluster, setting)


def _costs(draw: Random) -> Costs:
    def some() -> CostModel:
        return CostModel(draw.choice(PRICES_S), draw.choice([0.0, 0.0, 2.0]))

    return Costs(
        start=some(),
        checkpoint=some(),
        restore=some(),
        migrate=some(),
        preempt=draw.choice([CostModel(), CostModel(5.0)]),
        resize=draw.choice([None, some()]),
        checkpoint_every_s=draw.choice([0.0, 7.0]),
    )


def _uneven(draw: Random, cluster: Cluster) -> Cluster:
    """The nodes of `cluster` in other sizes, now and then, and one without GPUs."""
    uneven, labels = draw.random() < 0.6, ("left", "right")
    firsts = cluster.first_device.tolist()
    shapes = [
        NodeShape(
            1,
            max(draw.choice([size, size // 2, size + 1, 2 * size]), 1) if uneven else size,
            cluster.type_names[cluster.node_type.item(node)],
            gpu_memory_gib=cluster.device_memory_gib.item(firsts[node]),
            cpus=cluster.node_cpus.item(node),
            memory_gib=cluster.node_memory_gib.item(node),
            levels={
                name: cluster.level_names[name][codes.item(node)] for name, codes in cluster.levels.items()
            },
            labels=(labels[node % 2],),
        )
        for node, size in enumerate(cluster.node_gpus.tolist())
    ]
    if draw.random() < 0.2:
        last = shapes[-1]
        shapes.append(replace(last, gpus=0, gpu_memory_gib=0.0))
    tenants = cluster.tenants
    if draw.random() < 0.3:
        gpus = sum(shape.gpus for shape in shapes)
        by_type = {name: float(draw.randint(1, gpus)) for name in cluster.type_names if draw.random() < 0.5}
        tenants = Tenants.of(
            Tenant("vision", float(draw.randint(1, gpus)), hard=True, weight=draw.choice([0.5, 1.0, 3.0])),
            Tenant("vision/alice", float(draw.randint(1, gpus)), hard=draw.random() < 0.5),
            Tenant("speech", float(draw.randint(1, gpus)), hard=draw.random() < 0.5, quota_by_type=by_type),
            Tenant("speech/bob", float(draw.randint(1, gpus)), weight=draw.choice([1.0, 4.0])),
        )
    return Cluster.build(shapes, tenants)


def _harder(draw: Random, jobs: JobTable, cluster: Cluster) -> JobTable:
    n, columns = len(jobs), dict[str, Any]()
    if draw.random() < 0.5:
        columns["weight"] = np.array([draw.choice([0.25, 1.0, 1.0, 5.0]) for _ in range(n)])
    if draw.random() < 0.4:
        sets = ("left", "right", f"!{cluster.node_names[-1]}", f"{cluster.node_names[0]}|right")
        columns["node_set"] = np.array([draw.choice([-1, -1, 0, 1, 2, 3]) for _ in range(n)], dtype=np.int32)
        columns["node_set_names"] = sets
    if draw.random() < 0.4:
        columns["gpus_step"] = np.where(
            jobs.gpus_max > jobs.gpus_min, np.array([draw.choice([1, 2]) for _ in range(n)]), 1
        )
        even = columns["gpus_step"] > 1  # the request is one of its sizes
        columns["gpus"] = np.where(even, jobs.gpus_min, jobs.gpus)
        columns["gpus_max"] = np.where(
            even, jobs.gpus_min + (jobs.gpus_max - jobs.gpus_min) // 2 * 2, jobs.gpus_max
        )
        columns["counts"] = np.where(even, 0, jobs.counts)
    if draw.random() < 0.4:
        columns["deadlines"] = {
            row: (Deadline(first := draw.uniform(20.0, 300.0), 10.0), Deadline(first + 200.0, 3.0))
            for row in range(n)
            if draw.random() < 0.4
        }
        due = jobs.deadline_s.copy()
        for row, several in columns["deadlines"].items():
            due[row] = several[0].at_s
        columns["deadline_s"] = due
    if draw.random() < 0.3:
        columns["group_rule"] = np.array(
            [draw.choice([GroupRule.ALL, GroupRule.FIRST]) for _ in range(n)], dtype=np.int8
        )
    return replace(jobs, **columns)


@dataclass(frozen=True)
class Commanded(Subject):
    """A policy on a cluster whose people step in; the same steps in every run of a scene."""

    def loop(self, scene: Scene, around: Around | None = None) -> tuple[Loop, RunRecorder]:
        loop, recorder = super().loop(scene, around)
        loop.world.next = People(loop, self, scene.seed).next  # type: ignore[method-assign]
        return loop, recorder


def commanded(subject: Subject) -> Commanded:
    """`subject` among people."""
    return Commanded(**{name: getattr(subject, name) for name in Subject.__dataclass_fields__})


class People:
    """Stand before a world: what it tells, and what they do at these moments."""

    def __init__(self, loop: Loop, subject: Commanded, seed: int) -> None:
        self.loop, self.subject = loop, subject
        self.world_next = loop.world.next
        self.draw = Random(f"people {seed}")
        self.acts = [
            self.cancel, self.hold, self.suspend, self.requeue, self.change, self.drain, self.close
        ]  # fmt: skip
        self.left = MOST_COMMANDS
        self.hidden: set[int] = set()
        """Jobs that they hold."""
        self.drained: set[int] = set()
        self.closed: set[int] = set()
        self.seen = 0

    def next(self, until_s: float) -> Batch | None:
        """What happens next; now and then it is people, in the moment in which something was started."""
        state = self.loop.state
        changed, self.seen = len(state.log) > self.seen, len(state.log)
        if changed and self.left and self.draw.random() < 0.15:
            batch: Batch | None = Batch(state.now, 0)
        else:
            batch = self.world_next(until_s)
        if batch is None:
            return self.undo(Batch(state.now, 0)) if self.hidden or self.drained or self.closed else None
        while self.left and self.draw.random() < 0.35:
            self.left -= 1
            self.draw.choice(self.acts)(batch)
        if self.draw.random() < 0.2 or not self.left:
            self.undo(batch)
        return batch

    def touched(self, batch: Batch) -> set[int]:
        """Rows that already have their part in this moment."""
        return {
            *(one.row for one in batch.ended), *batch.withdrawn, *batch.released, *batch.arrived,
            *(row for row, _ in (*batch.settled, *batch.held, *batch.accepted)),
        }  # fmt: skip

    def one(self, rows: Sequence[int], batch: Batch) -> int | None:
        rows = sorted({*rows}.difference(self.touched(batch)))
        return self.draw.choice(rows) if rows else None

    # -- what they do ------------------------------------------------------------------------------

    def cancel(self, batch: Batch) -> None:
        state = self.loop.state
        row = self.one([*state.running.rows.tolist(), *state.waiting.rows.tolist(), *state.held], batch)
        if row is None:
            return
        if row in state.running:
            batch.ended = [*batch.ended, Ended(row, How.CANCELLED, Phase.CANCELLED)]
        else:
            batch.withdrawn = [*batch.withdrawn, row]
            self.hidden.discard(row)
        batch.cause |= int(Event.END)

    def hold(self, batch: Batch) -> None:
        row = self.one(self.loop.state.waiting.rows.tolist(), batch)
        if row is not None:
            batch.held = [*batch.held, (row, "user")]
            self.hidden.add(row)

    def requeue(self, batch: Batch) -> int | None:
        row = self.one(self.loop.state.running.rows.tolist(), batch)
        if row is not None:
            batch.ended = [*batch.ended, Ended(row, How.PREEMPTED, Phase.PENDING)]
            batch.cause |= int(Event.FAILURE)
        return row

    def suspend(self, batch: Batch) -> None:
        row = self.requeue(batch)
        if row is not None:
            batch.held = [*batch.held, (row, "suspended")]
            self.hidden.add(row)

    def change(self, batch: Batch) -> None:
        """Priorities, weights, deadlines and limits; the policy is built anew, with its stored memory."""
        loop, draw = self.loop, self.draw
        jobs, n = loop.state.jobs, len(loop.state.jobs)
        name, value = draw.choice(
            [
                ("priority", draw.randrange(-2, 5)),
                ("weight", draw.choice([0.1, 1.0, 7.0])),
                ("deadline_s", draw.choice([math.nan, loop.state.now + draw.uniform(-20.0, 400.0)])),
                ("limit_s", draw.uniform(5.0, 400.0)),
            ]
        )
        column, row = getattr(jobs, name).copy(), draw.randrange(n)
        column[row] = value
        several = {
            other: due for other, due in jobs.deadlines.items() if other != row or name != "deadline_s"
        }
        loop.state.jobs = replace(jobs, deadlines=several, **{name: column})
        loop.memory = copied(loop.memory)
        if hasattr(loop.policy, "inner"):
            loop.policy.inner = self.subject.make()
        batch.cause |= int(Event.ARRIVAL | Event.END | Event.FAILURE | Event.CAPACITY)

    def drain(self, batch: Batch) -> None:
        node = self.draw.randrange(self.loop.world.cluster.nodes)
        if node not in self.drained and node not in batch.back:
            batch.drained = [*batch.drained, node]
            self.drained.add(node)
            batch.cause |= int(Event.CAPACITY)

    def close(self, batch: Batch) -> None:
        device = self.draw.randrange(self.loop.world.cluster.gpus)
        node = self.loop.world.cluster.device_node.item(device)
        if device not in self.closed and node not in self.drained:
            batch.closed = [*batch.closed, device]
            self.closed.add(device)
            batch.cause |= int(Event.CAPACITY)

    def undo(self, batch: Batch) -> Batch:
        """Nodes and devices are open again, and nobody is held by people."""
        touched = self.touched(batch)
        fresh = {*batch.drained}
        batch.back = [*batch.back, *sorted(self.drained - fresh)]
        batch.opened = [*batch.opened, *sorted(self.closed.difference(batch.closed))]
        free = sorted(row for row in self.hidden - touched if row in self.loop.state.held)
        batch.released = [*batch.released, *free]
        self.hidden, self.closed = self.hidden & touched, self.closed.intersection(batch.closed)
        self.drained &= fresh
        batch.cause |= int(Event.CAPACITY) * bool(batch.back or batch.opened)
        batch.cause |= int(Event.ARRIVAL) * bool(free)
        return batch
