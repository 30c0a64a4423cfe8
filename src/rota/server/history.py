"""The history of this cluster, for reports and for simulations of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rota.errors import InputError
from rota.reports.usage.prices import prices_of
from rota.server.api.forms import MOST_ENDED, EndedFilter
from rota.server.clocks import Clock
from rota.server.export import history_csv
from rota.server.records import JobRecords
from rota.server.scheduler_view import SchedulerView
from rota.server.store.ended import EndedQuery, EndedRow
from rota.server.store.store import Store
from rota.server.usage import cluster_usage
from rota.server.views import cost_views, event_view
from rota.wire.usage import UsageView
from rota.wire.views import CostView, EventView, JobView

if TYPE_CHECKING:
    from rota.reports.usage.prices import Prices


class History:
    """Implements `rota.server.api.services.HistoryService`."""

    def __init__(
        self,
        store: Store,
        shown: SchedulerView,
        records: JobRecords,
        clock: Clock,
        prices: Any = None,
    ) -> None:
        """`prices` is the configured list, used where a call states no other."""
        self._store, self._shown, self._records, self._clock = store, shown, records, clock
        self._prices = {} if prices is None else prices
        self._epoch_s = clock.epoch_unix_s

    def history(
        self, since_s: float | None, until_s: float | None, limit: int | None = None, after: str = ""
    ) -> list[JobView]:
        """Jobs that ended in that time."""
        which = EndedQuery(*self._window(since_s, until_s), after=self._last_one(after) if after else None)
        rows = self._store.ended_jobs(which, MOST_ENDED + 1 if limit is None else limit)
        if limit is None and len(rows) > MOST_ENDED:
            raise InputError(
                f"{self._store.count_ended(which):,} jobs ended in that time, and one answer has "
                f"{MOST_ENDED:,} at most; ask for less time, or page by page: limit={MOST_ENDED}, then "
                "after=JOB with the last one of the page before"
            )
        return self._records.ended(rows)

    def _last_one(self, id: str) -> EndedRow:
        """The job behind which a page begins; NotFound."""
        row = self._store.ended_job(id)
        if row is None:
            state = self._records.row(id).now.state
            raise InputError(f"after: job {id} is {state}; expected a job that has ended")
        return row

    def ended(self, which: EndedFilter) -> list[JobView]:
        """Those that ended last first."""
        asked = EndedQuery(
            *self._window(which.since_s, which.until_s),
            states=which.state,
            tenant=which.tenant or None,
            user=which.user or None,
        )
        return self._records.ended(self._store.ended_jobs(asked, which.limit, newest=True))

    def history_csv(self, since_s: float | None, until_s: float | None) -> str:
        """The jobs that ended in a time, as a trace that `rota simulate` reads."""
        history = self._store.history(*self._window(since_s, until_s))
        return history_csv(history, self._epoch_s, self._clock())

    def usage(
        self, by: Sequence[str], since_s: float | None, until_s: float | None, prices: Prices | None
    ) -> UsageView:
        """Where the GPU-hours went."""
        now = self._clock()
        prices = prices_of(self._prices) if prices is None else prices
        return cluster_usage(self._store, self._shown, now, self._epoch_s, by, since_s, until_s, prices)

    def _window(self, since_s: float | None, until_s: float | None) -> tuple[float, float]:
        """From Unix times to seconds since the epoch: all of the past if not said."""
        low = 0.0 if since_s is None else since_s - self._epoch_s
        return low, self._clock() if until_s is None else until_s - self._epoch_s

    def costs(self) -> list[CostView]:
        """Medians of measurements, over all jobs and by workload."""
        return cost_views(self._store.costs())

    def events(self, since_seq: int, limit: int) -> list[EventView]:
        """Lines of the audit after a number."""
        return [event_view(e, self._epoch_s) for e in self._store.events(since_seq=since_seq, limit=limit)]
