"""Cores and host memory of parts whose orders name them: they follow the order while the part runs.

Cores are held to by affinity, each part to whole cores of its own: a part of a core is rounded down, but for
the first.  Memory is told: a program with a cache of its own reads its budget (`rota.training.limits`).
Both stand in the part's training folder, where another agent finds whose the cores were.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rota.agent.live import Live
from rota.agent.processes import move_ranks
from rota.engine.ledger import Key
from rota.training import host_limits
from rota.wire.sync import Part, PartStatus, Wanted

Cores = tuple[int, ...]


def assign(allowed: Sequence[int], wanted: Mapping[Key, int], held: Mapping[Key, Cores]) -> dict[Key, Cores]:
    """Cores for each key, as many as it wants: what it holds first, then those that fewest others have.

    A core that several say they hold stays with the first of them: programs can change what is on record.
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


class LimitKeeper:
    """Holds the parts of one machine to what their orders say; one thread calls it."""

    def __init__(self, allowed: Iterable[int] | None = None) -> None:
        """`allowed` are the cores that may be given out: those of this process if not named."""
        self._allowed = sorted(os.sched_getaffinity(0) if allowed is None else allowed)
        self._held: dict[Key, Cores] = {}
        self._told: dict[Key, tuple[float | None, float | None, Cores]] = {}

    def follow(self, orders: Mapping[Key, Part], lives: Iterable[Live]) -> dict[Key, str]:
        """Carry out what has changed, and say of which parts that failed, and why."""
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
        failed = {}
        for key, (live, order) in parts.items():
            try:
                self._hold(live, order, self._held.get(key, ()))
            except OSError as error:
                failed[key] = f"cannot hold it to the cores it was given: {error}"
        return failed

    def _hold(self, live: Live, order: Part, cores: Cores) -> None:
        if cores and live.shim is not None and any(_is_elsewhere(pid, cores) for pid in live.pids):
            ranks = {rank: process.pid for rank, process in live.ranks.items()}
            move_ranks(live.shim.pid, ranks, dict.fromkeys(ranks, cores))
        said = (order.own_cpus, order.own_gib, cores)
        if self._told.get(live.key) != said:
            host_limits.tell(live.folder.training, host_limits.Limits(order.own_cpus, order.own_gib, cores))
            self._told[live.key] = said


def _is_limited(live: Live, orders: Mapping[Key, Part]) -> bool:
    order = orders.get(live.key)
    runs = live.status is PartStatus.RUNNING and order is not None and order.wanted is Wanted.RUN
    return runs and order is not None and (order.own_cpus is not None or order.own_gib is not None)


def _is_elsewhere(pid: int, cores: Cores) -> bool:
    try:
        return os.sched_getaffinity(pid) != set(cores)
    except ProcessLookupError:
        return False


def _remembered(folder: Path) -> Cores:
    """Cores that another agent gave the part, if its program has left that as it was."""
    return host_limits.read(folder).cores
