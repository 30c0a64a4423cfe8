"""Bytes that ended jobs left on each machine, by user and tenant, and whose go because that is too much.

Known from what agents say; a controller that starts anew hears it again before anything goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rota.server.caps import Caps
from rota.server.store.rows import JobQuery
from rota.server.store.store import Store

AGAIN_S = 60.0
"""Where there are caps agents look at their disks so often."""
AT_ONCE = 250
"""Jobs of one question to the store."""


class Left(NamedTuple):
    """What one job left on a machine."""

    ended_s: float
    row: int
    bytes: int
    groups: tuple[str, ...]
    """Who has left too much if the sum of theirs is too much: the user, the tenant, and the tenant above it
    that the cap was given to."""
    most: int
    """Bytes that each of them may leave; 0 is no limit."""


class Footprints:
    """Holds users and tenants to what their jobs' files may take on one machine (`kept_mib`)."""

    def __init__(self, store: Store, caps: Caps) -> None:
        self._store, self._caps = store, caps
        self._left: dict[str, dict[int, Left]] = {}

    def most_mib(self, tenant: str) -> int:
        """What a user of `tenant`, and the tenant, may leave on a machine; 0 is no limit."""
        return self._caps.of(tenant).kept_mib

    @property
    def again_s(self) -> float:
        """When an agent should look at its disk again: infinite if nobody is held to anything."""
        every = (self._caps.everybody, *self._caps.tenants.values())
        return AGAIN_S if any(cap.kept_mib for cap in every) else float("inf")

    def excess(
        self, node: str, rows: Sequence[int], sizes: Mapping[int, int], ended_s: Mapping[int, float]
    ) -> list[int]:
        """Of `rows`, which lie on the disk of `node` in ascending order, those that have to go.

        `ended_s` has those that are over.  Of whoever has left too much the oldest go, until it is not.
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
