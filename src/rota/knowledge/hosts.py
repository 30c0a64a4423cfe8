"""Sensitivity to the host: how fast a job is by the CPU cores and the memory it has for each GPU.

Speed is relative to the share in proportion to GPUs, at which iteration times are measured (Synergy, OSDI
2022).  A policy receives a table (`host_table`), which `speeds_of` reads back: by row `class`, -1 for a job
that does not mind; shared `cpus` and `gib` [class, share], `speeds` and `disk` [class, cpus, gib], with NaN
after the last, and `wants` [class, 2], NaN where the speeds say it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rota.errors import InputError
from rota.knowledge.needs import Table
from rota.model.columns import Floats, Ints
from rota.model.grants import Grant
from rota.model.jobs import JobTable


@dataclass(frozen=True)
class HostSpeeds:
    """Speeds of one workload over a grid of shares."""

    cpus: Floats
    """Cores for each GPU, ascending."""
    gib: Floats
    """Host memory for each GPU, ascending."""
    speeds: Floats
    """Relative speed, [cores, memory]."""
    disk: Floats | None = None
    """MB/s of storage that each GPU reads at these speeds, [cores, memory]; None if unmeasured."""
    wants: tuple[float, float] | None = None
    """Cores and memory for each GPU that its owner asks for; None leaves it to the speeds."""

    def speed(self, cpus: float, gib: float) -> float:
        """Speed with `cpus` cores and `gib` of memory for each GPU.

        Between measured numbers of cores on a straight line, below the least towards 0; with the most memory
        measured that does not exceed what there is, since a data set is in memory or it is not.  Infinite is
        as much as was measured.
        """
        column = max(int(np.searchsorted(self.gib, gib + 1e-9, side="right")) - 1, 0)
        return float(np.interp(cpus, [0.0, *self.cpus], [0.0, *self.speeds[:, column]]))

    def best(
        self, cpus: float = math.inf, gib: float = math.inf, tolerance: float = 0.0
    ) -> tuple[float, float]:
        """The least cores, then the least memory, with which it is as fast as it can be, but for `tolerance`.

        `cpus` and `gib` are the most that each GPU can be given; the least that was measured always counts.
        """
        rows = max(int(np.searchsorted(self.cpus, cpus + 1e-9, side="right")), 1)
        columns = max(int(np.searchsorted(self.gib, gib + 1e-9, side="right")), 1)
        within = self.speeds[:rows, :columns]
        enough = np.nonzero(within >= (1.0 - tolerance) * within.max())
        row, column = (int(place[0]) for place in enough)
        return float(self.cpus[row]), float(self.gib[column])

    def disk_at(self, cpus: float, gib: float) -> float:
        """MB/s of storage for each GPU with these amounts: as measured at the next lower ones."""
        if self.disk is None:
            return 0.0
        row = max(int(np.searchsorted(self.cpus, cpus + 1e-9, side="right")) - 1, 0)
        column = max(int(np.searchsorted(self.gib, gib + 1e-9, side="right")) - 1, 0)
        return float(self.disk[row, column])


HostTable = Mapping[str, HostSpeeds]
"""Workload -> its speeds."""


def host_table(hosts: HostTable, workloads: Sequence[str], of_row: Ints) -> Table:
    """The table of `hosts`; `of_row` are codes of `workloads`, -1 for none."""
    known = {name: i for i, name in enumerate(name for name in workloads if name in hosts)}
    classes = np.array([*(known.get(name, -1) for name in workloads), -1])
    grids = [hosts[name] for name in known]
    most = [max((len(axis) for axis in axes), default=0) for axes in _axes(grids)]
    cpus, gib = (np.full((len(grids), size), np.nan) for size in most)
    speeds, disk = (np.full((len(grids), *most), np.nan) for _ in range(2))
    wants = np.array([grid.wants or (np.nan, np.nan) for grid in grids]).reshape(-1, 2)
    for i, grid in enumerate(grids):
        cpus[i, : len(grid.cpus)], gib[i, : len(grid.gib)] = grid.cpus, grid.gib
        speeds[i, : len(grid.cpus), : len(grid.gib)] = grid.speeds
        if grid.disk is not None:
            disk[i, : len(grid.cpus), : len(grid.gib)] = grid.disk
    shared = {"cpus": cpus, "gib": gib, "speeds": speeds, "disk": disk, "wants": wants}
    return Table({"class": classes[of_row]}, shared)


def _axes(grids: Sequence[HostSpeeds]) -> tuple[list[Floats], list[Floats]]:
    return [grid.cpus for grid in grids], [grid.gib for grid in grids]


def speeds_of(table: Table) -> list[HostSpeeds]:
    """The speeds of each class of `table`."""
    grids = []
    columns = (table.shared[name] for name in ("cpus", "gib", "speeds", "disk", "wants"))
    for cpus, gib, speeds, disk, wants in zip(*columns, strict=True):
        grid = np.ix_(~np.isnan(cpus), ~np.isnan(gib))
        grids.append(
            HostSpeeds(
                cpus[~np.isnan(cpus)],
                gib[~np.isnan(gib)],
                speeds[grid],
                None if np.isnan(disk[grid]).any() else disk[grid],
                None if np.isnan(wants).any() else (wants.item(0), wants.item(1)),
            )
        )
    return grids


def host_share(jobs: JobTable, grant: Grant) -> tuple[float, float]:
    """Cores and host memory that a job has for each GPU of `grant`: what it grants, else what was asked for.

    A job that asked for none has as much as it wants.
    """
    row, gpus = grant.job, len(grant.devices)
    asked = jobs.gpus.item(row)
    if not gpus or not asked:
        return math.inf, math.inf
    cpus, gib = jobs.cpus.item(row) / asked or math.inf, jobs.memory_gib.item(row) / asked or math.inf
    return (
        cpus if math.isnan(grant.cpus) else grant.cpus / gpus,
        gib if math.isnan(grant.memory_gib) else grant.memory_gib / gpus,
    )


def build_hosts(
    measured: Mapping[tuple[str, float, float], float],
    source: str = "hosts",
    disk: Mapping[tuple[str, float, float], float] | None = None,
) -> HostTable:
    """The table of `measured`: (workload, cores per GPU, GiB per GPU) -> relative speed; `disk` -> MB/s.

    Each workload is measured over a grid: all its numbers of cores with all its sizes of memory.
    """
    table = {}
    for workload in dict.fromkeys(name for name, _, _ in measured):
        own = {(cpus, gib): speed for (name, cpus, gib), speed in measured.items() if name == workload}
        cores, sizes = (sorted({place[axis] for place in own}) for axis in (0, 1))
        missing = next(((c, m) for c in cores for m in sizes if (c, m) not in own), None)
        if missing is not None:
            raise InputError.at(
                f"{workload} has no speed with {missing[0]:g} cores and {missing[1]:g} GiB for each GPU",
                file=source,
                expected="one for each pair of its numbers of cores and sizes of memory",
            )
        speeds = np.array([[own[c, m] for m in sizes] for c in cores])
        read = np.array([[disk[workload, c, m] for m in sizes] for c in cores]) if disk else None
        table[workload] = HostSpeeds(np.array(cores), np.array(sizes), speeds, read)
    return table
