"""One turn of the scheduler: the step that is stored, and the changes that are announced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rota.scheduler.loop import Loop
from rota.scheduler.world import How
from rota.server.policy.host import PolicyHost
from rota.server.scheduler_view import SchedulerView
from rota.server.step_recorder import StepRecorder, attempt_row, job_state, plain_reservations, plain_wake
from rota.server.store.rows import (
    REAL,
    CommandDone,
    CostRow,
    DecisionRow,
    EventRow,
    IntervalRow,
    NodeRow,
    PolicyRow,
    ShadowRow,
    Step,
)
from rota.worlds.live.attempts import LiveJob
from rota.worlds.live.jobs import LiveJobs, Unsaved
from rota.worlds.live.wanted_nodes import AUTOSCALE

TAKEN = frozenset({"preempted", "migrated", "resized"})
"""Ends of intervals at which a job loses devices that it would have kept."""


@dataclass
class TurnChanges:
    """Changes of a turn, for the callers that wait for it."""

    jobs: Mapping[int, LiveJob] = field(default_factory=dict)
    done: Sequence[tuple[int, object]] = ()
    """Commands with their outcomes."""
    started: Sequence[tuple[float, float]] = ()
    """Moments of submission and of the first process, of jobs that have just begun."""
    preempted: Sequence[str] = ()
    """A reason for each job that had to give up devices."""
    taken: Sequence[tuple[int, str]] = ()
    """Rows of those jobs, with the reason."""
    idle: Sequence[tuple[int, str]] = ()
    """Rows of idle jobs, with a sentence for each."""
    risks: Sequence[tuple[int, str]] = ()
    """Rows of jobs with a promise at risk, or safe again, with a sentence about it."""
    at_s: float = 0.0
    nodes: Sequence[str] = ()
    """Names of the nodes with changed state or devices."""
    watched: Sequence[str] = ()
    """Ids of jobs with new reports of agents: points of their curves, use of devices."""
    is_about_policy: bool = False
    """True if another policy decides, or another one runs beside it."""
    replaced: str = ""
    """That the controller has put another policy in charge, and why, as a sentence."""
    lost: int = 0
    """Attempts that ended by the infrastructure's fault."""
    decided_s: float | None = None
    """How long the decision took, if there was one."""
    outcome: str = "applied"
    wanted: bool = False
    """Whether it has changed how many nodes are wanted, or which of them may go."""


def step_of(
    view: SchedulerView,
    recorder: StepRecorder,
    host: PolicyHost,
    loop: Loop,
    live: LiveJobs,
    unsaved: Unsaved,
    has_decided: bool,
) -> tuple[Step, dict[int, LiveJob]]:
    """Everything that has changed since the last step; `view` shows its policy and nodes from now on."""
    state, now = loop.state, loop.state.now
    intervals, seen = recorder.take(state)
    jobs = dict(unsaved.jobs)
    jobs |= {row: live[row] for row in seen if row not in jobs and row in live}
    begun = sum(attempt.wanted_s == now for attempt in unsaved.attempts.values())
    step = Step(
        jobs={row: job_state(state, job) for row, job in jobs.items()},
        attempts=[attempt_row(attempt) for attempt in unsaved.attempts.values()],
        intervals=intervals,
        decision=_decision(view, host, now, intervals, begun) if has_decided else None,
        policies=[_policy_row(view, loop)] if has_decided else [],
        nodes=[_node_row(view, live, position) for position in sorted(unsaved.nodes)],
        done=[CommandDone(seq, now, outcome) for seq, outcome in unsaved.done],
        events=[EventRow(now, who, kind, job, text) for who, kind, job, text in unsaved.events],
        points=unsaved.points,
        thinned=sorted(unsaved.thinned),
        costs=[
            CostRow(
                live.workload(row),
                live.table.jobs.name_of("tenant", row),
                cost.kind,
                cost.seconds,
                cost.bytes,
                now,
            )
            for row, cost in unsaved.costs
        ],
        shadow=_shadow_rows(recorder, host),
        facts={AUTOSCALE: live.scaling.plain()} if unsaved.scaling and live.scaling is not None else {},
    )
    return step, jobs


def _shadow_rows(recorder: StepRecorder, host: PolicyHost) -> list[ShadowRow]:
    """Decisions of the shadow at the moments since the last step."""
    fresh = [moment for moment in host.shadow_moments() if moment.now > recorder.shadowed_s]
    if fresh:
        recorder.shadowed_s = fresh[-1].now
    return [ShadowRow(moment.now, "; ".join(moment.would)) for moment in fresh if moment.would]


def _decision(
    view: SchedulerView, host: PolicyHost, now: float, intervals: Sequence[IntervalRow], begun: int
) -> DecisionRow:
    assert view.policy is not None
    trouble = host.trouble
    view.last_s = host.real.tally.round_trip_ms / 1000.0
    is_late = bool(trouble)
    view.late += is_late
    preempted = sum(interval.how in TAKEN for interval in intervals)
    return DecisionRow(now, view.policy.spec, view.last_s, begun, preempted, is_late=is_late, note=trouble)


def _policy_row(view: SchedulerView, loop: Loop) -> PolicyRow:
    """The policy with its new memory; the memory of a decision that did not come is the old one."""
    assert view.policy is not None
    view.policy = PolicyRow(
        REAL,
        view.policy.spec,
        view.policy.since_s,
        view.policy.by,
        memory=loop.memory.get("sealed", b""),
        wake=plain_wake(loop.wake),
        reservations=plain_reservations(loop.state.reservations),
    )
    return view.policy


def _node_row(view: SchedulerView, live: LiveJobs, position: int) -> NodeRow:
    node = live.machines.nodes[position]
    old = view.nodes[node.name]
    devices = [
        device.model_copy(
            update={"healthy": device.index not in node.sick, "why": node.sick.get(device.index, "")}
        )
        for device in node.info.devices
    ]
    new = NodeRow(
        position,
        node.name,
        node.info.model_copy(update={"devices": devices, "trouble": node.trouble}),
        node.state,
        old.first_device,
        old.joined_s,
        old.token,
        node.reason,
        node.drained_by,
    )
    view.nodes[node.name] = new
    return new


def _watched(unsaved: Unsaved) -> list[int]:
    return sorted({row for row, _ in unsaved.attempts} | {point.row for point in unsaved.points})


def changes_of(
    step: Step, changed: Mapping[int, LiveJob], unsaved: Unsaved, live: Mapping[int, LiveJob]
) -> TurnChanges:
    """The changes of a stored step, for the callers that wait for them."""
    ended = [attempt for attempt in step.attempts if attempt.end_s is not None]
    return TurnChanges(
        jobs=changed,
        done=[(done.seq, done.outcome) for done in step.done],
        started=unsaved.started,
        idle=unsaved.idle,
        risks=unsaved.risks,
        preempted=[interval.how for interval in step.intervals if interval.how in TAKEN],
        taken=[(interval.row, interval.how) for interval in step.intervals if interval.how in TAKEN],
        at_s=max((interval.end_s for interval in step.intervals), default=0.0),
        nodes=[node.name for node in step.nodes],
        watched=[live[row].id for row in _watched(unsaved) if row in live],
        lost=sum(attempt.how == How.LOST for attempt in ended),
        decided_s=None if step.decision is None else step.decision.took_s,
        outcome="late" if step.decision is not None and step.decision.is_late else "applied",
        wanted=AUTOSCALE in step.facts,
    )
