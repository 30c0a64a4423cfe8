"""One turn of the scheduler as the store takes it: everything that has changed since the last step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rota.scheduler.loop import Loop
from rota.server.stepping import attempt_row, job_state, plain_reservations, plain_wake
from rota.server.store.rows import (
    REAL,
    CommandDone,
    CostRow,
    DecisionRow,
    EventRow,
    IntervalRow,
    NodeRow,
    PolicyRow,
    SampleRow,
    ShadowRow,
    Step,
)
from rota.worlds.live.attempts import LiveJob
from rota.worlds.live.news import News
from rota.worlds.live.world import LiveWorld

if TYPE_CHECKING:
    from rota.server.scheduler import Scheduler

TAKEN = frozenset({"preempted", "migrated", "resized"})
"""Ends of intervals by which a job gives up devices it would have kept."""


def step_of(
    scheduler: Scheduler, loop: Loop, world: LiveWorld, news: News, has_decided: bool
) -> tuple[Step, dict[int, LiveJob]]:
    """Everything that has changed since the last step."""
    state, now = loop.state, loop.state.now
    intervals, seen = scheduler.recorder.take()
    seen.update(state.log[scheduler.logged :])
    scheduler.logged = len(state.log)
    jobs = dict(news.jobs)
    jobs |= {row: world.live[row] for row in seen if row not in jobs and row in world.live}
    begun = sum(attempt.wanted_s == now for attempt in news.attempts.values())
    step = Step(
        jobs={row: job_state(state, job) for row, job in jobs.items()},
        attempts=[attempt_row(attempt) for attempt in news.attempts.values()],
        intervals=intervals,
        decision=_decision(scheduler, now, intervals, begun) if has_decided else None,
        policies=[_policy_row(scheduler, loop)] if has_decided else [],
        nodes=[_node_row(scheduler, world, position) for position in sorted(news.nodes)],
        done=[CommandDone(seq, now, outcome) for seq, outcome in news.done],
        events=[EventRow(now, who, kind, job, text) for who, kind, job, text in news.events],
        samples=[
            SampleRow(
                row,
                attempt,
                usage.at_s - world.epoch_unix_s,
                usage.cpu_cores,
                usage.memory_gib,
                usage.gpu_utilisation,
                usage.gpu_memory_gib,
            )
            for row, attempt, usage in news.usage
        ],
        costs=[
            CostRow(
                world.jobs.name_of("workload", row),
                world.jobs.name_of("tenant", row),
                cost.kind,
                cost.seconds,
                cost.bytes,
                now,
            )
            for row, cost in news.costs
        ],
        shadow=_shadow_rows(scheduler),
    )
    return step, jobs


def _shadow_rows(scheduler: Scheduler) -> list[ShadowRow]:
    """What the shadow would have done at the moments since the last step."""
    assert scheduler.host is not None
    fresh = [moment for moment in scheduler.host.shadow_moments() if moment.now > scheduler.shadowed]
    if fresh:
        scheduler.shadowed = fresh[-1].now
    return [ShadowRow(moment.now, "; ".join(moment.would)) for moment in fresh if moment.would]


def _decision(scheduler: Scheduler, now: float, intervals: Sequence[IntervalRow], begun: int) -> DecisionRow:
    assert scheduler.policy is not None
    assert scheduler.host is not None
    tally, trouble = scheduler.host.real.tally, scheduler.host.trouble
    scheduler.last_s = tally.round_trip_ms / 1000.0
    is_late = bool(trouble)
    scheduler.late += is_late
    preempted = sum(interval.how in TAKEN for interval in intervals)
    return DecisionRow(
        now, scheduler.policy.spec, scheduler.last_s, begun, preempted, is_late=is_late, note=trouble
    )


def _policy_row(scheduler: Scheduler, loop: Loop) -> PolicyRow:
    """The policy with its new memory; the memory of a decision that did not come is the old one."""
    assert scheduler.policy is not None
    scheduler.policy = PolicyRow(
        REAL,
        scheduler.policy.spec,
        scheduler.policy.since_s,
        scheduler.policy.by,
        memory=loop.memory.get("sealed", b""),
        wake=plain_wake(loop.wake),
        reservations=plain_reservations(loop.state.reservations),
    )
    return scheduler.policy


def _node_row(scheduler: Scheduler, world: LiveWorld, position: int) -> NodeRow:
    node, old = world.nodes[position], scheduler.nodes[world.nodes[position].name]
    devices = [
        device.model_copy(
            update={"healthy": device.index not in node.sick, "why": node.sick.get(device.index, "")}
        )
        for device in node.info.devices
    ]
    new = NodeRow(
        position,
        node.name,
        node.info.model_copy(update={"devices": devices}),
        node.state,
        old.first_device,
        old.joined_s,
        old.token,
        node.reason,
        node.drained_by,
    )
    scheduler.nodes[node.name] = new
    return new
