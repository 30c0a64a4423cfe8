"""Measures what all parts use in one pass over /proc, so that a hundred parts cost as much as one.

A process belongs to a part if it descends from one of the part's ranks, or is in their process group. CPU
time is counted between two measurements; what a process used before it was first seen counts to the
measurement that first sees it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from rota.engines.shared.ledger import Key

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
GIB = float(2**30)
SHORTEST_S = 0.02
"""Shortest interval in seconds that clock ticks can measure."""


class Roots(NamedTuple):
    """The processes at the top of a part's tree."""

    pids: tuple[int, ...]
    pgid: int | None


class Used(NamedTuple):
    """Resources that a part used at a measurement."""

    cpu_cores: float
    memory_gib: float
    pids: frozenset[int] = frozenset()
    """Pids of its processes."""


class Process(NamedTuple):
    """Fields of one line of /proc/PID/stat."""

    parent: int
    group: int
    ticks: int
    started: int
    pages: int


@dataclass
class UsageSampler:
    """Measures processes, and remembers their CPU time."""

    looked_s: dict[Key, float] = field(default_factory=dict)
    """When each part was last measured; a new one is measured from its start."""
    ticks: dict[tuple[int, int], int] = field(default_factory=dict)
    """(pid, start time) -> CPU ticks at the last measurement."""

    def look(self, parts: Mapping[Key, Roots], now_s: float) -> dict[Key, Used]:
        """What each part uses; `now_s` is a monotonic time."""
        processes = all_processes()
        owners = owners_of(parts, processes)
        ticks: dict[tuple[int, int], int] = {}
        sums: dict[Key, list[int]] = {key: [0, 0] for key in parts}
        oldest: dict[Key, int] = {}
        pids: dict[Key, list[int]] = {key: [] for key in parts}
        for pid, key in owners.items():
            pids[key].append(pid)
            process = processes[pid]
            name = (pid, process.started)
            ticks[name] = process.ticks
            sums[key][0] += max(0, process.ticks - self.ticks.get(name, 0))
            sums[key][1] += process.pages
            oldest[key] = min(process.started, oldest.get(key, process.started))
        uptime_s = time.clock_gettime(time.CLOCK_BOOTTIME)
        used = {}
        for key, (spent, pages) in sums.items():
            age_s = uptime_s - oldest[key] / TICKS_PER_S if key in oldest else 0.0
            took_s = max(SHORTEST_S, now_s - self.looked_s[key] if key in self.looked_s else age_s)
            used[key] = Used(spent / TICKS_PER_S / took_s, pages * PAGE_BYTES / GIB, frozenset(pids[key]))
        self.looked_s, self.ticks = dict.fromkeys(parts, now_s), ticks
        return used


def memory_gib(roots: Roots) -> float:
    """Resident memory of one part now, in GiB."""
    processes = all_processes()
    owners = owners_of({(0, 0): roots}, processes)
    return sum(processes[pid].pages for pid in owners) * PAGE_BYTES / GIB


def owners_of(parts: Mapping[Key, Roots], processes: Mapping[int, Process]) -> dict[int, Key]:
    """pid -> the part it belongs to; processes of no part are missing."""
    groups = {roots.pgid: key for key, roots in parts.items() if roots.pgid is not None}
    known: dict[int, Key | None] = {pid: key for key, roots in parts.items() for pid in roots.pids}
    for pid, process in processes.items():
        if pid not in known and process.group in groups:
            known[pid] = groups[process.group]
    for pid in processes:
        _settle(pid, processes, known)
    return {pid: key for pid, key in known.items() if key is not None and pid in processes}


def _settle(pid: int, processes: Mapping[int, Process], known: dict[int, Key | None]) -> None:
    """Find the first ancestor whose part is known, and store that part for all processes on the way."""
    way: list[int] = []
    while pid not in known and pid in processes and pid not in way:
        way.append(pid)
        pid = processes[pid].parent
    key = known.get(pid)
    known.update(dict.fromkeys(way, key))


def all_processes() -> dict[int, Process]:
    """Every visible process of this machine."""
    processes: dict[int, Process] = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            process = _process(int(name))
            if process is not None:
                processes[int(name)] = process
    return processes


def _process(pid: int) -> Process | None:
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
        try:
            text = os.read(fd, 4096)
        finally:
            os.close(fd)
    except (FileNotFoundError, ProcessLookupError):
        return None
    rest = text[text.rindex(b")") + 2 :].split()
    return Process(int(rest[1]), int(rest[2]), int(rest[11]) + int(rest[12]), int(rest[19]), int(rest[21]))


def machine_memory_gib() -> float:
    """Memory of this machine in GiB, rounded to about a MiB, for the controller and the agent."""
    return round(os.sysconf("SC_PHYS_PAGES") * PAGE_BYTES / GIB, 3)


def roots_of(pids: Iterable[int], pgid: int | None) -> Roots:
    """Roots of a live part, from the pids of its ranks and their process group."""
    return Roots(tuple(pids), pgid)
