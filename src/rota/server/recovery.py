"""Rebuilds the scheduler's memory from the store: after a crash, and whenever it is in doubt.

This memory is a cache of the store; the one way to repair it is to build it again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rota.knowledge.seen import JobObservations
from rota.model.cluster import Cluster, NodeShape
from rota.model.columns import Array
from rota.model.grants import Can, Reservation
from rota.model.growing import GrowingTable
from rota.model.job_columns import STORED_NAMES, SUBMITTED
from rota.model.jobs import PlainJob
from rota.model.promises import Promise
from rota.model.tenants import Tenants
from rota.scheduler.decision import Event, Wake
from rota.scheduler.moments.packing import unpack_grant
from rota.scheduler.moments.replica import TracedState, traced_state
from rota.scheduler.moments.restore import Stored, refill
from rota.scheduler.world import How
from rota.server.policy.messages import unseal
from rota.server.roster import JobAccounts
from rota.server.store.repairs import NO_SPEC, UNREADABLE, told
from rota.server.store.rows import REAL, AttemptRow, Everything, JobColumns, JobRow, NodeRow, PolicyRow
from rota.server.store.start_state import NUMBERS
from rota.server.tenants.layout import NodeLayout
from rota.table.state import COLUMNS, Phase
from rota.wire.accounts import NO_ACCOUNT
from rota.wire.job import JobSpec
from rota.wire.sync import Capability, Exit, Notice, PartStatus, ProgressReport, Rank, Usage, Wanted
from rota.worlds.live.attempts import Attempt, LiveJob, NodePart
from rota.worlds.live.holds import ACCOUNT, RECORD, Hold, note_of
from rota.worlds.live.inbox import Arrived
from rota.worlds.live.machines import LiveNode

LEAST_CAPACITY = 1024
NO_MEMORY_GIB = 1e-6
"""Device memory of a CPU slot: less than any job asks for."""
NOWHERE = NodeLayout()
"""The layout of machines is not configured."""
_ON_TRIAL = {"gpus": 1, "gpus_min": 1, "gpus_max": 1}
"""The request of a job that first has a trial on one device."""


@dataclass
class Rebuilt:
    """State from which a loop continues where the last one stopped."""

    table: GrowingTable
    cluster: Cluster
    nodes: list[LiveNode]
    jobs: list[LiveJob]
    state: TracedState
    memory: bytes
    wake: Wake
    unseen: Arrived
    """Jobs that were put on record and no step knows of: they arrive now."""


def rebuild(
    everything: Everything,
    tenants: Tenants,
    accounts: JobAccounts,
    now: float,
    layout: NodeLayout = NOWHERE,
) -> Rebuilt:
    """The scheduler's tables as of the last stored step; it continues at `now`.

    `accounts` says which jobs may start, and as which account.
    """
    columns = everything.columns
    n = _seen(columns)
    cluster = cluster_of(everything.nodes, tenants, layout)
    table = GrowingTable(max(LEAST_CAPACITY, 2 * len(columns.ids)), cluster.type_names)
    numbers: dict[str, Array] = {name: columns.numbers[name][:n] for name in NUMBERS}
    numbers["submit_s"] = columns.submit_s[:n]
    table.extend(
        columns.ids[:n],
        numbers,
        {name: columns.names[name][:n] for name in STORED_NAMES},
        columns.gpu_types[:n],
        columns.deadlines[:n],
    )
    jobs = [_as_it_lives(everything, row, accounts) for row in sorted(everything.jobs) if row < n]
    for job in jobs:
        if job.needs_trial and not job.is_over:
            table.update(job.row, **_ON_TRIAL)
    state = traced_state(table, cluster)
    nodes = [live_node(node) for node in everything.nodes]
    policy = everything.policies.get(REAL)
    refill(state, _kept(everything, n, jobs, nodes, cluster, now, policy.reservations if policy else ()))
    state.take_trace()
    return Rebuilt(
        table=table,
        cluster=cluster,
        nodes=nodes,
        jobs=jobs,
        state=state,
        memory=_memory(policy, everything.problems),
        wake=_wake(policy, everything.problems),
        unseen=_unseen(everything, n, accounts),
    )


def _seen(columns: JobColumns) -> int:
    """How many jobs a step knows of: they arrive in the order of their rows."""
    absent = np.flatnonzero(columns.numbers["phase"] == Phase.ABSENT)
    return int(absent[0]) if len(absent) else len(columns.ids)


def _unseen(everything: Everything, first: int, accounts: JobAccounts) -> Arrived:
    """The jobs from row `first` on, as the API would announce them."""
    rows = [everything.jobs[row] for row in range(first, len(everything.columns.ids))]
    return Arrived(
        [
            (_as_it_lives(everything, row.row, accounts), asked_job(row, everything.specs[row.row]))
            for row in rows
        ]
    )


def _as_it_lives(everything: Everything, row: int, accounts: JobAccounts) -> LiveJob:
    """The job of `row`; a job with an unreadable record is set aside: held, without attempts."""
    job, aside = everything.jobs[row], everything.aside
    if row not in aside:
        try:
            lives = live_job(job, everything.specs[row], everything.attempts.get(row, ()), accounts)
            lives.holds.pop(RECORD, None)  # it has been mended since
            lives.curves = everything.curves.get(row, lives.curves)
            if lives.holds:
                note_of(lives.holds)  # fails if one of them is none
            return lives
        except UNREADABLE as error:
            aside[row] = f"its attempts cannot be read: {told(error)}"
    now = replace(job.now, hold=(), capability=None, measured=None)
    held = live_job(replace(job, now=now), everything.specs.get(row, NO_SPEC), (), accounts)
    if not held.is_over:
        held.holds[RECORD] = Hold(RECORD, f"its record is damaged: {aside[row]}")
    return held


def _wake(policy: PolicyRow | None, problems: list[str]) -> Wake:
    """When the policy wants to be asked: as it last said, or immediately, which is always safe."""
    try:
        return wake_of(policy.wake if policy else None)
    except UNREADABLE as error:
        problems.append(f"the policy's wish to be woken cannot be read: {told(error)}")
        return Wake()


def _memory(policy: PolicyRow | None, problems: list[str]) -> bytes:
    """The policy's memory; empty if it cannot be read: then the policy takes over as a new one does."""
    if policy is None or not policy.memory:
        return b""
    try:
        unseal(policy.memory)
    except Exception as error:
        problems.append(f"the policy's memory cannot be read and begins empty: {told(error)}")
        return b""
    return policy.memory


