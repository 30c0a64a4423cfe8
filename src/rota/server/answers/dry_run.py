"""`rota submit --dry-run`: what would become of a job, without putting it on record."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rota.errors import RotaError
from rota.model.reasons import Code, Constraint
from rota.model.words import utc
from rota.server.answers.estimator import Estimator
from rota.server.answers.present_moment import gather
from rota.server.answers.questions import AskNew, Looking
from rota.server.answers.reasons import Words, from_reply, hold_views
from rota.server.answers.unused_fields import unread_priority
from rota.server.answers.why import late
from rota.server.recovery import asked_job
from rota.server.store.rows import JobRow
from rota.wire.job import JobSpec, array_indexes
from rota.wire.views import DryRun, ReasonView
from rota.worlds.live.dependencies import is_met, lacks
from rota.worlds.live.holds import BEGIN, DEPENDENCY, USER, Hold

if TYPE_CHECKING:
    from rota.server.scheduler import Scheduler
    from rota.server.store.store import Store

BUDGET_S = 3.0
NEW = "new"
"""Id of the job that is not there."""


def dry_run(
    scheduler: Scheduler, store: Store, estimator: Estimator, user: str, row: JobRow, spec: JobSpec
) -> DryRun:
    """What would happen to `row`, which is on no record, as the scheduler's table would take it."""
    is_known = scheduler.standing.wait()
    words = Words.of(scheduler.world)
    answer = DryRun(feasible=True, warnings=warnings(spec, scheduler.clock.epoch_unix_s + scheduler.clock()))
    if scheduler.view.policy is not None:
        answer.warnings += unread_priority(scheduler.view.policy.spec, spec.priority)
    never = _never(scheduler, store, row, spec)
    if never:
        answer.feasible, answer.reasons = False, [words.view(one) for one in never]
        return answer
    if not is_known:
        answer.warnings.append(
            "whether the cluster could ever run it is not known: the scheduler is starting"
        )
    answer.reasons = _holds(words, user, row, spec, store, scheduler)
    try:
        _look_ahead(answer, scheduler, estimator, words, row, spec)
    except RotaError as error:
        answer.basis = f"no estimate: {error}"
    return answer


def _look_ahead(
    answer: DryRun, scheduler: Scheduler, estimator: Estimator, words: Words, row: JobRow, spec: JobSpec
) -> None:
    """Position, reasons and estimate from the process that looks ahead."""
    looking = Looking(gather(scheduler), budget_s=BUDGET_S)
    estimate = estimator.ask(AskNew(looking, asked_job(row, spec), tuple(spec.gpu_types)), BUDGET_S)
    answer.reasons += [words.view(one) for one in from_reply(estimate["constraints"])]
    answer.basis = estimate["basis"]
    if estimate["at_s"] is None:
        return
    if spec.after or spec.hold or spec.begin_s:
        answer.basis += "; without what holds it"
    epoch_s, now = scheduler.clock.epoch_unix_s, scheduler.clock()
    start_s = max(estimate["at_s"], now)
    if spec.begin_s is not None:
        start_s = max(start_s, spec.begin_s - epoch_s)
    answer.position, answer.start_s = None if spec.hold else estimate["position"], epoch_s + start_s
    if spec.deadline_s is not None and estimate["left_s"] is not None:
        constraint = late(epoch_s, spec.deadline_s - epoch_s, start_s + estimate["left_s"])
        if constraint is not None:
            answer.reasons.append(words.view(constraint))


def _never(scheduler: Scheduler, store: Store, row: JobRow, spec: JobSpec) -> list[Constraint]:
    """Why the cluster, or its rules, could never run it."""
    constraints = []
    world = scheduler.world
    if world is not None:
        constraints += [hold.constraint() for hold in lacks(world.cluster, spec, row.asked.tenant)]
    for before in spec.after:
        if is_met(store.phases(before.job), before.when) is False:
            ended = f"which it is to run after, did not end as asked ({before.when})"
            constraints.append(
                Constraint(Code.POLICY, detail=f"would be cancelled: job {before.job}, {ended}")
            )
    return constraints


def _holds(
    words: Words, user: str, row: JobRow, spec: JobSpec, store: Store, scheduler: Scheduler
) -> list[ReasonView]:
    """What would hide it from its policy at first."""
    now, epoch_s = scheduler.clock(), scheduler.clock.epoch_unix_s
    holds = [Hold(USER, user)] if spec.hold else []
    open_ = [before.job for before in spec.after if not is_met(store.phases(before.job), before.when)]
    if open_:
        holds.append(Hold(DEPENDENCY, ", ".join(open_)))
    if spec.begin_s is not None and spec.begin_s - epoch_s > now:
        holds.append(Hold(BEGIN, utc(spec.begin_s), spec.begin_s - epoch_s))
    held = replace(row, now=replace(row.now, hold=[hold.plain() for hold in holds]))
    views = hold_views(words, held, now, epoch_s, spec.after, store)
    for view in views:
        if view.code == Code.HELD:
            view.remedy = "Submit it without a hold, or release it afterwards."
        elif view.code == Code.BEGIN:
            view.remedy = "Submit it with an earlier moment to begin."
    return views


def warnings(spec: JobSpec, now_s: float) -> list[str]:
    """Warnings about a request; `now_s` is Unix time."""
    sentences = []
    if spec.time_s is None and spec.kind != "service":
        sentences.append(
            "no time limit is given (--time): estimates draw its duration from past jobs of its tenant, and "
            "policies that order by duration guess it"
        )
    if spec.deadline_s is not None and spec.deadline_s <= now_s:
        sentences.append("its deadline is over already")
    elif spec.deadline_s is not None and spec.time_s is not None and now_s + spec.time_s > spec.deadline_s:
        sentences.append("its time limit ends after its deadline, even if it started now")
    if spec.checkpoint == "none" and spec.preemptible:
        sentences.append("it may be preempted, and would then start from the beginning (checkpoint none)")
    count = len(array_indexes(spec.array)[0]) if spec.array else 0
    if count > 1:
        sentences.append(f"only the first of the {count} jobs of its array is looked at")
    return sentences
