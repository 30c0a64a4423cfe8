"""What the held jobs of a moment wait for, and which of them come free as a fork goes on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from dataclasses import dataclass, replace

import numpy as np

from rota.model.columns import Ints
from rota.model.feasible import feasible_rows
from rota.model.reasons import noted
from rota.scheduler.moments.packing import Packed, unpack_cluster, unpack_jobs
from rota.table.state import Phase, State

_LIVE = (int(Phase.PENDING), int(Phase.RUNNING))


@dataclass(frozen=True)
class Wait:
    """The conditions that must all hold until a held job is released; without any, a person has to act."""

    why: str
    """What holds it, in words to follow its name: `is held by ann`."""
    after: tuple[int, ...] = ()
    """Rows that have to end first."""
    until_s: float | None = None
    """Moment before which it stays held (a begin time, a back-off)."""
    beside: tuple[int, ...] = ()
    """Rows of which at most `most` may wait or run at once: the other jobs of an array."""
    most: int = 0
    is_held: bool = False
    """True if a person holds it, so that no event releases it, whatever the other fields are."""
    is_infeasible: bool = False
    """True if the cluster could never run it; a larger one may."""

    @property
    def is_endless(self) -> bool:
        """True if no fork ever releases it."""
        said = bool(self.after) or self.until_s is not None or self.most > 0
        return self.is_held or self.is_infeasible or not said

    @property
    def is_for_others(self) -> bool:
        """True if it waits only for other jobs to end, which the loop's table handles."""
        return bool(self.after) and self.until_s is None and not self.most and not self.is_endless


_NOW = -math.inf


def waits_of(packed: Packed, said: Mapping[int, Wait] | None = None) -> dict[int, Wait]:
    """What each held job of the moment still waits for: as in `said`, or by the table's dependencies."""
    phase, after = packed["state"]["phase"], packed["jobs"]["after"]
    waits: dict[int, Wait] = {}
    for row, why in packed["state"]["held"].items():
        wait = (said or {}).get(row) or Wait(_words(why), tuple(after.get(row, ())))
        if wait.is_infeasible and _fits(packed, row):
            wait = replace(wait, is_infeasible=False, until_s=wait.until_s or _NOW)
        if wait.after:
            live = tuple(before for before in wait.after if phase[before] < Phase.COMPLETED)
            wait = replace(wait, after=live, until_s=wait.until_s if live else wait.until_s or _NOW)
        waits[row] = wait
    return waits


def _words(why: str) -> str:
    """The note of the table, in words to follow the job's name."""
    return noted(why).sentence()


def _fits(packed: Packed, row: int) -> bool:
    """True if the cluster, were it empty, could run `row`."""
    job, cluster = unpack_jobs(packed["jobs"]).take(np.array([row])), unpack_cluster(packed["cluster"])
    return bool(feasible_rows(job, cluster)[0])


class Releases:
    """Says when to look, and which held jobs are free then, except those that the table releases."""

    def __init__(self, waits: Mapping[int, Wait], state: State) -> None:
        self._state = state
        self._waits = {
            row: wait for row, wait in waits.items() if not wait.is_endless and not wait.is_for_others
        }
        self._timed = sorted(
            (_NOW if wait.until_s is None else wait.until_s, row) for row, wait in self._waits.items()
        )
        self._due: list[int] = []
        """Held jobs whose moment has come."""
        arrays = {wait.beside for wait in self._waits.values() if wait.most}
        self._rows_of: dict[tuple[int, ...], Ints] = {rows: np.array(rows, dtype=np.int64) for rows in arrays}
        self._seen = -1

    @property
    def next_s(self) -> float:
        """The next moment for which a held job waits; infinite if there is none."""
        return self._timed[0][0] if self._timed else math.inf

    def take(self, now: float, ended: Set[int] = frozenset()) -> list[int]:
        """Jobs that are free at `now`, once those in `ended` have ended; each is returned once."""
        while self._timed and self._timed[0][0] <= now:
            self._due.append(self._timed.pop(0)[1])
            self._seen = -1
        changes = len(self._state.log)
        if not self._due or (changes == self._seen and not ended):
            return []
        self._seen = changes
        counts: dict[tuple[int, ...], int] = {}
        free = [row for row in sorted(self._due) if self._is_free(self._waits[row], ended, counts)]
        self._due = [row for row in self._due if row not in free]
        return free

    def _is_free(self, wait: Wait, ended: Set[int], counts: dict[tuple[int, ...], int]) -> bool:
        phase = self._state.phase
        if any(phase.item(row) < Phase.COMPLETED and row not in ended for row in wait.after):
            return False
        if not wait.most:
            return True
        if wait.beside not in counts:
            rows = self._rows_of[wait.beside]
            live = rows[np.isin(phase[rows], _LIVE)]
            counts[wait.beside] = len(live) - sum(row in ended for row in live.tolist())
        counts[wait.beside] += 1
        return counts[wait.beside] <= wait.most
