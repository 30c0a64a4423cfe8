"""What each node of an attempt does: its devices, its ranks, and the order that says so."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rota.model.grants import Grant, Role
from rota.scheduler.world import How
from rota.wire.job import array_of
from rota.wire.sync import Part
from rota.worlds.live.attempts import Attempt, LiveJob, NodePart
from rota.worlds.live.orders import ranks_of

if TYPE_CHECKING:
    from rota.worlds.live.world import LiveWorld


def places_of(world: LiveWorld, job: LiveJob, grant: Grant) -> list[NodePart]:
    """The nodes of a grant, with local device indexes and ranks."""
    first = world.cluster.first_device
    by_node: dict[int, list[int]] = {}
    for device in grant.devices:
        node = int(world.cluster.device_node[device])
        by_node.setdefault(node, []).append(device - int(first[node]))
    if not by_node:
        by_node[grant.node if grant.node >= 0 else 0] = []
    ranks = ranks_of(job.spec.ranks, list(by_node.values()))
    return [
        NodePart(node, world.nodes[node].name, tuple(devices), ranks[i])
        for i, (node, devices) in enumerate(by_node.items())
    ]


def can_resume(world: LiveWorld, attempt: Attempt, grant: Grant) -> bool:
    """True if the suspended processes of `attempt` can go on with the devices of `grant`.

    CPU slots are interchangeable within a node; a process on a GPU stays with the one it knows.
    """
    new = places_of(world, world.live[attempt.row], grant)
    old = attempt.places
    if [(p.node, len(p.devices)) for p in new] != [(p.node, len(p.devices)) for p in old]:
        return False
    return all(
        p.devices == q.devices or world.nodes[p.node].info.kind == "cpu"
        for p, q in zip(new, old, strict=True)
    )


def stated_gib(job: LiveJob, attempt: Attempt, place: NodePart) -> float:
    """Host memory that `job` states, as much of it as falls to `place`: it follows the devices."""
    devices = sum(len(other.devices) for other in attempt.places)
    granted = attempt.grant.memory_gib
    gib = job.spec.memory_gib if math.isnan(granted) else granted
    return gib * len(place.devices) / devices if devices else gib


def part_of(world: LiveWorld, job: LiveJob, attempt: Attempt, place: NodePart) -> Part:
    """What the node of `place` is told to do for `attempt`."""
    spec, first = job.spec, attempt.places[0]
    env = dict(spec.env)
    if job.array_index is not None:
        env["ROTA_ARRAY_INDEX"] = str(job.array_index)
        env["ROTA_ARRAY_JOB_ID"] = array_of(job.id)
    address = world.nodes[first.node].info.address
    return Part(
        row=job.row,
        job=job.id,
        submit_s=world.epoch_unix_s + world.jobs.submit_s.item(job.row),
        attempt=attempt.number,
        version=0,
        wanted=attempt.wanted,
        devices=list(place.devices),
        share=attempt.grant.share,
        opportunistic=attempt.grant.role is Role.OPPORTUNISTIC,
        ranks=place.ranks,
        world_size=sum(len(p.ranks) for p in attempt.places),
        node_rank=attempt.places.index(place),
        nodes=[p.name for p in attempt.places],
        master=address,
        port=attempt.port if place is not first else None,
        command=list(spec.command),
        workdir=spec.workdir,
        env=env,
        user=job.account,
        grace_s=spec.grace_s,
        notice_signal=spec.notice_signal,
        notice_s=spec.notice_s,
        checkpoint=spec.checkpoint,
        self_fence=spec.self_fence,
        memory_gib=stated_gib(job, attempt, place),
        cpus=spec.cpus if math.isnan(attempt.grant.cpus) else attempt.grant.cpus,
        notice=attempt.notice,
        restore=job.restorable,
        void=[a.number for a in job.attempts if a.how == How.LOST],
        batch_size=None if math.isnan(attempt.grant.batch_size) else attempt.grant.batch_size,
    )
