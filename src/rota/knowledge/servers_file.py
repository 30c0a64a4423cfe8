"""Reads measured speeds of jobs with parameter servers, by servers and workers, and fits a model to them.

    workload,servers,workers,steps_per_s            one row for each that was measured; perhaps columns
    resnet50,1,1,0.7576                             training (synchronous or asynchronous), batch,
                                                    server_cpus, server_gib, worker_cpus, worker_gib

The fit is that of Optimus (`rota.knowledge.step_speed`): non-negative least squares, from five
different pairs of servers and workers on, of asynchronous training from four.  Perhaps compressed with gzip.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from rota.errors import InputError
from rota.knowledge.given import Given, Provides
from rota.knowledge.needs import Knowledge, Provenance, Provider
from rota.knowledge.registry import Setup, provides
from rota.knowledge.servers import Served, ServedTable, Unit, server_table
from rota.knowledge.side_file import CsvRows, read_text
from rota.knowledge.step_speed import PARAMETERS, Training, fit_speed
from rota.model.jobs import JobTable
from rota.table.state import State

COLUMNS = ("workload", "servers", "workers", "steps_per_s")
OPTIONAL = {"batch": 1.0, "server_cpus": 1.0, "server_gib": 0.0, "worker_cpus": 1.0, "worker_gib": 0.0}
"""Columns that may be left out, with their defaults."""
_MAY_BE_ZERO = frozenset({"server_gib", "worker_cpus", "worker_gib"})
_WAYS = (Training.SYNCHRONOUS, Training.ASYNCHRONOUS)
_Row = Mapping[str, str]


def read_servers(path: str | Path) -> ServedTable:
    """The speeds in the file `path`; InputError names the row, or the workload, that is wrong."""
    rows = CsvRows(path, read_text(Path(path)))
    if not set(COLUMNS) <= set(rows.columns):
        raise InputError.at("has other columns", file=path, row=1, expected=", ".join(COLUMNS))
    rows.check_known((*COLUMNS, "training", *OPTIONAL))
    own: dict[str, list[tuple[int, _Row]]] = {}
    for number, row in rows:
        own.setdefault(row["workload"], []).append((number, row))
    if not own:
        raise InputError.at("there is no speed in it", file=path, expected="a row for each measurement")
    return {name: _served(path, name, measured) for name, measured in own.items()}


def _served(path: str | Path, name: str, rows: Sequence[tuple[int, _Row]]) -> Served:
    """The speed of one workload; what is the same for all its rows is that of the first."""
    facts = [_facts(path, number, row) for number, row in rows]
    number, training = rows[0][0], _training(path, *rows[0])
    for (other, row), fact in zip(rows, facts, strict=True):
        if _training(path, other, row) is not training or any(fact[key] != facts[0][key] for key in OPTIONAL):
            raise InputError.at(
                f"{name!r} has other units, another batch or another training in row {number}",
                file=path,
                row=other,
                expected="the same in all rows of a workload",
            )
    servers, workers, speeds = ([fact[key] for fact in facts] for key in COLUMNS[1:])
    first = facts[0]
    fitted = fit_speed(training, workers, speeds, servers, first["batch"])
    if fitted is None:
        raise InputError.at(
            f"{name!r} was measured on too few pairs of servers and workers",
            file=path,
            expected=f"{PARAMETERS[training]} different ones or more, for a fit",
        )
    server, worker = (Unit(first[f"{kind}_cpus"], first[f"{kind}_gib"]) for kind in ("server", "worker"))
    return Served(fitted, server, worker)


def _training(path: str | Path, number: int, row: _Row) -> Training:
    text = row.get("training") or Training.SYNCHRONOUS
    if text not in _WAYS:
        raise InputError.at(
            f"{text!r} is no way to train with servers", file=path, row=number, field="training",
            expected=" or ".join(_WAYS),
        )  # fmt: skip
    return Training(text)


def _facts(path: str | Path, number: int, row: _Row) -> dict[str, float]:
    """The numbers of a row, with defaults for columns left out."""
    facts = {key: _number(path, number, key, row[key]) for key in COLUMNS[1:]}
    for key, default in OPTIONAL.items():
        facts[key] = _number(path, number, key, row[key]) if row.get(key) else default
    return facts


def _number(path: str | Path, number: int, field: str, text: str | None) -> float:
    whole, zero = field in ("servers", "workers"), field in _MAY_BE_ZERO
    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    enough = value >= 0.0 if zero else value > 0.0
    if math.isfinite(value) and enough and (not whole or value % 1.0 == 0.0):
        return value
    expected = "a whole number above 0" if whole else "0 or more" if zero else "a number above 0"
    raise InputError.at(f"has {text!r}", file=path, row=number, field=field, expected=expected)


# -- sources -----------------------------------------------------------------------------------------


@provides(Knowledge.SERVERS, Provenance.USER, "speeds by servers and workers, from a file", argument="FILE")
def users_servers(setup: Setup, file: str) -> Provider | None:
    """The speeds in the named file; None if no file was named."""
    return UsersServers(read_servers(file), setup.jobs) if file else None


class UsersServers(Provides):
    """Speeds by workload, for jobs as they are submitted."""

    learns = True

    def __init__(self, served: ServedTable, jobs: JobTable) -> None:
        self._jobs = jobs
        self._code = {name: code for code, name in enumerate(served)}
        table = server_table(served, tuple(served), np.full(len(jobs), -1))
        self._class = table.by_row["class"]
        super().__init__(Knowledge.SERVERS, Provenance.USER, table)

    def attach(self, state: State) -> None:
        for row in range(state.submitted):
            self.submitted(row)

    def submitted(self, row: int) -> None:
        self._class[row] = self._code.get(self._jobs.name_of("workload", row), -1)


@provides(Knowledge.SERVERS, Provenance.ASSUMED, "no job trains with parameter servers")
def assumed_servers(setup: Setup) -> Provider:
    """No servers: the workers of every job reduce gradients among themselves."""
    return Given(
        Knowledge.SERVERS,
        server_table({}, setup.jobs.workload_names, setup.jobs.workload),
        Provenance.ASSUMED,
    )
