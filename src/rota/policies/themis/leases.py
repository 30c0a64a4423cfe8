"""Until when jobs hold what they won.

Memory    `leases`  per running job: the moment at which its lease ends
          `won`     rows that got something the last time, the worst ρ first
"""

from __future__ import annotations

import math

from rota.model.grants import Can
from rota.policies.themis.apps import Holds
from rota.scheduler.decision import Memory
from rota.scheduler.snapshot import Snapshot

_STOPS = int(Can.SUSPEND | Can.CHECKPOINT | Can.RESIZE)


class Leases:
    """The leases of running jobs, kept in a policy's memory."""

    def __init__(self, snapshot: Snapshot, memory: Memory, lease_s: float) -> None:
        """Brought up to now: who runs without one has just got one."""
        before: dict[int, float] = memory.get("leases", {})
        self.now, self.lease_s = snapshot.now, lease_s
        running = snapshot.running
        grants = snapshot.grants
        self.until: dict[int, float] = {
            row: before.get(row, snapshot.now + lease_s) for row in running.tolist() if grants[row].devices
        }
        stays = running[(snapshot.jobs.can(running) & _STOPS) == 0].tolist()
        self.stays = {row for row in stays if row in self.until}
        """Rows that bear no stop: their leases are renewed as they end."""
        memory["leases"] = self.until

    def held(self, snapshot: Snapshot) -> Holds:
        """What is held under leases in force."""
        return {row: snapshot.grants[row] for row in self.until if not self.has_ended(row)}

    def has_ended(self, row: int) -> bool:
        return self.until[row] <= self.now and row not in self.stays

    def ended(self) -> list[int]:
        """Rows whose leases have ended, in order of submission."""
        return [row for row in self.until if self.has_ended(row)]

    def renew(self, rows: list[int], until_s: float = math.inf) -> None:
        """Leases for `rows` from now on, until `until_s` at the latest."""
        for row in rows:
            self.until[row] = min(self.now + self.lease_s, until_s)

    def settle(self, gone: list[int]) -> None:
        """Forget who has been stopped, and renew those that bear no stop."""
        for row in gone:
            del self.until[row]
        self.renew([row for row in self.stays if self.until[row] <= self.now])

    def next_s(self) -> float:
        """When the next lease ends."""
        return min(self.until.values(), default=math.inf)
