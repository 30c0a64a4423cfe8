"""Listens to the loop, and turns what changed into rows of the store."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from rota.model.grants import LIMITS, Grant
from rota.model.promises import Offer, Promise
from rota.model.reasons import Constraint
from rota.scheduler.decision import Decision, Wake
from rota.scheduler.moments.packing import pack_grant, pack_reservation
from rota.scheduler.snapshot import Snapshot
from rota.scheduler.world import How, Lost
from rota.server.store.rows import AttemptRow, IntervalRow, JobState
from rota.table.state import Phase, State
from rota.worlds.live import lifecycle
from rota.worlds.live.attempts import Attempt, LiveJob, NodePart
from rota.worlds.live.holds import OFFERED, dominant
from rota.worlds.live.jobs import LiveJobs


class StepRecorder:
    """Listens to the loop: intervals to be stored, and endings that only the policy knows of."""

    def __init__(self) -> None:
        self.live: LiveJobs | None = None
        self.intervals: list[IntervalRow] = []
        self.seen: set[int] = set()
        """Rows that the loop has touched."""
        self.shadowed_s = 0.0
        """Moment of the shadow's last decision that is on record."""
        self._logged = 0
        """Lines of the table's log that have been seen."""

    def interval(self, grant: Grant, start_s: float, end_s: float, how: How, lost: Lost) -> None:
        """A stretch of unchanged holdings is over."""
        live = self.live
        assert live is not None
        job, node_of = live[grant.job], live.machines.cluster.device_node
        limits = {name: _finite(getattr(grant, name)) for name in LIMITS}
        if limits["batch_size"] is None:
            limits["batch_size"] = _finite(live.table.jobs.batch_size.item(grant.job))
        nodes = [int(node_of[device]) for device in grant.devices] or [max(grant.node, 0)]
        self.intervals.append(
            IntervalRow(
                row=grant.job,
                attempt=job.attempt.number if job.attempt is not None else 0,
                start_s=start_s,
                end_s=end_s,
                devices=list(grant.devices),
                nodes=nodes,
                share=grant.share,
                role=grant.role.name.lower(),
                how=how.value,
                overhead_s=lost.overhead_s,
                lost_work_s=lost.work_s,
                **limits,
            )
        )

    def waits(self, snapshot: Snapshot, decision: Decision, row: int) -> None:
        """Nothing: reasons are derived when they are asked for."""

    def awaits_round(self, row: int, reason: Constraint) -> None:
        """As with `waits`."""

    def offered(self, row: int, offer: Offer) -> None:
        """The world has noted it with the job."""

    def promised(self, row: int, promise: Promise) -> None:
        """The statement about the deadline of `row` from now on."""
        assert self.live is not None
        lifecycle.promise(self.live, self.live[row], promise)

    def left(self, row: int, phase: Phase, now: float, why: str = "") -> None:
        """`row` has ended; if the world did not know, the policy has ended it."""
        live = self.live
        assert live is not None
        job = live.get(row)
        if job is not None and not job.is_over:
            words = {
                Phase.REJECTED: "the policy refused it",
                Phase.FAILED: "its last attempt failed, and the policy refused to try it again",
                Phase.CANCELLED: "ended by the policy",
            }
            told = words.get(phase, "ended")
            lifecycle.end(live, job, _WORD[phase], f"{told}: {why}" if why else told)
            lifecycle.send_all_away(live, job, How.CANCELLED, "cancelled")
        self.seen.add(row)

    def take(self, state: State) -> tuple[list[IntervalRow], set[int]]:
        """Take what has been collected, with the rows that the table says have changed."""
        self.seen.update(state.log[self._logged :])
        self._logged = len(state.log)
        taken = self.intervals, self.seen
        self.intervals, self.seen = [], set()
        return taken


_WORD = {
    Phase.COMPLETED: "COMPLETED",
    Phase.FAILED: "FAILED",
    Phase.CANCELLED: "CANCELLED",
    Phase.REJECTED: "CANCELLED",
}


