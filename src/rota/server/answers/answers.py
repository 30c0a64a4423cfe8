"""All answers in one place, for the API: from the store, the policy's process and forecasts."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rota.errors import PolicyError
from rota.model.reasons import Code
from rota.model.tenants import Tenants
from rota.model.words import utc
from rota.scheduler.reasons.order import Precedence
from rota.server.answers.dry_run import NEW, dry_run
from rota.server.answers.estimator import Estimator
from rota.server.answers.policy import policy_view, try_policy
from rota.server.answers.reasons import Words, reasons_of
from rota.server.answers.starts import StartOutlook
from rota.server.answers.tenant_losses import losses
from rota.server.answers.unused_fields import (
    answers_deadlines,
    unread_by_itself,
    unread_by_policy,
    unread_deadline,
    unread_priorities,
    unread_priority,
)
from rota.server.answers.whatif import whatif
from rota.server.answers.why import Asking, as_planned_now
from rota.server.api.forms import Question
from rota.server.callers import Caller
from rota.server.clocks import changes_by_the_cluster
from rota.server.refusals import Busy
from rota.server.scheduler import Scheduler
from rota.server.store.new_jobs import asked
from rota.server.store.rows import JobQuery, JobRow, JobState
from rota.server.store.store import Store
from rota.table.state import Phase
from rota.wire.job import JobSpec
from rota.wire.tenants import TenantLoss
from rota.wire.views import DecisionView, DryRun, JobView, PolicyView, ReasonView, WhatIf, Why
from rota.worlds.live.dependencies import lacks

WAITING = frozenset({"PENDING", "OFFERED", "SUSPENDED"})
UNKNOWN = (
    "whether the cluster as it is could ever run it is not known yet, since the scheduler is starting; "
    "`rota why` will say it"
)
SEEN_S = 0.5
"""How long a question about a job waits for the step that takes it in."""
MOST_REASONS = 50
"""Number of waiting jobs, from the front, for which a list gives reasons; `rota why` does for any job."""


class Answers:
    """Asks the store, the policy's process and one that looks ahead; changes nothing.

    Estimates of single jobs and what-ifs have a process each, so that the quick ones need not wait for the
    slow ones; both are started when they are first needed.
    """

    def __init__(
        self, scheduler: Scheduler, store: Store, log: Path | None = None, memory_gib: float = 0.0
    ) -> None:
        """Each process may take `memory_gib`; half of the machine's memory if that is 0."""
        self._scheduler, self._store = scheduler, store
        self._starts, self._futures, self._trials, self._all = (
            Estimator(log, memory_gib=memory_gib) for _ in range(4)
        )
        self.outlook = StartOutlook(scheduler, self._all)

    def policy(self) -> PolicyView:
        """The policy in force, and its shadow."""
        return policy_view(self._scheduler, self._store)

    def decisions(self, limit: int) -> list[DecisionView]:
        """The newest decisions, oldest first."""
        epoch_s = self._scheduler.clock.epoch_unix_s
        return [
            DecisionView(
                at_s=epoch_s + row.now_s,
                policy=row.policy,
                took_ms=1000.0 * row.took_s,
                started=row.grants,
                preempted=row.preempted,
                late=row.is_late,
                note=row.note,
            )
            for row in self._store.decisions(limit)
        ]

    def new_policy(self, policy: str) -> PolicyView:
        """`policy`, which decides from now on, and what of the waiting jobs has no effect under it."""
        view = self.policy()
        waiting = self._store.jobs(JobQuery(states=("PENDING", "OFFERED", "SUSPENDED")))
        view.warnings = unread_priorities(policy, [job.id for job in waiting if job.asked.priority])
        return view

    def try_policy(self, policy: str) -> None:
        """Let it decide once upon the present moment before it is accepted; InputError if it cannot."""
        try:
            try_policy(self._scheduler, self._trials, policy)
        finally:
            self._trials.close()  # it is not needed for a long time

    def ignored(self, spec: JobSpec, tenant: str) -> list[str]:
        """What of a job of `tenant` has no effect under the policy in force, and why it cannot be in time."""
        is_known = self._scheduler.standing.wait()
        policy, world = self._scheduler.view.policy, self._scheduler.world
        said = []
        clock = self._scheduler.clock
        if spec.deadline_s is not None and spec.deadline_s < clock.epoch_unix_s + clock():
            said.append(f"its deadline, {utc(spec.deadline_s)}, is over already")
        said += unread_by_itself(spec)
        if policy is not None:
            said += unread_priority(policy.spec, spec.priority)
            said += unread_deadline(policy.spec, bool(spec.deadlines or spec.deadline_s is not None))
            said += unread_by_policy(policy.spec, spec)
        if not is_known or world is None:
            said.append(UNKNOWN)
        elif not world.cluster.gpus:
            said.append("no node has joined the cluster yet; it waits until one comes that can run it")
        else:
            words = Words.of(world)
            for constraint in (hold.constraint() for hold in lacks(world.cluster, spec, tenant)):
                who = "" if constraint.code is Code.QUOTA else "it "  # a quota's names the tenant
                sentence = words.view(constraint).sentence
                nor = ", nor promise its deadline" if self.promises(spec) else ""
                said.append(f"the cluster as it is could never run it{nor}: {who}{sentence}")
        return said

    def ignored_change(self, spec: JobSpec, changes: Mapping[str, Any], tenant: str) -> list[str]:
        """What of `changes`, with moments by people's clock, has no effect and was not said before."""
        said, told = self.ignored(spec, tenant), changes_by_the_cluster(changes, self._scheduler.clock)
        fields = {name: value for name, value in told.items() if name in type(spec).model_fields}
        after = self.ignored(spec.model_copy(update=fields), tenant)
        return [sentence for sentence in after if sentence not in said]

    def answers_deadline(self, spec: JobSpec, tenant: str) -> bool:
        """True if the policy in force will say of the deadline of a job of `tenant` whether it is kept.

        Of one that the cluster could never run it is not asked.
        """
        world = self._scheduler.world
        return self.promises(spec) and (world is None or not any(lacks(world.cluster, spec, tenant)))

    def promises(self, spec: JobSpec) -> bool:
        """True if `spec` has a deadline, and the policy in force promises such."""
        policy = self._scheduler.view.policy
        has_one = bool(spec.deadlines or spec.deadline_s is not None)
        return has_one and policy is not None and answers_deadlines(policy.spec)

    def why(self, row: JobRow) -> Why:
        """All binding reasons, dominant first, and an estimate."""
        return Asking(self._scheduler, self._store, self._starts, self._taken_in(row)).answer()

    def _taken_in(self, row: JobRow) -> JobRow:
        """The job once a step has seen it; a job that was just submitted is waited for a moment."""
        until = time.monotonic() + SEEN_S
        while row.now.phase == Phase.ABSENT and time.monotonic() < until:
            time.sleep(0.01)
            row = self._store.job(row.row) or row
        return row

    def as_planned(self, row: JobRow, view: JobView) -> JobView:
        """The job, with the present plan for its promised deadline."""
        return as_planned_now(self._scheduler, row, view)

    def with_reasons(self, views: list[JobView]) -> list[JobView]:
        """The jobs, with why the first that wait do so unless the policy is busy."""
        waiting = [view for view in views if view.state in WAITING and not view.reason][:MOST_REASONS]
        if waiting:
            try:
                why = self._scheduler.explain_all([view.row for view in waiting])
            except (Busy, PolicyError):
                return views
            for view in waiting:
                reasons = why[view.row].constraints if view.row in why else ()
                view.reason = reasons[0].code.value if reasons else ""
        return views

    def dry_run(self, who: Caller, spec: JobSpec) -> DryRun:
        """What would happen to a job of the user `who`."""
        clock = self._scheduler.clock
        wants = asked(spec, who.user, who.tenant or who.user, clock.epoch_unix_s)
        row = JobRow(-1, NEW, who.user, clock(), None, None, 0, wants, JobState())
        return dry_run(self._scheduler, self._store, self._starts, who.user, row, spec)

    def whatif(self, question: Question) -> WhatIf:
        """What would become of the live jobs under other policies."""
        return whatif(self._scheduler, self._futures, question)

    def order(self) -> Precedence:
        """The policy's order of jobs: which is served next, or what each is to have.  Raises Busy."""
        return self._scheduler.order()

    def reasons(self, rows: Sequence[JobRow]) -> dict[str, list[ReasonView]]:
        """All reasons of each of the waiting jobs in a short list, dominant first.  Raises Busy."""
        return reasons_of(self._scheduler, self._store, rows)

    def losses(self, tenants: Tenants) -> list[TenantLoss]:
        """Jobs that would be worse off if `tenants` counted; InputError if their cells cannot be had."""
        try:
            return losses(self._scheduler, self._store, self._trials, tenants)
        finally:
            self._trials.close()

    def close(self) -> None:
        """End the processes that look ahead."""
        self._all.close()
        self._starts.close()
        self._futures.close()
        self._trials.close()
