"""Jobs on record: listed, shown, explained, waited for, their logs read."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence

from rota.scheduler.reasons.order import Precedence
from rota.server.answers.answers import Answers
from rota.server.answers.starts import Starts
from rota.server.api.forms import JobFilter, LogRequest
from rota.server.callers import Caller
from rota.server.cleanup import Tidier
from rota.server.clocks import Clock
from rota.server.curves import curves_view, newest_point
from rota.server.logs import Logs
from rota.server.notifier import Notifier, unhurried
from rota.server.records import JobRecords
from rota.server.store.queries import JobLine
from rota.server.store.rows import EventRow, JobQuery, JobRow
from rota.server.store.store import Store
from rota.server.timeline import Timeline
from rota.server.views import attempt_view, event_view, is_over, size_views
from rota.wire.curves import CurvesView
from rota.wire.sync import Capability, PartStatus, Piece
from rota.wire.timeline import StretchView
from rota.wire.views import JobDetail, JobView, ReasonView, Why

MOST_INTERVALS, MOST_EVENTS = 1000, 1000
"""Most intervals and events read of a job, the newest ones."""
YIELDS_S = 0.02
"""How long a call that waits lets the scheduler go first."""


class Jobs:
    """Implements `rota.server.api.services.JobsService`."""

    def __init__(
        self,
        store: Store,
        records: JobRecords,
        answers: Answers,
        tidier: Tidier,
        logs: Logs,
        notifier: Notifier,
        clock: Clock,
        is_quiet: Callable[[], bool] = lambda: True,
    ) -> None:
        """`is_quiet` says whether the scheduler has nothing to do."""
        self._store, self._records, self._answers = store, records, answers
        self._tidier, self._logs, self._notifier = tidier, logs, notifier
        self._clock, self._epoch_s = clock, clock.epoch_unix_s
        self._is_quiet = is_quiet

    def jobs(self, which: JobFilter) -> list[JobView]:
        """Newest last; NotFound for a `before` that is not there."""
        since = None if which.since_s is None else which.since_s - self._epoch_s
        rows = self._store.jobs(
            JobQuery(
                states=which.state,
                tenant=which.tenant or None,
                user=which.user or None,
                name=which.name or None,
                since_s=since,
                before_row=self._records.row(which.before).row if which.before else None,
                limit=which.limit,
            )
        )
        return self._answers.with_reasons(self._records.views(rows))

    def lines(self) -> Sequence[JobLine]:
        """All jobs that have not ended, those that are just ending included, in few words."""
        return self._store.lines(self._records.holding())

    def some(self, rows: Sequence[int]) -> list[JobView]:
        """The jobs with these rows, in this order."""
        by_row = {row.row: row for row in self._store.jobs(JobQuery(rows=rows))}
        return self._records.views(by_row[row] for row in rows if row in by_row)

    def order(self) -> Precedence:
        """How jobs stand with the policy."""
        return self._answers.order()

    def reasons(self, ids: Sequence[str]) -> dict[str, list[ReasonView]]:
        """All reasons of each of these waiting jobs, dominant first; those that are gone are left out."""
        rows = [row for id in ids if (row := self._store.job_of_id(id)) is not None]
        return self._answers.reasons(rows)

    def starts(self) -> Starts:
        """When waiting jobs are expected to start, as of the last look ahead."""
        return self._answers.outlook.starts()

    def detail(self, who: Caller, id: str, reason: bool = False) -> JobDetail:
        """Everything about one job; with `reason`, the policy is asked why it waits, unless it is busy."""
        row = self._records.own(who, id)
        views = self._records.views([row])
        if reason:
            self._answers.with_reasons(views)
        spec = self._store.spec(row.row)
        assert spec is not None
        capability = row.now.capability
        return JobDetail(
            job=self._answers.as_planned(row, views[0]),
            spec=spec,
            attempts=[attempt_view(attempt, self._epoch_s) for attempt in self._store.attempts(row.row)],
            capability=None if capability is None else Capability(**capability),
            events=[event_view(event, self._epoch_s) for event in self._events(id)],
            sizes=size_views(spec, row.now.measured or {}, self._store.nodes()),
            gone=self._tidier.gone(row),
        )

    def curves(self, who: Caller, id: str, since_s: float | None) -> CurvesView:
        """Its reports over time."""
        row = self._records.own(who, id)
        since = -math.inf if since_s is None else since_s - self._epoch_s
        points = self._store.points(row.row, since)
        attempts = self._store.attempts(row.row)
        if attempts and attempts[-1].state == PartStatus.RUNNING:
            last_s, now = max([since, *(point.until_s for point in points)]), self._clock()
            newest = newest_point(attempts[-1], last_s, now, self._epoch_s)
            points += [] if newest is None else [newest]
        return curves_view(id, points, self._epoch_s, self._life(row))

    def timeline(self, who: Caller, id: str) -> list[StretchView]:
        """Its life in stretches of time."""
        return self._life(self._records.own(who, id))

    def _life(self, row: JobRow) -> list[StretchView]:
        store = self._store
        intervals = store.intervals(row.row, MOST_INTERVALS)
        life = Timeline(
            row,
            store.attempts(row.row),
            intervals,
            self._events(row.id),
            [node.name for node in store.nodes()],
            self._epoch_s,
            is_cut=len(intervals) >= MOST_INTERVALS,
        )
        return life.stretches()

    def _events(self, id: str) -> list[EventRow]:
        return self._store.events_of(id, MOST_EVENTS)

    def why(self, id: str) -> Why:
        """Why it waits, or runs as it does."""
        return self._answers.why(self._records.row(id))

    async def wait(self, who: Caller, id: str, wait_s: float) -> JobView:
        """The job once it has ended, or as it is after `wait_s`."""
        until = time.monotonic() + wait_s
        with self._notifier.listen(("ended", id)) as listener:  # before it is read: an end is not missed
            await self._after_you(min(wait_s, YIELDS_S))
            row = await unhurried(self._store, lambda: self._records.own(who, id))
            while True:
                left = until - time.monotonic()
                if is_over(row.now.state) or left <= 0:
                    return self._records.views([row])[0]
                await listener.wait(left)
                row = await unhurried(self._store, lambda: self._records.row(id))

    async def _after_you(self, most_s: float) -> None:
        """Let a decision that is being made go first, for `most_s`.

        A caller that has just submitted a job and waits for its end would delay its start by the time of
        reading the store.
        """
        until = time.monotonic() + most_s
        while not self._is_quiet() and time.monotonic() < until:
            await asyncio.sleep(1e-3)

    async def logs(self, who: Caller, id: str, request: LogRequest) -> Piece:
        """A piece of a log, from the agent that has it."""
        row = await unhurried(self._store, lambda: self._records.own(who, id))
        piece = await self._logs.read(row, request)
        piece.error = piece.error and (self._tidier.logs_gone(row) or piece.error)
        return piece
