"""Jobs on record by id, checked against what the caller may see."""

from __future__ import annotations

from collections.abc import Iterable

from rota.server.callers import Caller
from rota.server.cleanup import Tidier
from rota.server.clocks import Clock
from rota.server.refusals import Forbidden, NotFound
from rota.server.scheduler_view import SchedulerView
from rota.server.store.ended import EndedRow
from rota.server.store.rows import AttemptRow, JobRow
from rota.server.store.store import Store
from rota.server.views import ended_view, job_view
from rota.wire.views import JobView


class JobRecords:
    """Reads the store, and the scheduler's view of jobs that hold something."""

    def __init__(self, store: Store, shown: SchedulerView, clock: Clock, tidier: Tidier) -> None:
        self._store, self._shown, self._clock, self._tidier = store, shown, clock, tidier

    def views(self, rows: Iterable[JobRow]) -> list[JobView]:
        """Jobs with what they hold now."""
        now, epoch_s = self._clock(), self._clock.epoch_unix_s
        return [job_view(row, self._holding(row), epoch_s, now) for row in rows]

    def ended(self, rows: Iterable[EndedRow]) -> list[JobView]:
        """Jobs that are over; what one leaves behind may hold something still."""
        epoch_s, holding = self._clock.epoch_unix_s, self._shown.holding.copy()
        return [
            ended_view(
                row,
                row.gpu_share if row.row not in holding else float(holding[row.row].grant[2]),
                epoch_s,
            )
            for row in rows
        ]

    def _holding(self, row: JobRow) -> AttemptRow | None:
        """The holdings of a job: from the scheduler's view or, for a moment after a decision, from the store.

        A decision is on record before it is shown; a running job would meanwhile seem to be nowhere, or where
        it was before.
        """
        shown = self._shown.holding.get(row.row)
        if row.now.state != "RUNNING" or (shown is not None and shown.number >= row.now.attempt):
            return shown
        return next((one for one in reversed(self._store.attempts(row.row)) if one.grant is not None), shown)

    def holding(self) -> list[int]:
        """Rows that hold something now, those that are ending included."""
        return [*self._shown.holding.copy()]

    def view(self, id: str) -> JobView:
        """A job by its id; NotFound."""
        return self.views([self.row(id)])[0]

    def row(self, id: str) -> JobRow:
        """The row of a job by its id; NotFound."""
        row = self._store.job_of_id(id)
        if row is None and self._store.phases(id):
            raise NotFound(f"{id} is an array; name one of its jobs, which `rota ls --all` lists")
        if row is None:
            raise self._tidier.missing(id)
        return row

    def own(self, who: Caller, id: str) -> JobRow:
        """The row of a job that this person may touch; NotFound, Forbidden."""
        row = self.row(id)
        if not who.owns(row.user, row.asked.tenant):
            raise Forbidden(f"job {id} belongs to {row.user!r}; {who.user!r} may not touch it")
        return row
