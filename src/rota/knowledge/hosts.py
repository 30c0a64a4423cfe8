"""Sensitivity to the host: how fast a job is by the CPU cores and the memory it has for each GPU.

Speed is relative to the share in proportion to GPUs, at which iteration times are measured (Synergy,
OSDI 2022).  What a policy is told is a table (`host_table`), which `speeds_of` reads back: by row `class`,
-1 for a job that does not mind; shared `cpus` and `gib` [class, share], and `speeds` [class, cpus, gib], with
NaN after the last.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rota.errors import InputError
from rota.knowledge.needs import Table
from rota.knowledge.throughput_file import read_text
from rota.model.columns import Floats, Ints
from rota.model.grants import Grant
from rota.model.jobs import JobTable

COLUMNS = ("workload", "cpus_per_gpu", "gib_per_gpu", "speed")


@dataclass(frozen=True)
class HostSpeeds:
    """Speeds of one workload over a grid of shares."""

    cpus: Floats
    """Cores for each GPU, ascending."""
    gib: Floats
    """Host memory for each GPU, ascending."""
    speeds: Floats
    """Relative speed, [cores, memory]."""

    def speed(self, cpus: float, gib: float) -> float:
        """Speed with so much for each GPU.

        Between measured numbers of cores on a straight line, below the least towards 0; with the most memory
        measured that does not exceed what there is, since a data set is in memory or it is not.  Infinite is
        as much as was measured.
        """
        column = max(int(np.searchsorted(self.gib, gib + 1e-9, side="right")) - 1, 0)
        return float(np.interp(cpus, [0.0, *self.cpus], [0.0, *self.speeds[:, column]]))

    def best(self) -> tuple[float, float]:
        """The least cores, then the least memory, with which it is as fast as it can be."""
        row, column = (int(place[0]) for place in np.nonzero(self.speeds == self.speeds.max()))
        return float(self.cpus[row]), float(self.gib[column])


HostTable = Mapping[str, HostSpeeds]
"""Workload -> its speeds."""


def host_table(hosts: HostTable, workloads: Sequence[str], of_row: Ints) -> Table:
    """What is told of `hosts`; `of_row` are codes of `workloads`, -1 for none."""
    known = {name: i for i, name in enumerate(name for name in workloads if name in hosts)}
    classes = np.array([*(known.get(name, -1) for name in workloads), -1])
    grids = [hosts[name] for name in known]
    most = [max((len(axis) for axis in axes), default=0) for axes in _axes(grids)]
    cpus, gib = (np.full((len(grids), size), np.nan) for size in most)
    speeds = np.full((len(grids), *most), np.nan)
    for i, grid in enumerate(grids):
        cpus[i, : len(grid.cpus)], gib[i, : len(grid.gib)] = grid.cpus, grid.gib
        speeds[i, : len(grid.cpus), : len(grid.gib)] = grid.speeds
    return Table({"class": classes[of_row]}, {"cpus": cpus, "gib": gib, "speeds": speeds})


def _axes(grids: Sequence[HostSpeeds]) -> tuple[list[Floats], list[Floats]]:
    return [grid.cpus for grid in grids], [grid.gib for grid in grids]


def speeds_of(table: Table) -> list[HostSpeeds]:
    """The speeds of each class of `table`."""
    grids = []
    shared = table.shared
    for cpus, gib, speeds in zip(shared["cpus"], shared["gib"], shared["speeds"], strict=True):
        rows, columns = ~np.isnan(cpus), ~np.isnan(gib)
        grids.append(HostSpeeds(cpus[rows], gib[columns], speeds[np.ix_(rows, columns)]))
    return grids


def host_share(jobs: JobTable, grant: Grant) -> tuple[float, float]:
    """Cores and host memory that a job has for each GPU of `grant`: what it grants, else what was asked for.

    Who asked for none has as much as it wants.
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


def build_hosts(measured: Mapping[tuple[str, float, float], float], source: str = "hosts") -> HostTable:
    """The table of `measured`: (workload, cores per GPU, GiB per GPU) -> relative speed.

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
        table[workload] = HostSpeeds(np.array(cores), np.array(sizes), speeds)
    return table


def read_hosts(path: str | Path) -> HostTable:
    """The table in the CSV file `path`: workload, cpus_per_gpu, gib_per_gpu, speed."""
    rows = csv.DictReader(read_text(Path(path)).splitlines())
    if not set(COLUMNS) <= set(rows.fieldnames or ()):
        raise InputError.at("has other columns", file=path, row=1, expected=", ".join(COLUMNS))
    measured: dict[tuple[str, float, float], float] = {}
    for number, row in enumerate(rows, start=2):
        cpus, gib, speed = (_number(path, number, name, row[name]) for name in COLUMNS[1:])
        key = (row["workload"] or "", cpus, gib)
        if key in measured:
            raise InputError.at(
                f"{key[0]!r} is listed twice with {cpus:g} and {gib:g}", file=path, row=number
            )
        measured[key] = speed
    if not measured:
        raise InputError.at("there is no speed in it", file=path, expected="a row for each share")
    return build_hosts(measured, str(path))


def _number(path: str | Path, row: int, field: str, value: str | None) -> float:
    try:
        number = float(value or "")
        if 0.0 < number < float("inf"):
            return number
    except ValueError:
        pass
    raise InputError.at(f"{value!r} is no number above 0", file=path, row=row, field=field)
