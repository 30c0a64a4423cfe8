"""Limits of cores and host memory for parts whose orders set them, updated while the part runs.

Cores are enforced by affinity: each part gets whole cores of its own, and fractions are rounded down, to at
least one core. A child starts with the cores that its parent had when its birth began. A part is therefore
checked repeatedly: at once until nothing has to be moved, then after pauses, for as long as it runs. The
memory limit is passed to the program: one with a cache of its own reads its budget (`rota.training.limits`).
Both limits are recorded in the part's training folder, where another agent finds the owners of cores.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rota.engines.rota.guarding import described
from rota.engines.rota.live import Live
from rota.engines.rota.processes import hold_ranks
from rota.engines.shared.ledger import Key
from rota.training import host_limits
from rota.wire.sync import Part, PartStatus, Wanted

Cores = tuple[int, ...]
FIRST_S, MOST_S = 0.05, 5.0
"""First and longest pause between two checks of a part; the pause doubles while nothing has to be moved."""


def assign(allowed: Sequence[int], wanted: Mapping[Key, int], held: Mapping[Key, Cores]) -> dict[Key, Cores]:
    """Assign cores to each key, as many as it wants: first those it holds, then the least used ones.

    If several parts claim a core on record, the first keeps it: programs can change what is on record.
    """
    given: dict[Key, list[int]] = {}
    load: Counter[int] = Counter()
    for key, n in wanted.items():
        mine = [core for core in dict.fromkeys(held.get(key, ())) if core in allowed and not load[core]]
        given[key] = mine[:n]
        load.update(given[key])
    for key, n in wanted.items():
        cores = given[key]
        for _ in range(min(n, len(allowed)) - len(cores)):
            core = min((one for one in allowed if one not in cores), key=lambda one: (load[one], one))
            cores.append(core)
            load[core] += 1
    return {key: tuple(sorted(cores)) for key, cores in given.items()}


@dataclass
class _Look:
    """When to check a part: soon after its cores have changed, because processes being forked appear late."""

    cores: Cores
    due_s: float = 0.0
    pause_s: float = FIRST_S / 2

    def seen(self, *, is_calm: bool, now_s: float) -> None:
        """Record a check; `is_calm` if nothing had to be moved."""
        self.pause_s = min(2.0 * self.pause_s, MOST_S) if is_calm else FIRST_S
        self.due_s = now_s + self.pause_s


class LimitKeeper:
    """Enforces the limits in the orders of the parts of one machine; a single thread calls it."""

    def __init__(
        self, allowed: Iterable[int] | None = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        """`allowed` are the cores to distribute, by default those of this process."""
        self._now = now
        self._looks: dict[Key, _Look] = {}
        self._allowed = sorted(os.sched_getaffinity(0) if allowed is None else allowed)
        self._held: dict[Key, Cores] = {}
        self._told: dict[Key, tuple[float | None, float | None, Cores]] = {}

    def follow(self, orders: Mapping[Key, Part], lives: Iterable[Live]) -> dict[Key, str]:
        """Apply changed limits; returns an error message for each part where that failed."""
        parts = {live.key: (live, orders[live.key]) for live in lives if _is_limited(live, orders)}
        for key in parts.keys() - self._held.keys():
            self._held[key] = _remembered(parts[key][0].folder.training)
        wanted = {
            key: max(1, int(order.own_cpus + 1e-9))
            for key, (_, order) in sorted(parts.items())
            if order.own_cpus is not None
        }
        self._held = assign(self._allowed, wanted, self._held)
        self._told = {key: told for key, told in self._told.items() if key in parts}
        self._looks = {key: look for key, look in self._looks.items() if key in wanted}
        failed = {}
        for key, (live, order) in parts.items():
            try:
                self._hold(live, order, self._held.get(key, ()))
            except Exception as error:  # any exception: it must not affect the other jobs
                failed[key] = f"cannot hold it to the cores it was given: {described(error)}"
        return failed

    def next_s(self) -> float:
        """Seconds until `follow` is due; infinite if no part has a limit of cores."""
        due_s = min((look.due_s for look in self._looks.values()), default=float("inf"))
        return max(0.0, due_s - self._now())

    def _hold(self, live: Live, order: Part, cores: Cores) -> None:
        if cores and live.shim is not None:
            look = self._looks.get(live.key)
            if look is None or look.cores != cores:
                look = self._looks[live.key] = _Look(cores)
            if look.due_s <= self._now():
                ranks = {rank: process.pid for rank, process in live.ranks.items()}
                given = dict.fromkeys(ranks, cores)
                is_calm = hold_ranks(live.shim.pid, ranks, given, exactly=look.pause_s < MOST_S)
                look.seen(is_calm=is_calm, now_s=self._now())
        said = (order.own_cpus, order.own_gib, cores)
        if self._told.get(live.key) != said:
            host_limits.tell(live.folder.training, host_limits.Limits(order.own_cpus, order.own_gib, cores))
            self._told[live.key] = said


def _is_limited(live: Live, orders: Mapping[Key, Part]) -> bool:
    order = orders.get(live.key)
    runs = live.status is PartStatus.RUNNING and order is not None and order.wanted is Wanted.RUN
    return runs and order is not None and (order.own_cpus is not None or order.own_gib is not None)


def _remembered(folder: Path) -> Cores:
    """Cores that another agent gave the part, if its program has not changed the record."""
    return host_limits.read(folder).cores
