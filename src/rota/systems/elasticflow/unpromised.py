"""Jobs tried for admission, as memory has them, as long as no job is promised a deadline."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Collection, Sequence
from itertools import pairwise

from rota.scheduler.decision import Memory
from rota.scheduler.snapshot import Snapshot


class Unpromised:
    """The rows in memory, brought up to date by jobs that came or left."""

    def __init__(self) -> None:
        self._written: list[int] | None = None
        """The rows that memory was given last, if they ascend."""

    def tried(
        self, snapshot: Snapshot, memory: Memory, live: Collection[int], changed: Sequence[int] | None
    ) -> tuple[list[int], list[int]] | None:
        """The rows of `live` that memory knows, ascending, and the others in order of submission.

        Nothing has happened to any job but `changed` since memory was written, if that is known.  None if
        a job was promised a deadline, or any job asks for one, even if only now.
        """
        before: list[int] = memory.get("rows", [])
        if before is self._written and changed is not None:
            known, new = _brought_up_to_date(before, live, changed)
        elif all(at_s == math.inf for at_s in memory.get("due_s", ())):
            known, were = sorted(row for row in before if row in live), set(before)
            new = [row for row in live if row not in were]
            if any(_asks_for_deadline(snapshot, row) for row in known):
                return None
        else:
            return None
        if any(_asks_for_deadline(snapshot, row) for row in new):
            return None
        submit_s = snapshot.jobs.table.submit_s
        return known, sorted(new, key=lambda row: (submit_s.item(row), row))

    def write(self, memory: Memory, known: list[int], new: list[int]) -> None:
        """Remember all of them, without a promise."""
        rows = known + new
        memory["rows"] = rows
        memory["due_s"] = [math.inf] * len(rows)
        memory["late"], memory["at_risk"] = [], []  # in the order in which a plan has them
        ascend = all(before < after for before, after in pairwise([*known[-1:], *new]))
        self._written = rows if ascend else None


def _brought_up_to_date(
    before: list[int], live: Collection[int], changed: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Rows of `before` that still live, ascending, and rows of `changed` that live and were not there."""
    known, new = before.copy(), list[int]()
    for row in changed:
        place = bisect_left(known, row)
        was_there = place < len(known) and known[place] == row
        if was_there and row not in live:
            del known[place]
        elif not was_there and row in live:
            new.append(row)
    return known, new


def _asks_for_deadline(snapshot: Snapshot, row: int) -> bool:
    return bool(snapshot.jobs.deadlines(row)) or not math.isnan(snapshot.jobs.table.deadline_s.item(row))
