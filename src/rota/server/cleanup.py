"""Removes expired data: records here, files on the agents' disks.

A thread takes things off the record, a few at a time: after each transaction it rests for much longer than
that took, so that the scheduler and the API write as if it were not there.  Agents ask which of the jobs that
left something on their disks may go (`rota.wire.keeping`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from rota.server.caps import Caps
from rota.server.refusals import NotFound
from rota.server.retention import Keep, too_many
from rota.server.roster import StoredRoster
from rota.server.store.failures import StoreError
from rota.server.store.rows import JobQuery, JobRow
from rota.server.store.store import Store
from rota.wire.keeping import Disk, Kept, KeptReply

log = logging.getLogger(__name__)
LEAST_REST_S, RESTS = 0.02, 10
"""Pause after each transaction, and how often its own time that is at least."""
MOST_POINTS = 1_000_000
"""Most points of curves of ended jobs: a few hundred megabytes."""
EXPIRED_S = 86400.0
"""Seconds for which an expired token is kept, so that its refusal can name the reason."""
NEARLY_FULL, NEARLY_FULL_BYTES = 0.05, 10 * 2**30
"""A disk is nearly full if less than this share of it and less than this number of bytes are free."""


class Tidier:
    """Finds expired records; `start` has a thread delete them."""

    def __init__(
        self,
        store: Store,
        roster: StoredRoster,
        keep: Keep,
        clock: Callable[[], float] | None = None,
        caps: Caps | None = None,
    ) -> None:
        """`clock` returns seconds since the cluster's epoch."""
        self._footprints = Footprints(store, caps or Caps())
        self.keep = keep
        self.most_points = MOST_POINTS
        self.disks: dict[str, Disk] = {}
        """What each node's agent said last of its disk."""
        self._store, self._roster = store, roster
        self._clock = clock or (lambda: time.time() - store.epoch_s)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tidier", daemon=True)

    # -- on record -------------------------------------------------------------------------------

    def start(self) -> None:
        """Delete expired records from now on."""
        self._thread.start()

    def close(self, timeout_s: float = 5.0) -> None:
        """Stop; the next controller finds the rest again."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def tidy(self) -> None:
        """Take off the record all that is too old now.  Raises StoreError."""
        now, keep, store = self._clock(), self.keep, self._store
        self._all(lambda: store.drop_old_keys(now - keep.keys_s))
        self._all(lambda: store.drop_old_jobs(now - keep.history_s, now - keep.keys_s))
        for name in ("events", "commands"):
            self._all(lambda name=name: store.drop_old_lines(name, now - keep.events_s))  # type: ignore[misc]
        self._drop_excess_points()
        self._roster.drop_expired(time.time() - EXPIRED_S)

    def _drop_excess_points(self) -> None:
        """Curves of jobs that are over go, the oldest first, while there are too many points of all."""
        excess = self._store.count_points() - self.most_points

        def drop_some() -> bool:
            nonlocal excess
            dropped = self._store.drop_old_points() if excess > 0 else 0
            excess -= dropped
            return dropped > 0

        self._all(drop_some)

    def _all(self, drop_some: Callable[[], bool]) -> None:
        """Until nothing is left, or the controller stops."""
        while not self._closing.is_set():
            began_s = time.monotonic()
            if not drop_some():
                return
            self._closing.wait(max(LEAST_REST_S, RESTS * (time.monotonic() - began_s)))

    def _run(self) -> None:
        while not self._closing.wait(self.keep.store_again_s):
            try:
                self.tidy()
            except StoreError as error:
                log.warning("what is too old stays on record for now: %s", error)
            except Exception:  # a cluster that grows is better than one that stops
                log.exception("what is too old stays on record for now")

    # -- on the agents' disks --------------------------------------------------------------------

    def kept(self, node: str, said: Kept) -> KeptReply:
        """Which of the jobs that left something on a node's disk are not kept there any longer."""
        self.disks[node] = said.disk
        now, keep = self._clock(), self.keep
        submit_s = {row: at_s - self._store.epoch_s for row, at_s in said.submit_s.items()}
        ended = self._store.ended(said.rows, submit_s) if said.rows else {}
        files = {row for row, ended_s in ended.items() if now - ended_s > keep.files_s}
        left = [row for row in said.rows if row not in files]
        files.update(self._footprints.excess(node, left, said.files_bytes, ended))
        return KeptReply(
            files=[row for row in ended if row in files],
            checkpoints=[row for row, ended_s in ended.items() if now - ended_s > keep.checkpoints_s],
            again_s=min(keep.agents_again_s, self._footprints.again_s),
        )

    # -- said to people --------------------------------------------------------------------------

    def gone(self, row: JobRow) -> str:
        """Which of a job's files are kept no longer, in a sentence; empty if all are."""
        ended_s = row.now.finish_s
        return "" if ended_s is None else self.keep.gone(row.id, self._clock() - ended_s)

    def logs_gone(self, row: JobRow) -> str:
        """Why a log of the job is not there, if it was removed after the job's end."""
        ended_s = row.now.finish_s
        if ended_s is None:
            return ""
        most = self._footprints.most_mib(row.asked.tenant)
        return self.keep.logs_gone(row.id, self._clock() - ended_s) or (most and too_many(row.id, most)) or ""

    def missing(self, id: str) -> NotFound:
        """The sentence for a job that is not on record (any more)."""
        number = int(id.partition("_")[0]) - 1
        if 0 <= number < self._store.last_row() and self._store.job(number) is None:
            return NotFound(self.keep.forgotten(id))
        return NotFound(f"there is no job {id}; `rota ls --all` lists them")

    def troubles(self) -> list[str]:
        """A sentence for each node with a nearly full disk."""
        return [
            f"the disk of node {node} is nearly full: {disk.free_bytes / 2**30:.1f} of "
            f"{disk.total_bytes / 2**30:.1f} GiB are free, and ended jobs take "
            f"{(disk.files_bytes + disk.checkpoints_bytes) / 2**30:.1f}; free some space there, or keep "
            "less (keep_files, keep_checkpoints)"
            for node, disk in sorted(dict(self.disks).items())
            if disk.free_bytes < min(NEARLY_FULL * disk.total_bytes, NEARLY_FULL_BYTES)
        ]


