"""`rota why`: what binds a job now, dominant first, its expected start, and its deadline's plan."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rota.errors import RotaError
from rota.model.reasons import Code, Constraint, names_of
from rota.model.units import format_duration
from rota.model.words import utc
from rota.server.answers.estimator import Estimator
from rota.server.answers.present_moment import gather
from rota.server.answers.questions import AskStart, Looking
from rota.server.answers.reasons import Words, hold_views
from rota.server.store.rows import AttemptRow, JobRow
from rota.server.views import is_over
from rota.wire.sync import PartStatus, ProgressReport
from rota.wire.views import JobView, PlannedSlotView, PlanView, ReasonView, Why
from rota.worlds.live.resize import RESIZED_BY

if TYPE_CHECKING:
    from rota.server.scheduler import Scheduler
    from rota.server.store.store import Store


BUDGET_S = 2.0
"""For the estimate."""
_BETWEEN = "is changing its state just now: ask again in a moment"
"""Of a job that is on record as waiting, and to the policy something else by now."""
_UNSEEN = "has just been submitted, and the policy has not seen it yet"


@dataclass(frozen=True)
class Asking:
    """One question about one job; moments are seconds since the cluster's epoch."""

    scheduler: Scheduler
    store: Store
    estimator: Estimator
    row: JobRow

    def answer(self) -> Why:
        """Everything that is known."""
        row, state = self.row, self.row.now.state
        self.scheduler.standing.wait()  # the caller may have just changed something
        words = Words.of(self.scheduler.world)
        why = Why(job=row.id, state=state, reasons=[], policy=self._policy())
        if is_over(state) or state == "COMPLETING":
            why.reasons = [ReasonView(code=state, sentence=_ended(row))]
            return why
        why.reasons = self._reasons(words) + self._resized()
        self._estimate(why, words)
        why.plan = plan_of(self.scheduler, row)
        return why

    @property
    def _epoch_s(self) -> float:
        return self.scheduler.clock.epoch_unix_s

    def _policy(self) -> str:
        policy = self.scheduler.view.policy
        return "" if policy is None else policy.spec

    # -- reasons ---------------------------------------------------------------------------------

    def _reasons(self, words: Words) -> list[ReasonView]:
        row, now = self.row, self.scheduler.clock()
        if row.now.hold:
            spec = self.store.spec(row.row)
            return hold_views(words, row, now, self._epoch_s, spec.after if spec else (), self.store)
        if row.now.state == "RUNNING":
            return self._running(words)
        constraints = self._trouble()
        try:
            constraints += self._waiting()
        except RotaError as error:  # it is computing a decision, or restarts: answer from the record
            constraints += self._displaced([])
            constraints.append(Constraint(Code.POLICY, detail=str(error)))
        return [words.view(one) for one in constraints or [Constraint(Code.POLICY, detail=_BETWEEN)]]

    def _resized(self) -> list[ReasonView]:
        """That its user has it start again on another number of devices, until it has begun to."""
        left = [one for one in self.store.attempts(self.row.row) if one.notice is not None]
        text = str(left[-1].notice["text"]) if left and left[-1].notice else ""
        if not text.startswith(RESIZED_BY):
            return []
        return [ReasonView(code="Resized", sentence=f"was {text}: it goes on from its checkpoint")]

    def _trouble(self) -> list[Constraint]:
        """Faults that keep the policy or the scheduler from deciding."""
        return [Constraint(Code.POLICY, detail=sentence) for sentence in self.scheduler.troubles()]

    def _waiting(self) -> list[Constraint]:
        loop = self.scheduler.loop
        if loop is not None and self.row.row >= loop.state.submitted:
            return [Constraint(Code.POLICY, detail=_UNSEEN)]
        return self._displaced(list(self.scheduler.explain(self.row.row).constraints))

    def _displaced(self, constraints: list[Constraint]) -> list[Constraint]:
        """The reasons, with the jobs that got its devices, which a restarted policy process forgets."""
        heirs = str((self.row.now.measured or {}).get("preempted_for", ""))
        if not heirs or any(one.code is Code.PREEMPTED for one in constraints):
            return constraints
        attempts = self.store.attempts(self.row.row)
        devices = len(attempts[-1].grant[1]) if attempts else self.row.asked.gpus
        return [Constraint(Code.PREEMPTED, devices, detail=heirs), *constraints]

    # -- why it runs as it does ------------------------------------------------------------------

    def _running(self, words: Words) -> list[ReasonView]:
        attempt = self.scheduler.view.holding.get(self.row.row)
        if attempt is None:
            return []
        has, asked = len(attempt.grant[1]), self.row.asked.gpus
        views = [self._starting(words, attempt)] if attempt.start_s is None else []
        if attempt.parts["is_trial"]:
            return [*views, words.view(self._trial(attempt, asked))]
        views += [words.view(self._measured(one, attempt)) for one in self._shaped()]
        if not views:
            views = [words.view(Constraint(Code.RUNNING, asked, has))]
            views[0].detail = _told(attempt, PartStatus.RUNNING, PartStatus.SUSPENDED)
        return views

    def _starting(self, words: Words, attempt: AttemptRow) -> ReasonView:
        """Why it has no processes yet: the jobs on its devices, or else what its agents wait for."""
        leavers = names_of(self._leavers(attempt))
        view = words.view(Constraint(Code.STARTING, provided=len(attempt.grant[1]), detail=leavers))
        if not leavers:
            view.detail = _told(attempt, PartStatus.WAITING)
        return view

    def _shaped(self) -> Sequence[Constraint]:
        try:
            return self.scheduler.explain(self.row.row).constraints
        except RotaError as error:
            return [Constraint(Code.POLICY, detail=str(error))]

    def _trial(self, attempt: AttemptRow, asked: int) -> Constraint:
        words = Words.of(self.scheduler.world)
        ready_s, trial_s = attempt.parts["ready_s"], self.scheduler.settings.live.trial_s
        left_s = math.nan if ready_s is None else max(ready_s + trial_s - self.scheduler.clock(), 0.0)
        return Constraint(Code.PROFILING, left_s, 1, f"{asked} {words.device}s")

    def _measured(self, constraint: Constraint, attempt: AttemptRow) -> Constraint:
        """The speed that the program reports, in place of the table's."""
        if constraint.code is not Code.PACKED:
            return constraint
        now, alone = _step_s(attempt), math.nan
        for other in self.store.attempts(self.row.row):
            is_alone = float(other.grant[2]) == 1.0 and len(other.grant[1]) == len(attempt.grant[1])
            if is_alone and other.number != attempt.number:
                alone = _step_s(other)
        return constraint._replace(provided=min(alone / now, 1.0) if now > 0 else math.nan)

    def _leavers(self, attempt: AttemptRow) -> list[str]:
        """Jobs with processes still on the devices of `attempt`."""
        world = self.scheduler.world
        wanted = {(place["name"], index) for place in attempt.parts["places"] for index in place["devices"]}
        return [
            job.id
            for job in (list(world.live.values()) if world is not None else ())
            for other in job.living
            if job.row != self.row.row and other.told is not None and not other.is_suspended
            if any(
                (place.name, index) in wanted
                for place in other.places
                if not place.suspended_gib  # a part suspended before the order to stop holds none of them
                for index in place.devices
            )
        ]

    # -- when ------------------------------------------------------------------------------------

    def _estimate(self, why: Why, words: Words) -> None:
        """The estimated start, and what follows from it."""
        try:
            looking = Looking(gather(self.scheduler), budget_s=BUDGET_S)
            estimate = self.estimator.ask(AskStart(looking, self.row.row), BUDGET_S)
        except RotaError as error:
            why.basis = "" if self.row.now.state == "RUNNING" else f"no estimate: {error}"
            return
        now = self.scheduler.clock()
        if self.row.now.state != "RUNNING":
            why.basis = estimate["basis"]
            why.start_s, why.start_from_s, why.start_to_s = (
                self._unix(estimate[name], now) for name in ("at_s", "low_s", "high_s")
            )
            self._until(why.reasons, estimate["at_s"], now)
        late = self._late(estimate, now)
        if late is not None:
            why.reasons.append(words.view(late))

    def _unix(self, at_s: float | None, now: float) -> float | None:
        return None if at_s is None else self._epoch_s + max(at_s, now)

    def _until(self, reasons: Sequence[ReasonView], at_s: float | None, now: float) -> None:
        """Until when a preempted job is out."""
        for reason in reasons:
            if reason.code == Code.PREEMPTED and at_s is not None:
                left = format_duration(max(at_s - now, 0.0))
                reason.sentence += f", probably until {utc(self._epoch_s + max(at_s, now))} (in {left})"

    def _late(self, estimate: dict[str, Any], now: float) -> Constraint | None:
        """A deadline that will not be met."""
        deadline_s, left_s = self.row.asked.deadline_s, estimate["left_s"]
        if deadline_s is None or left_s is None or estimate["at_s"] is None:
            return None
        return late(self._epoch_s, deadline_s, max(estimate["at_s"], now) + left_s)


