"""Why jobs with a deadline wait."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from rota.model.grants import Code, Constraint
from rota.model.units import format_duration, plural
from rota.scheduler.reasons.when_asked import ReasonsWhenAsked
from rota.systems.chronus.book import Book

_REFUSED = Constraint(
    Code.POLICY,
    detail="its deadline cannot be promised; it runs on GPUs that no lease needs, when there are some",
)
_OVERRUN = Constraint(
    Code.POLICY, detail="it has taken longer than estimated; it is first on GPUs that no lease needs"
)


class DeadlineReasons(ReasonsWhenAsked):
    """What `book` says at one moment of jobs that have no lease now."""

    def __init__(self, book: Book, now: float, lease_s: float) -> None:
        self._book, self._lease, self._now, self._lease_s = book, book.lease, now, lease_s

    def of(self, row: int) -> Constraint | None:
        book = self._book
        if row in book.overrun:
            return _OVERRUN
        if row in book.refused:
            return _REFUSED
        plan = book.plans.get(row)
        return self._planned(plan, book.aims[row]) if plan and plan[0] > self._lease else None

    def _planned(self, plan: Sequence[int], aim_s: float) -> Constraint:
        in_s = max(plan[0] * self._lease_s - self._now, 0.0)
        slack_s = aim_s - (plan[-1] + 1) * self._lease_s
        detail = (
            f"its deadline is kept by {plural(len(plan), 'lease')}, the first in "
            f"{format_duration(in_s)}, with {format_duration(slack_s)} to spare"
        )
        return Constraint(Code.POLICY, detail=detail)

    def rows(self) -> Iterable[int]:
        book = self._book
        planned = (row for row, plan in book.plans.items() if plan and plan[0] > self._lease)
        return chain(planned, book.refused, book.overrun)