AGAIN_S = 60.0
"""Seconds between two looks of agents at their disks, if there are caps."""
AT_ONCE = 250
"""Jobs of one question to the store."""


class Left(NamedTuple):
    """Files that one job left on a machine."""

    ended_s: float
    row: int
    bytes: int
    groups: tuple[str, ...]
    """The groups with a bounded sum: the user, the tenant, and the tenant above it
    that sets the cap."""
    most: int
    """Bytes that each of them may leave; 0 is no limit."""


class Footprints:
    """Holds users and tenants to what their jobs' files may take on one machine (`kept_mib`)."""

    def __init__(self, store: Store, caps: Caps) -> None:
        self._store, self._caps = store, caps
        self._left: dict[str, dict[int, Left]] = {}

    def most_mib(self, tenant: str) -> int:
        """Limits on the files that a user of `tenant`, and the tenant, leave on a machine; 0 is no limit."""
        return self._caps.of(tenant).kept_mib

    @property
    def again_s(self) -> float:
        """Seconds until an agent should look at its disk again; infinite without caps."""
        every = (self._caps.everybody, *self._caps.tenants.values())
        return AGAIN_S if any(cap.kept_mib for cap in every) else float("inf")

    def excess(
        self, node: str, rows: Sequence[int], sizes: Mapping[int, int], ended_s: Mapping[int, float]
    ) -> list[int]:
        """Of `rows`, which lie on the disk of `node` in ascending order, those that have to go.

        `ended_s` has those that are over.  A user or tenant above its cap loses its oldest files first.
        """
        if self.again_s == float("inf") or not rows:
            return []
        known = self._left.setdefault(node, {})
        for row in [row for row in known if rows[0] <= row <= rows[-1]]:
            del known[row]
        over = [row for row in rows if sizes.get(row) and ended_s.get(row, float("-inf")) > float("-inf")]
        known |= {one.row: one for one in self._left_by(over, sizes, ended_s)}
        asked = set(rows)
        return sorted(one.row for one in _too_much(known.values()) if one.row in asked)

    def _left_by(
        self, rows: Sequence[int], sizes: Mapping[int, int], ended_s: Mapping[int, float]
    ) -> Iterable[Left]:
        for first in range(0, len(rows), AT_ONCE):
            for job in self._store.jobs(JobQuery(rows=rows[first : first + AT_ONCE])):
                tenant = job.asked.tenant
                most = self.most_mib(tenant) << 20
                above = self._caps.bounded(tenant, "kept_mib")
                groups = {f"user {job.user}", f"tenant {tenant}", f"tenant {above}"}
                yield Left(ended_s[job.row], job.row, sizes[job.row], tuple(sorted(groups)), most)


def _too_much(left: Iterable[Left]) -> list[Left]:
    """Those that go: once the newer ones of a group and this one are too much, it and all older ones of it.

    The newest of a user stays, however large it is: its log has just been written.
    """
    sums, full, gone = dict[str, int](), set[str](), list[Left]()
    for one in sorted(left, reverse=True):
        is_newest = not any(group in sums for group in one.groups if group.startswith("user "))
        for group in one.groups:
            sums[group] = sums.get(group, 0) + one.bytes
        full.update(group for group in one.groups if 0 < one.most < sums[group])
        if not is_newest and not full.isdisjoint(one.groups):
            gone.append(one)
    return gone
