"""Reads sensitivity to the host: a CSV file of ours, or a JSON file of the profiles of Synergy's simulator.

    workload,cpus_per_gpu,gib_per_gpu,speed         relative to the share in proportion to GPUs; perhaps a
    resnet18,3,62.5,1                               column disk_mb_s, what each GPU reads from storage then

The JSON file holds a profile by NAME_GPUS; as in the simulator, that of one GPU speaks for all numbers:

    {"resnet18_1": {"tput": [[...], ...], "cpus": 9, "mem": 62.5}}

`tput` is the speed over the cores and the memory that it tries (`CORES`, `GIB`); the rest is its best demand.
Either may be compressed with gzip.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rota.errors import InputError
from rota.knowledge.given import Given, Provides
from rota.knowledge.hosts import HostSpeeds, HostTable, build_hosts, host_table
from rota.knowledge.needs import Knowledge, Provenance, Provider
from rota.knowledge.registry import Setup, provides
from rota.knowledge.side_file import CsvRows, json_of, read_text
from rota.model.jobs import JobTable
from rota.table.state import State

COLUMNS = ("workload", "cpus_per_gpu", "gib_per_gpu", "speed")
DISK = "disk_mb_s"
CORES = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 9.0, 12.0, 24.0)
GIB = (20.83, 62.5, 125.0, 187.5, 250.0)
"""The grid of the profiles of Synergy's simulator: cores and GB for each GPU."""


def read_hosts(path: str | Path) -> HostTable:
    """The table in the file `path`; InputError names the row, or the profile, that is wrong."""
    text = read_text(Path(path))
    if text.lstrip().startswith("{"):
        return _profiles(path, text)
    rows = CsvRows(path, text)
    names = set(rows.columns)
    if not set(COLUMNS) <= names:
        raise InputError.at("has other columns", file=path, row=1, expected=", ".join(COLUMNS))
    rows.check_known((*COLUMNS, DISK))
    measured: dict[tuple[str, float, float], float] = {}
    disk: dict[tuple[str, float, float], float] = {}
    for number, row in rows:
        cpus, gib, speed = (_number(path, number, name, row[name]) for name in COLUMNS[1:])
        key = (row["workload"], cpus, gib)
        if key in measured:
            raise InputError.at(
                f"{key[0]!r} is listed twice with {cpus:g} and {gib:g}", file=path, row=number
            )
        measured[key] = speed
        if DISK in names:
            disk[key] = _number(path, number, DISK, row[DISK], zero=True)
    if not measured:
        raise InputError.at("there is no speed in it", file=path, expected="a row for each share")
    return build_hosts(measured, str(path), disk)


def _number(path: str | Path, row: int, field: str, value: str | None, *, zero: bool = False) -> float:
    try:
        number = float(value or "")
        if 0.0 < number < math.inf or (zero and number == 0.0):
            return number
    except ValueError:
        pass
    wrong = "is no number of 0 or more" if zero else "is no number above 0"
    raise InputError.at(f"{value!r} {wrong}", file=path, row=row, field=field)


# -- profiles of Synergy's simulator -----------------------------------------------------------------


def _profiles(path: str | Path, text: str) -> HostTable:
    """The profiles of one GPU in a JSON file."""
    try:
        stored = json_of(text, path)
    except ValueError:
        stored = {}
    ours = {name[:-2]: one for name, one in stored.items() if name.endswith("_1")}
    if not ours:
        raise InputError.at("holds no profile of one GPU", file=path, expected='{"NAME_1": {"tput": ...}}')
    return {name: _profile(path, name, one) for name, one in ours.items()}


def _profile(path: str | Path, name: str, stored: Any) -> HostSpeeds:
    try:
        speeds = np.array(stored["tput"], dtype=np.float64)
        wants = (float(stored["cpus"]), float(stored["mem"]))
    except (KeyError, TypeError, ValueError):
        speeds, wants = np.zeros(0), (0.0, 0.0)
    if speeds.shape != (len(CORES), len(GIB)) or not (speeds > 0.0).all() or not min(wants) > 0.0:
        raise InputError.at(
            f"{name}_1 is no profile",
            file=path,
            expected=f"tput [{len(CORES)}][{len(GIB)}] of numbers above 0, cpus and mem",
        )
    return HostSpeeds(np.array(CORES), np.array(GIB), speeds, wants=wants)


def on_a_line(hosts: HostTable) -> HostTable:
    """`hosts` as Synergy's simulator takes them: memory does not matter, cores do in a straight line.

    The line goes from the least cores with speed 1, the share in proportion, to the best demand.
    """
    return {name: _on_a_line(speeds) for name, speeds in hosts.items()}


def _on_a_line(speeds: HostSpeeds) -> HostSpeeds:
    cpus, gib = wants = speeds.wants or speeds.best()
    most = float(speeds.speeds.max())
    share = float(speeds.cpus[speeds.speeds.max(axis=1) >= 1.0].min(initial=cpus))
    if most <= 1.0 or cpus <= share:
        return HostSpeeds(np.array([cpus]), np.array([gib]), np.ones((1, 1)), wants=wants)
    line = np.array([[1.0], [most]])
    return HostSpeeds(np.array([share, cpus]), np.array([gib]), line, wants=wants)


# -- sources -----------------------------------------------------------------------------------------


@provides(Knowledge.HOSTS, Provenance.USER, "speeds by cores and memory, from a file", argument="FILE")
def users_hosts(setup: Setup, file: str) -> Provider | None:
    """The table in the named file; None if no file was named."""
    return UsersHosts(read_hosts(file), setup.jobs) if file else None


class UsersHosts(Provides):
    """A table by workload, for jobs as they are submitted."""

    learns = True

    def __init__(self, hosts: HostTable, jobs: JobTable) -> None:
        self._jobs = jobs
        self._code = {name: code for code, name in enumerate(hosts)}
        self._table = host_table(hosts, tuple(hosts), np.full(len(jobs), -1))
        self._class = self._table.by_row["class"]
        super().__init__(Knowledge.HOSTS, Provenance.USER, self._table)

    def attach(self, state: State) -> None:
        for row in range(state.submitted):
            self.submitted(row)

    def submitted(self, row: int) -> None:
        self._class[row] = self._code.get(self._jobs.name_of("workload", row), -1)


@provides(Knowledge.HOSTS, Provenance.ASSUMED, "cores and memory do not change the speed of any job")
def assumed_hosts(setup: Setup) -> Provider:
    """A table without sensitivity: each job gets a share in proportion to its GPUs."""
    none: Mapping[str, HostSpeeds] = {}
    table = host_table(none, setup.jobs.workload_names, setup.jobs.workload)
    return Given(Knowledge.HOSTS, table, Provenance.ASSUMED)