def _reservations(said: Any, problems: list[str]) -> tuple[Reservation, ...]:
    """The policy's reservations; none if they cannot be read, since it decides again immediately."""
    try:
        return tuple(Reservation(job, tuple(devices), until) for job, devices, until in said or ())
    except UNREADABLE as error:
        problems.append(f"the policy's reservations cannot be read: {told(error)}")
        return ()


def cluster_of(nodes: Sequence[NodeRow], tenants: Tenants, layout: NodeLayout = NOWHERE) -> Cluster:
    """The machines that have joined, in order of joining; devices keep their numbers.

    A machine without devices brings no type of its own, so that no job waits for a type that does not exist.
    """
    types = [node.info.devices[0].type if node.info.devices else "" for node in nodes]
    usual = next(filter(None, types), "GPU")
    names = {node.name for node in nodes}
    shapes = [
        NodeShape(
            count=1,
            gpus=len(node.info.devices),
            gpu_type=gpu_type or usual,
            gpu_memory_gib=_device_memory_gib(node),
            cpus=node.info.cpus,
            memory_gib=node.info.memory_gib,
            names=(node.name,),
            levels=layout.levels_of(node.name),
            labels=tuple(unit for unit in layout.units_of(node.name) if unit not in names),
            device_levels=layout.device_levels_of(node.name, len(node.info.devices)),
        )
        for node, gpu_type in zip(nodes, types, strict=True)
    ]
    cluster = Cluster.build(shapes or [NodeShape(count=1, gpus=0, names=("none",))], tenants)
    return replace(cluster, gone=tuple(node.position for node in nodes if node.state == "forgotten"))


def _device_memory_gib(node: NodeRow) -> float:
    """Of the device that has least; 0 is unknown, and CPU slots are known to have none to speak of."""
    if node.info.kind == "cpu":
        return NO_MEMORY_GIB
    return min((device.memory_gib for device in node.info.devices), default=0.0)


def live_node(row: NodeRow) -> LiveNode:
    """A node as the world sees it."""
    sick = {device.index: device.why or "unhealthy" for device in row.info.devices if not device.healthy}
    return LiveNode(row.position, row.info, row.state, row.reason, row.drained_by, sick, row.info.trouble)


def live_job(row: JobRow, spec: JobSpec, attempts: Sequence[AttemptRow], accounts: JobAccounts) -> LiveJob:
    """A job that is not over or has an attempt that may live; held if it waits and has no account."""
    now, measured = row.now, row.now.measured or {}
    barred = accounts.bars(row)
    holds = {hold["kind"]: Hold(**hold) for hold in now.hold if hold["kind"] != ACCOUNT}
    if barred and now.phase < Phase.RUNNING:
        holds[ACCOUNT] = Hold(ACCOUNT, barred)
    return LiveJob(
        row=row.row,
        id=row.id,
        user=row.user,
        spec=spec,
        account=NO_ACCOUNT if barred else accounts.given(row),
        barred=barred,
        array_index=row.array_index,
        array_first=row.array_first,
        array_most=row.array_most,
        attempts=[live_attempt(one) for one in attempts],
        holds=holds,
        capability=None if now.capability is None else Capability(**now.capability),
        infrastructure_failures=measured.get("infrastructure_failures", 0),
        user_failures=now.user_failures,
        refusals=measured.get("refusals", 0),
        passed_trial=measured.get("passed_trial", False),
        state=measured.get("word", now.state),
        cause=now.cause,
        finish_s=now.finish_s,
        leaving_s=measured.get("leaving_s", 0.0),
        is_over=now.phase > Phase.RUNNING,
        preempted_for=measured.get("preempted_for", ""),
        promise=_promise(measured.get("promise")),
        idle_since_s=measured.get("idle_since_s"),
        needless=measured.get("needless", ""),
        observed=JobObservations.of(measured.get("observed")),
    )


