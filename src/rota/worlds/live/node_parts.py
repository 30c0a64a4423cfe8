"""What each node of an attempt does: its devices, its ranks, and its directive."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rota.model.grants import Grant, Role
from rota.scheduler.world import How
from rota.wire.file_names import filled
from rota.wire.job import JobSpec, array_of
from rota.wire.sync import Part, Rank, Wanted
from rota.worlds.live.attempts import Attempt, LiveJob, NodePart
from rota.worlds.live.jobs import LiveJobs
from rota.worlds.live.machines import Machines

GIB = 2**30


def places_of(machines: Machines, spec: JobSpec, grant: Grant) -> list[NodePart]:
    """The nodes of a grant, with local device indexes and ranks."""
    by_node = machines.local_devices(grant)
    ranks = ranks_of(spec.ranks_by, list(by_node.values()))
    return [
        NodePart(node, machines.nodes[node].name, tuple(devices), ranks[i])
        for i, (node, devices) in enumerate(by_node.items())
    ]


def can_resume(machines: Machines, job: LiveJob, attempt: Attempt, grant: Grant) -> bool:
    """True if the suspended processes of `attempt` can go on with the devices of `grant`.

    CPU slots are interchangeable within a node; a process on a GPU stays with the one it knows.
    """
    old, new = attempt.places, places_of(machines, job.spec, grant)
    if [(p.node, len(p.devices)) for p in new] != [(p.node, len(p.devices)) for p in old]:
        return False
    return all(p.devices == q.devices or machines.is_cpu(p.node) for p, q in zip(new, old, strict=True))


def stated_gib(job: LiveJob, attempt: Attempt, place: NodePart) -> float:
    """Host memory that `job` states, as much of it as falls to `place`: it follows the devices."""
    devices = sum(len(other.devices) for other in attempt.places)
    granted = attempt.grant.memory_gib
    gib = job.spec.memory_gib if math.isnan(granted) else granted
    return gib * len(place.devices) / devices if devices else gib


def _own(attempt: Attempt, place: NodePart, granted: float) -> float | None:
    """What falls to `place` of an amount that was granted; None if none was."""
    if math.isnan(granted):
        return None
    devices = sum(len(other.devices) for other in attempt.places)
    return granted * len(place.devices) / devices if devices else granted


def part_of(live: LiveJobs, job: LiveJob, attempt: Attempt, place: NodePart) -> Part:
    """The directive for the node of `place` in `attempt`."""
    spec, first = job.spec, attempt.places[0]
    env = dict(spec.env)
    if job.array_index is not None:
        env["ROTA_ARRAY_INDEX"] = str(job.array_index)
        env["ROTA_ARRAY_JOB_ID"] = array_of(job.id)
    if len(attempt.places) > 1:  # the node knows its own
        env["ROTA_GPUS"] = str(sum(len(other.devices) for other in attempt.places))
    if spec.batch_min is not None and spec.batch_max is not None:
        env["ROTA_BATCH_RANGE"] = f"{spec.batch_min:g}:{spec.batch_max:g}"
    address = live.machines.nodes[first.node].info.address
    return Part(
        row=job.row,
        job=job.id,
        submit_s=live.epoch_unix_s + live.submit_s(job.row),
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
        script=spec.script if attempt.wanted is Wanted.RUN else "",
        workdir=spec.workdir,
        env=env,
        output=named(spec.output, job),
        error=named(spec.error, job),
        output_limit=round(spec.output_limit_gib * GIB),
        log_limit=live.settings.log_limit(live.table.jobs.name_of("tenant", job.row)),
        terminal=spec.terminal,
        user=job.account,
        grace_s=spec.grace_s,
        notice_signal=spec.notice_signal,
        notice_s=spec.notice_s,
        notice_to=spec.notice_to,
        checkpoint=spec.checkpoint,
        self_fence=spec.self_fence,
        memory_gib=stated_gib(job, attempt, place),
        cpus=spec.cpus if math.isnan(attempt.grant.cpus) else attempt.grant.cpus,
        own_cpus=_own(attempt, place, attempt.grant.cpus),
        own_gib=_own(attempt, place, attempt.grant.memory_gib),
        notice=attempt.notice,
        restore=job.restorable,
        void=[a.number for a in job.attempts if a.how == How.LOST],
        batch_size=None if math.isnan(attempt.grant.batch_size) else attempt.grant.batch_size,
    )


def named(pattern: str, job: LiveJob) -> str:
    """A file's name with the job's own in it; what differs by node and rank is the agent's to fill in."""
    index = "" if job.array_index is None else str(job.array_index)
    values = {"j": job.id, "J": job.id, "A": array_of(job.id), "a": index, "b": index[-1:]}
    return filled(pattern, {**values, "x": job.spec.name, "u": job.user})


def ranks_of(kind: str, counts: Sequence[Sequence[int]]) -> list[list[Rank]]:
    """Ranks of each node of an attempt from its devices (`counts[node]` lists local indexes).

    `gpu`: a process for each device, numbered node by node; `node`: one for each node, seeing all of them.
    A job without devices has one rank.
    """
    places: list[list[Rank]] = []
    number = 0
    for devices in counts:
        if kind == "node" or not devices:
            ranks = [Rank(rank=number, local_rank=0, devices=list(devices))]
        else:
            ranks = [Rank(rank=number + i, local_rank=i, devices=[d]) for i, d in enumerate(devices)]
        number += len(ranks)
        places.append(ranks)
    return places
