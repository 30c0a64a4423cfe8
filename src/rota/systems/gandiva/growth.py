"""Grow and shrink: idle GPUs of a server go to its elastic jobs, until somebody needs them."""

from __future__ import annotations

import math

from rota.model.gpu_counts import feasible_counts
from rota.scheduler.snapshot import Snapshot
from rota.systems.gandiva.derived import Homeless
from rota.systems.gandiva.parameters import GandivaParameters
from rota.systems.gandiva.server_group import ServerGroup


class Growth:
    """How many GPUs the jobs of a home get at one moment."""

    def __init__(self, snapshot: Snapshot, parameters: GandivaParameters, homeless: Homeless) -> None:
        self.snapshot = snapshot
        self.p = parameters
        self.homeless = homeless
        self.jobs = snapshot.jobs.table
        self.asked = snapshot.gpus_of

    def is_due(self, home: ServerGroup) -> bool:
        """True if GPUs of the home have been idle for long enough and nobody waits for a home."""
        return self.snapshot.now >= home["idle_since_s"] + self.p.grow_after and not self.homeless

    def sizes(self, home: ServerGroup, rows: list[int], room: float) -> dict[int, int]:
        """GPUs of each job: elastic ones keep what is idle, and get more if that was idle for long.

        `room` is what nobody of the home asks for; notes in the home since when somebody could use it.
        """
        sizes = {row: self.asked[row] for row in rows}
        elastic, is_due, can_grow = self._elastic(home, rows), self.is_due(home), False
        for row in elastic:
            grant = self.snapshot.grants.get(row)
            have = len(grant.devices) if grant is not None else 0
            sizes[row] = self._most(row, min(have, sizes[row] + int(max(room, 0.0))))
            room -= sizes[row] - self.asked[row]
        for row in elastic:  # what nobody keeps
            most = self._most(row, sizes[row] + int(max(room, 0.0)))
            if is_due:
                room -= most - sizes[row]
                sizes[row] = most
            can_grow |= most > sizes[row]
        home["idle_since_s"] = self.snapshot.now if can_grow else math.inf
        return sizes

    def _elastic(self, home: ServerGroup, rows: list[int]) -> list[int]:
        """Jobs that could use more GPUs; none where they take turns, or where quotas count every GPU."""
        if not self.p.grow or home["turn_ends_s"] < math.inf or self.snapshot.cluster.tenants:
            return []
        most = self.jobs.gpus_max
        return [row for row in rows if most.item(row) > self.asked[row] and row not in home["pairs"]]

    def _most(self, row: int, limit: int) -> int:
        """The most GPUs, up to `limit`, that the job can use; at least those it asked for."""
        most = min(limit, self.jobs.gpus_max.item(row))
        return max(feasible_counts(self.jobs, row, most)[-1], self.asked[row])
