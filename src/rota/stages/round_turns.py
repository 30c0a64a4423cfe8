"""Why a job waits, or runs, in rounds: its fractions, what it has had of them, and the jobs before it.

Made at each decision from the books of the rounds, and read only for reports.
"""

from __future__ import annotations

from collections.abc import Sequence

from rota.model.reasons import Code, Constraint, names_of
from rota.model.units import format_duration
from rota.scheduler.snapshot import Snapshot
from rota.scheduler.targets import Targets
from rota.solvers.division import ALONE
from rota.stages.priority import ByPriority
from rota.stages.round_books import Books
from rota.stages.turn_lengths import TurnLengths
from rota.table.occupancy import Occupancy

_BY_SUBMISSION = ByPriority(lambda snapshot, row: row)


class RoundTurns:
    """The turns of one round, as they are explained to users."""

    spreads = _BY_SUBMISSION.spreads

    def __init__(self, books: Books, lengths: TurnLengths, end_s: float) -> None:
        self.books = books
        self.lengths = lengths
        self.round_s = lengths.turn_s
        self.end_s = end_s
        """Moment at which the next round begins."""

    def ahead(self, snapshot: Snapshot, row: int) -> Sequence[int]:
        """Waiting jobs that are further behind their fractions, then those that came earlier."""
        urgency = self._urgency()
        own = -urgency.get(row, 0.0), row
        return [other for other in snapshot.waiting.tolist() if (-urgency.get(other, 0.0), other) < own]

    def fits(self, snapshot: Snapshot, scratch: Occupancy, row: int) -> bool:
        return _BY_SUBMISSION.fits(snapshot, scratch, row)

    def turn(self, snapshot: Snapshot, row: int) -> Constraint | None:
        """The constraint on a job that takes turns; None for a job that takes none."""
        if snapshot.gpus_of[row] == 0:
            return None
        left_s = max(self.end_s - snapshot.now, 0.0)
        books = self.books
        mine = [i for i, later in enumerate(books.later) if row in (later, books.earlier[i])]
        if all(books.is_new[i] for i in mine):
            return Constraint(Code.ROUND, provided=left_s)
        has_turn = self._has_turn(snapshot, row)
        words = [self._fractions(snapshot, mine)]
        if not has_turn:
            before = self._before(snapshot, mine)
            words.append(f"before it in this round: {before}" if before else "its turn is not in this round")
            return Constraint(Code.TURN, 0.0, left_s, "; ".join(words))
        left_s = max(self.lengths.ends_s(row, self.end_s) - snapshot.now, 0.0)
        return Constraint(Code.TURN, 1.0, left_s, "; ".join(words))

    def _has_turn(self, snapshot: Snapshot, row: int) -> bool:
        """True if the job runs in this round: as decided, or later as it came, since a cluster may refuse."""
        if snapshot.now > self.books.began_s:
            return row in snapshot.grants
        return row in self.books.ran or row in self.books.ran_beside

    def _fractions(self, snapshot: Snapshot, mine: Sequence[int]) -> str:
        """`is to have 75% of its time on V100 and 25% on K80, and has had 60% and 10% in the last 10m`."""
        books, credit_s = self.books, self.round_s / 2
        asked = [sum(column[i] for i in mine) for column in books.fraction]
        span_s = snapshot.now - books.reset_s
        had = self._this_round_s(snapshot, mine)
        for kind, column in enumerate(books.received_s):
            had[kind] += sum(max(column[i] - credit_s, 0.0) for i in mine)
        kinds = [kind for kind in range(len(asked)) if asked[kind] > 0.0 or had[kind] > 0.0]
        if not kinds:
            return "has no fraction of the time and runs on what the others leave"
        names = snapshot.cluster.type_names
        shares = " and ".join(
            f"{100 * asked[kind]:.0f}%" + (f" on {names[kind]}" if len(names) > 1 else "") for kind in kinds
        )
        if span_s <= 0.0:
            return f"is to have {shares} of the time from now on"
        parts = " and ".join(f"{100 * min(had[kind] / span_s, 1.0):.0f}%" for kind in kinds)
        return f"is to have {shares} of the time, and has had {parts} in the last {format_duration(span_s)}"

    def _this_round_s(self, snapshot: Snapshot, mine: Sequence[int]) -> list[float]:
        """Seconds of the present round on each type, which the books do not hold yet."""
        books, so_far = self.books, [0.0] * self.books.types
        entries = {
            (books.later[i], books.earlier[i]) for i in mine if self._has_turn(snapshot, books.later[i])
        }
        for row, beside, kind in zip(books.ran, books.ran_beside, books.ran_type, strict=True):
            if (row, beside) in entries:
                so_far[kind] += max(snapshot.now - books.began_s, 0.0)
        return so_far

    def _before(self, snapshot: Snapshot, mine: Sequence[int]) -> str:
        """The jobs that run in this round on the types on which the job has a fraction, or on any type."""
        books = self.books
        wanted = {k for k, column in enumerate(books.fraction) if any(column[i] > 0.0 for i in mine)}
        there = set[int]()
        for row, beside, kind in zip(books.ran, books.ran_beside, books.ran_type, strict=True):
            if kind in wanted or not wanted:
                there |= {row, beside}
        rows = sorted(there - {ALONE})
        ids = snapshot.jobs.table.ids
        return names_of([ids[row] for row in rows])

    def _urgency(self) -> dict[int, float]:
        """The highest priority that each job has on any type."""
        books, urgency = self.books, dict[int, float]()
        every = range(len(books.later))
        for kind in range(books.types):
            for i, value in enumerate(books.priority(kind, every)):
                for row in (books.later[i], books.earlier[i]):
                    if row != ALONE:
                        urgency[row] = max(urgency.get(row, 0.0), value)
        return urgency


def targets_of(books: Books) -> Targets:
    """The part of its time that each job is to run, on all types together, alone and beside others."""
    later, earlier, fraction = books.later, books.earlier, books.fraction

    def by_row() -> dict[int, float]:
        parts: dict[int, float] = {}
        for members in (later, earlier):
            for i, row in enumerate(members):
                if row != ALONE:
                    parts[row] = parts.get(row, 0.0) + sum(column[i] for column in fraction)
        return parts

    return Targets(by_row)