def job_state(state: State, job: LiveJob) -> JobState:
    """All that is stored of a job's life."""
    row, attempt = job.row, job.attempt
    phase = Phase(state.phase.item(row)) if row < state.submitted else Phase.ABSENT
    exit = job.exit if job.exit is not None else (attempt.exit if attempt is not None else None)
    return JobState(
        state=word(phase, job),
        phase=int(phase),
        reason=_reason(phase, job),
        hold=[hold.plain() for hold in job.holds.values()],
        first_start_s=_finite(state.first_start_s.item(row)),
        since_s=state.since_s.item(row),
        run_s=state.run_s.item(row),
        service=state.service.item(row),
        service_rate=state.service_rate.item(row),
        placed_s=state.placed_s.item(row),
        adjusted_s=state.adjusted_s.item(row),
        starts=state.starts.item(row),
        moves=state.moves.item(row),
        preemptions=state.preemptions.item(row),
        failures=state.failures.item(row),
        user_failures=job.user_failures,
        progress_base=state.progress.base.item(row),
        progress_rate=state.progress.rate.item(row),
        progress_since=state.progress.since.item(row),
        finish_s=job.finish_s,
        exit_code=exit.code if exit is not None else None,
        signal=exit.signal if exit is not None else None,
        cause=job.cause,
        attempt=attempt.number if attempt is not None else 0,
        capability=None if job.capability is None else job.capability.model_dump(mode="json"),
        measured={
            "infrastructure_failures": job.infrastructure_failures,
            "refusals": job.refusals,
            "passed_trial": job.passed_trial,
            "preempted_for": job.preempted_for,
            "observed": job.observed.plain(),
            "promise": None if job.promise is None else _plain_promise(job.promise),
            "leaving_s": job.leaving_s,
            "idle_since_s": job.idle_since_s,
            "needless": job.needless,
            "word": job.state,  # how it will be said to have ended once its last process has gone
        },
    )


def word(phase: Phase, job: LiveJob) -> str:
    """Slurm's word for where a job stands."""
    if job.is_over:
        return "COMPLETING" if any(a.has_begun or a.is_ordered for a in job.living) else job.state
    if phase is Phase.RUNNING:
        return "RUNNING"
    if OFFERED in job.holds:
        return "OFFERED"
    if any(attempt.is_suspended for attempt in job.living):
        return "SUSPENDED"
    return "PENDING"


def _reason(phase: Phase, job: LiveJob) -> str:
    if job.is_over:
        return job.state
    if job.holds:
        return dominant(job.holds).constraint().code.value
    return ""


def _plain_promise(promise: Promise) -> list[float | None]:
    return [promise.due_s, promise.expected_s if promise.expected_s < math.inf else None]


def _finite(value: float) -> float | None:
    return None if math.isnan(value) else value


def attempt_row(attempt: Attempt) -> AttemptRow:
    """All that is stored of an attempt."""
    return AttemptRow(
        row=attempt.row,
        number=attempt.number,
        state=_status(attempt),
        grant=pack_grant(attempt.grant),
        parts={
            "places": [_plain_place(place) for place in attempt.places],
            "told": None if attempt.told is None else attempt.told.value,
            "port": attempt.port,
            "ready_s": attempt.ready_s,
            "is_trial": attempt.is_trial,
            "saved_base": attempt.saved_base,
            "is_for_others": attempt.is_for_others,
            "lost_s": attempt.lost_s,
        },
        wanted=attempt.wanted.value,
        wanted_s=attempt.wanted_s,
        start_s=attempt.start_s,
        end_s=attempt.end_s,
        how=str(attempt.how),
        exit=None if attempt.exit is None else attempt.exit.model_dump(mode="json"),
        cause=attempt.cause,
        notice=None if attempt.notice is None else attempt.notice.model_dump(mode="json"),
        costs=attempt.costs,
        progress=None if attempt.progress is None else attempt.progress.model_dump(mode="json"),
        usage=None if attempt.usage is None else attempt.usage.model_dump(mode="json"),
        mechanism=attempt.mechanism,
    )


def _status(attempt: Attempt) -> str:
    if attempt.is_over:
        return "ended"
    if not attempt.is_ordered:
        return "queued"
    if attempt.is_suspended:
        return "suspended"
    return next((place.status.value for place in attempt.places if place.status is not None), "ordered")


def _plain_place(place: NodePart) -> dict[str, Any]:
    return {
        "node": place.node,
        "name": place.name,
        "devices": list(place.devices),
        "ranks": [rank.model_dump(mode="json") for rank in place.ranks],
        "status": None if place.status is None else place.status.value,
        "end": None if place.end is None else place.end.model_dump(mode="json"),
        "why": place.why,
        "has_started": place.has_started,
        "over_s": place.over_s,
        "suspended_gib": place.suspended_gib,
    }


def plain_wake(wake: Wake) -> list[Any]:
    """A wake as JSON."""
    return [None if math.isinf(wake.at_s) else wake.at_s, int(wake.on), wake.if_waiting]


def plain_reservations(reservations: Iterable[Any]) -> list[Any]:
    """Reservations as JSON."""
    return [pack_reservation(reservation) for reservation in reservations]
