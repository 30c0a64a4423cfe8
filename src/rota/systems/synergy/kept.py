"""What was computed for running jobs in the last round, for those to which nothing has happened since."""

from __future__ import annotations

import math
from collections.abc import Set
from typing import NamedTuple

from rota.model.cluster import Cluster
from rota.model.columns import Bools, Floats
from rota.model.grants import Grant
from rota.systems.synergy.room import Ask
from rota.table.free import Free

SizeKey = tuple[float, ...]


class KeptAsk(NamedTuple):
    """An ask and all its inputs: while these are the same objects, the ask is the same."""

    asked: Grant
    """The grant of the inner policy."""
    held: Grant | None
    wants: bytes
    ask: Ask
    by_size: SizeKey

    def is_of(self, grant: Grant, held: Grant | None, wants: Floats) -> bool:
        """True if the ask was made of the same inputs."""
        return self.asked is grant and self.held is held and self.wants == wants.tobytes()


class KeptAsks:
    """A cache of one cluster and one table of jobs: dropping it changes no decision."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.asks: dict[int, KeptAsk] = {}
        """Asks of the last round, by row."""
        self.nodes: dict[tuple[float, ...], Bools] = {}
        """By what a job asks for: where it may be, as long as no cores, memory or quotas are counted."""
        self._free: Free | None = None
        self._down: frozenset[int] = frozenset()

    def empty(self, down: Set[int]) -> Free:
        """A copy of the index of free devices while no job runs; those in `down` are none."""
        if self._free is None or self._down != down:
            self._down, self._free = frozenset(down), Free.of(self.cluster)
            for device in down:
                self._free.remove(device)
        return self._free.copy()


def by_size(ask: Ask) -> SizeKey:
    """Most GPUs first, then most of each amount; a job that wants none of one in particular comes last."""
    wants = [0.0 if math.isnan(want) else -want for want in ask.wants.tolist()]
    return (-ask.gpus, *wants, ask.row)
