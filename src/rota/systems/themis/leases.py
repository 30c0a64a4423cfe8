"""Until when jobs hold what they won.

Memory    `leases`  per running job: the moment at which its lease ends
          `won`     rows that got something the last time, the worst ρ first
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from rota.model.grants import Can
from rota.scheduler.decision import Memory
from rota.scheduler.snapshot import Cursor, Snapshot
from rota.scheduler.snapshot_jobs import SnapshotJobs
from rota.systems.themis.apps import Holds

_STOPS = int(Can.SUSPEND | Can.CHECKPOINT | Can.RESIZE)


class Leases:
    """The leases of running jobs: in a policy's memory, and here in the order in which they end."""

    def __init__(self, lease_s: float) -> None:
        self.lease_s = lease_s
        self.now = -math.inf
        self.until: dict[int, float] = {}
        """When leases end, by row."""
        self._ends: list[tuple[float, int]] = []
        """A heap of ends; entries that differ from `until` are void."""
        self._due: list[int] = []
        """Rows whose leases are over, ascending: all are renewed or dropped before the decision is made."""
        self._is_open = True
        """True until that has been done."""
        self._bare: set[int] = set()
        """Rows that run without GPUs."""
        self._jobs: SnapshotJobs | None = None
        self._cursor = Cursor()

    def follow(self, snapshot: Snapshot, memory: Memory) -> None:
        """Bring the leases up to now: a running job without one has just got its GPUs."""
        changed, kept = snapshot.changes(self._cursor), memory.get("leases", {})
        self.now, self._jobs = snapshot.now, snapshot.jobs
        is_kept = changed is not None and kept is self.until and not self._is_open
        if not is_kept or snapshot.refused:  # a job meant to stop may run on, and one meant to start may not
            self._begin(snapshot, kept)
        else:
            for row in sorted(changed or ()):
                self._look(snapshot, row)
            if len(self.until) + len(self._bare) != len(snapshot.grants):
                self._begin(snapshot, kept)
        memory["leases"] = self.until
        self._due = sorted(set(self._over()))
        self._is_open = True

    def _begin(self, snapshot: Snapshot, kept: dict[int, float]) -> None:
        """Begin a lease for every running job; `kept` has the leases known so far."""
        grants, until_s = snapshot.grants, snapshot.now + self.lease_s
        running = {row: bool(grants[row].devices) for row in snapshot.running.tolist()}
        self.until = {row: end_s for row, end_s in kept.items() if running.get(row)}
        self.until |= {row: until_s for row, has_gpus in running.items() if has_gpus and row not in kept}
        self._bare = {row for row, has_gpus in running.items() if not has_gpus}
        self._ends = [(end_s, row) for row, end_s in self.until.items()]
        heapify(self._ends)

    def _look(self, snapshot: Snapshot, row: int) -> None:
        """Take in what has happened to `row`."""
        grant = snapshot.grants.get(row)
        self._bare.discard(row)
        if grant is not None and grant.devices:
            if row not in self.until:
                self._lease(row, self.now + self.lease_s)
            return
        self.until.pop(row, None)
        if grant is not None:
            self._bare.add(row)

    def _lease(self, row: int, until_s: float) -> None:
        self.until[row] = until_s
        heappush(self._ends, (until_s, row))

    def _over(self) -> Iterable[int]:
        """Rows whose leases are over; they leave the heap."""
        ends, until = self._ends, self.until
        while ends and ends[0][0] <= self.now:
            end_s, row = heappop(ends)
            if until.get(row) == end_s:
                yield row

    def stays(self, row: int) -> bool:
        """True if `row` bears no stop: its lease is renewed as it ends."""
        assert self._jobs is not None, "there is a snapshot once there are leases"
        return not self._jobs.can(row) & _STOPS

    def of(self, rows: Iterable[int], snapshot: Snapshot) -> Holds:
        """What `rows` hold under leases in force."""
        grants = snapshot.grants
        return {row: grants[row] for row in rows if row in self.until and not self.has_ended(row)}

    def has_ended(self, row: int) -> bool:
        return self.until[row] <= self.now and not self.stays(row)

    def ended(self) -> list[int]:
        """Rows whose leases have ended, in order of submission."""
        return [row for row in self._due if not self.stays(row)]

    def drop(self, gone: Iterable[int]) -> None:
        """Drop the leases of stopped jobs."""
        for row in gone:
            del self.until[row]

    def renew(self, rows: Iterable[int], until_s: float = math.inf) -> None:
        """Give `rows` leases from now, until `until_s` at the latest, and jobs that bear no stop too."""
        for row in rows:
            self._lease(row, min(self.now + self.lease_s, until_s))
        for row in self._due:
            if self.until.get(row, math.inf) <= self.now:
                self._lease(row, self.now + self.lease_s)
        self._is_open = False

    def next_s(self) -> float:
        """When the next lease ends."""
        ends, until = self._ends, self.until
        while ends and until.get(ends[0][1]) != ends[0][0]:
            heappop(ends)
        return ends[0][0] if ends else math.inf
