"""New jobs: checked, put on record, and handed to the scheduler."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple

from rota.errors import InputError
from rota.server.answers.answers import Answers
from rota.server.api.forms import Submission, Submitted
from rota.server.callers import Caller, why_no_job
from rota.server.caps import Caps
from rota.server.clocks import Clock, by_the_cluster
from rota.server.recovery import asked_job, live_job
from rota.server.refusals import Forbidden
from rota.server.roster import JobAccounts
from rota.server.store.new_jobs import jobs_of
from rota.server.store.rows import JobRow, NewJob
from rota.server.store.store import Store
from rota.server.views import job_view
from rota.wire.job import JobSpec, check_new
from rota.wire.views import DryRun
from rota.worlds.live.inbox import Arrived, Changed, Inbox


class Submissions:
    """Implements `rota.server.api.services.SubmissionsService`."""

    def __init__(
        self,
        store: Store,
        inbox: Inbox,
        clock: Clock,
        answers: Answers,
        accounts: JobAccounts,
        caps: Caps | None = None,
    ) -> None:
        self._store, self._inbox, self._clock, self._answers = store, inbox, clock, answers
        self._accounts, self._caps = accounts, caps or Caps()
        self._in_order = threading.Lock()
        """One submission after the other: see `put_on_record`."""

    def submit(self, who: Caller, request: Submission) -> Submitted:
        """Put jobs on record; see the protocol."""
        spec = self._admitted(who, request.spec)
        jobs = jobs_of(spec)
        with self._in_order:
            self._check_number(who, spec, request.key, len(jobs))
            named = Submitting(
                who.user, _tenant(who), self._accounts.of_caller(who), self._accounts, request.key
            )
            rows = put_on_record(self._store, self._inbox, named, spec, jobs, self._clock())
        now, epoch_s, tenant = self._clock(), self._clock.epoch_unix_s, spec.tenant or _tenant(who)
        return Submitted(
            jobs=[job_view(row, None, epoch_s, now) for row in rows],
            answers=self._answers.answers_deadline(spec, tenant),
            warnings=self._answers.ignored(spec, tenant),
        )

    def dry_run(self, who: Caller, spec: JobSpec) -> DryRun:
        """What would happen to it."""
        return self._answers.dry_run(who, self._admitted(who, spec))

    def _check_number(self, who: Caller, spec: JobSpec, key: str | None, jobs: int) -> None:
        """Raise Forbidden if these would be too many, unless they are on record already.  Call it for one
        submission at a time: concurrent ones could each find room for itself alone."""
        if who.admin or (key is not None and self._store.has_submitted(who.user, key)):
            return
        self._caps.check_jobs(self._store, who.user, spec.tenant or _tenant(who), jobs)

    def _admitted(self, who: Caller, spec: JobSpec) -> JobSpec:
        """The specification, if this person may submit it and everything that it names exists."""
        spec, tenant = by_the_cluster(spec, self._clock), spec.tenant
        try:
            check_new(spec)
        except ValueError as error:
            raise InputError(str(error)) from None
        if why := why_no_job(who.user, who.admin, who.account):
            raise Forbidden(why)
        if tenant and not who.admin and not f"{tenant}/".startswith(f"{_tenant(who)}/"):
            raise Forbidden(
                f"{who.user!r} belongs to tenant {_tenant(who)!r} and may not submit for {tenant!r}"
            )
        if not who.admin:
            self._caps.check_spec(spec, tenant or _tenant(who))
        for before in spec.after:
            if not self._store.phases(before.job):
                raise InputError(
                    f"after: there is no job {before.job!r}; expected the id of a job or of an array"
                )
        return spec


def _tenant(who: Caller) -> str:
    """The tenant that a person submits for if nothing else is said."""
    return who.tenant or who.user


class Submitting(NamedTuple):
    """The submitter, and the idempotency key."""

    user: str
    tenant: str
    account: str
    """The machines' account that the jobs run as."""
    accounts: JobAccounts
    """Whether that is so now, when they are put on record."""
    key: str | None = None


def put_on_record(
    store: Store, inbox: Inbox, who: Submitting, spec: JobSpec, jobs: Sequence[NewJob], now: float
) -> list[JobRow]:
    """Rows of `jobs`.  The scheduler decides about them while they are on their way to the disk.

    Call it for one submission after the other: rows reach the scheduler in the order in which they are put
    on record.
    """
    arrived, announced = Arrived([]), False

    def announce(rows: list[JobRow]) -> None:
        nonlocal announced
        arrived.jobs.extend((live_job(row, spec, (), who.accounts), asked_job(row, spec)) for row in rows)
        announced = True
        inbox.put(arrived)

    try:
        return store.add_jobs(
            who.user, who.tenant, jobs, now, who.key, announce, arrived.withdraw, who.account
        )
    except BaseException:
        if announced:
            inbox.put(Changed("a submission could not be put on record"))
        raise