def late(epoch_s: float, deadline_s: float, end_s: float) -> Constraint | None:
    """The deadline as a constraint, if the expected end is after it."""
    if end_s <= deadline_s:
        return None
    return Constraint(Code.DEADLINE, end_s - deadline_s, detail=utc(epoch_s + deadline_s))


def _ended(row: JobRow) -> str:
    if row.now.state == "COMPLETING":
        return f"has ended and is leaving its devices: {row.now.cause}"
    return f"has ended: {row.now.cause}" if row.now.cause else "has ended"


def _step_s(attempt: AttemptRow) -> float:
    """Seconds of a step, as the program reports them; NaN if it does not."""
    said = None if attempt.progress is None else ProgressReport(**attempt.progress).step_s
    return math.nan if said is None else said


def _told(attempt: AttemptRow, *status: PartStatus) -> str:
    """Reports of agents about its parts in one of these states."""
    places = [place for place in attempt.parts["places"] if place["status"] in status]
    return "; ".join(dict.fromkeys(place["why"] for place in places if place["why"]))


def plan_of(scheduler: Scheduler, row: JobRow) -> PlanView | None:
    """How the deadline of a job is to be kept; None without one, or where the policy has no plan for it."""
    asked = row.asked
    if row.now.hold or (asked.deadline_s is None and not asked.deadlines):
        return None
    try:
        plan = scheduler.explain(row.row).plan
    except RotaError:  # it is deciding: the plan would be another one in a moment
        return None
    if plan is None or not math.isfinite(plan.due_s):
        return None
    epoch_s = scheduler.clock.epoch_unix_s
    slots = [
        PlannedSlotView(from_s=epoch_s + slot.from_s, to_s=epoch_s + slot.to_s, gpus=slot.gpus)
        for slot in plan.slots
    ]
    slack_s = plan.slack_s if math.isfinite(plan.slack_s) else None
    return PlanView(due_s=epoch_s + plan.due_s, slots=slots, slack_s=slack_s)


def as_planned_now(scheduler: Scheduler, row: JobRow, view: JobView) -> JobView:
    """`view` with the end planned now in place of the one reported last."""
    if view.promised_s is None or is_over(view.state):
        return view
    plan = plan_of(scheduler, row)
    if plan is None:
        return view
    return view.model_copy(update={"expected_s": plan.slots[-1].to_s if plan.slots else None})