def _promise(stored: Sequence[float | None] | None) -> Promise | None:
    """A promise as it was stored; none, if none was given."""
    if not stored or stored[0] is None:
        return None
    return Promise(stored[0], math.inf if stored[1] is None else stored[1])


def asked_job(row: JobRow, spec: JobSpec) -> PlainJob:
    """The request as the scheduler's table takes it; on trial, a job asks for one device."""
    values: dict[str, Any] = {column.name: getattr(row.asked, column.name) for column in SUBMITTED}
    values = {name: math.nan if value is None else value for name, value in values.items()}
    if spec.trial and spec.gpus > 1:
        values |= _ON_TRIAL
    return PlainJob(id=row.id, row=row.row, submit_s=row.submit_s, gang=True, **{**values, "gpu_types": 0})


def live_attempt(row: AttemptRow) -> Attempt:
    """An attempt as it was stored."""
    return Attempt(
        row=row.row,
        number=row.number,
        grant=unpack_grant(row.grant),
        places=[_place(place) for place in row.parts["places"]],
        wanted=Wanted(row.wanted),
        wanted_s=row.wanted_s,
        told=None if row.parts["told"] is None else How(row.parts["told"]),
        notice=None if row.notice is None else Notice(**row.notice),
        port=row.parts["port"],
        start_s=row.start_s,
        ready_s=row.parts["ready_s"],
        end_s=row.end_s,
        how=row.how,
        exit=None if row.exit is None else Exit(**row.exit),
        cause=row.cause,
        mechanism=row.mechanism,
        costs=dict(row.costs or {}),
        progress=None if row.progress is None else ProgressReport(**row.progress),
        usage=None if row.usage is None else Usage(**row.usage),
        is_trial=row.parts["is_trial"],
        saved_base=row.parts["saved_base"],
        is_for_others=row.parts.get("is_for_others", False),
        lost_s=row.parts.get("lost_s", 0.0),
    )


def _place(plain: dict[str, Any]) -> NodePart:
    return NodePart(
        node=plain["node"],
        name=plain["name"],
        devices=tuple(plain["devices"]),
        ranks=[Rank(**rank) for rank in plain["ranks"]],
        status=None if plain["status"] is None else PartStatus(plain["status"]),
        end=None if plain["end"] is None else Exit(**plain["end"]),
        why=plain["why"],
        has_started=plain.get("has_started", True),
        over_s=plain.get("over_s"),
        suspended_gib=plain["suspended_gib"],
    )


def _kept(
    everything: Everything,
    seen: int,
    jobs: Sequence[LiveJob],
    nodes: Sequence[LiveNode],
    cluster: Cluster,
    now: float,
    reservations: Any,
) -> Stored:
    """The loop's table as it was stored, of the first `seen` jobs."""
    numbers = {name: column[:seen] for name, column in everything.columns.numbers.items()}
    phase = numbers["phase"].astype(np.int8)
    live = [job for job in jobs if not job.is_over]
    for job in live:
        if RECORD in job.holds:
            for name in ("service_rate", "progress_rate"):
                numbers[name][job.row] = 0.0
            phase[job.row] = Phase.HELD
        elif phase[job.row] in (Phase.PENDING, Phase.HELD):
            phase[job.row] = Phase.HELD if job.holds else Phase.PENDING
    columns: dict[str, Array] = {name: numbers[name] for name in COLUMNS if name != "phase"}
    columns["phase"] = phase
    first = cluster.first_device
    return Stored(
        now=now,
        columns=columns,
        progress={name: numbers[f"progress_{name}"] for name in ("base", "rate", "since")}
        | _of_programs(jobs, seen),
        waiting=[job.row for job in live if phase[job.row] == Phase.PENDING],
        grants=[
            job.attempt.grant for job in live if phase[job.row] == Phase.RUNNING and job.attempt is not None
        ],
        held={job.row: note_of(job.holds) for job in live if phase[job.row] == Phase.HELD},
        failed_start={
            job.row: numbers["starts"].item(job.row)
            for job in live
            if job.attempt is not None and job.attempt.how == How.FAILED and phase[job.row] < Phase.RUNNING
        },
        reservations=_reservations(reservations, everything.problems),
        closed_nodes=[node.position for node in nodes if not node.takes_jobs],
        closed_devices=[int(first[node.position]) + index for node in nodes for index in node.sick],
    )


def _of_programs(jobs: Sequence[LiveJob], seen: int) -> dict[str, Array]:
    """What is known of the programs of live jobs: what they support, and their batch sizes."""
    batch, can = np.full(seen, math.nan), np.full(seen, int(Can.ALL))
    for job in jobs:
        batch[job.row], can[job.row] = job.batch_size, int(job.can)
    return {"batch": batch, "can": can}


def wake_of(plain: Any) -> Wake:
    """The policy's last wish to be woken; without one, whatever happens wakes it."""
    if not plain:
        return Wake()
    at_s, on, if_waiting = plain
    return Wake(float("inf") if at_s is None else at_s, Event(on), if_waiting)
