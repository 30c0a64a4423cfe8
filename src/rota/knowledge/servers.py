"""Jobs with parameter servers: how fast they are by workers, on GPUs, and servers, on CPUs.

A worker holds one GPU and some CPU and memory, a server CPU and memory alone.  A grant says how many servers
there are by its CPUs: as many as these leave room for beside its workers (Optimus, EuroSys 2018).

A policy receives a table (`server_table`), which `served_of` reads back: by row `class`, -1 for a job without
servers; shared `t` [class, 5] (0 for the fifth of asynchronous training), `batch` and `asynchronous` [class],
and `units` [class, 4], the CPUs and GiB of a server and of a worker.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rota.knowledge.needs import Table
from rota.knowledge.step_speed import PARAMETERS, StepSpeed, Training
from rota.model.columns import Ints
from rota.model.grants import Grant
from rota.model.jobs import JobTable

_WHOLE = 1e-6
"""A number of servers that is this little below a whole one counts as whole."""


@dataclass(frozen=True)
class Unit:
    """What one server takes of its node, or one worker beside its GPU."""

    cpus: float = 1.0
    gib: float = 0.0


@dataclass(frozen=True)
class Served:
    """The speed of a workload that trains with parameter servers."""

    speed: StepSpeed
    server: Unit = Unit()
    worker: Unit = Unit()

    def at(self, servers: int, workers: int) -> float:
        """Steps per second."""
        return self.speed.at(workers, servers)

    def asked(self, jobs: JobTable, row: int) -> int:
        """Servers that the CPUs asked for have room for; as many as workers of a job that asks for none."""
        workers, cpus = jobs.gpus.item(row), jobs.cpus.item(row)
        return self.beside(workers, cpus) if cpus else workers

    def granted(self, jobs: JobTable, grant: Grant) -> int:
        """Servers of `grant`; where it leaves CPUs to the job, in proportion to its GPUs."""
        workers, row = len(grant.devices), grant.job
        if not math.isnan(grant.cpus):
            return self.beside(workers, grant.cpus)
        cpus = jobs.cpus.item(row) * workers / jobs.gpus.item(row)
        return self.beside(workers, cpus) if cpus else workers

    def beside(self, workers: int, cpus: float) -> int:
        """Servers for which `cpus` have room beside `workers` workers: one at least, or nothing could run."""
        return max(math.floor((cpus - workers * self.worker.cpus) / self.server.cpus + _WHOLE), 1)

    def cpus(self, servers: int, workers: int) -> float:
        """CPUs of `servers` servers and `workers` workers."""
        return servers * self.server.cpus + workers * self.worker.cpus

    def gib(self, servers: int, workers: int) -> float:
        """GiB of host memory of `servers` servers and `workers` workers."""
        return servers * self.server.gib + workers * self.worker.gib

    def factor(self, jobs: JobTable, grant: Grant) -> float:
        """Rate under `grant`, relative to what is in proportion to GPUs from the request on."""
        row, workers = grant.job, len(grant.devices)
        asked = jobs.gpus.item(row)
        here, there = self.at(self.granted(jobs, grant), workers), self.at(self.asked(jobs, row), asked)
        return here / there * asked / workers


ServedTable = Mapping[str, Served]
"""Workload -> its speed; workloads without an entry have no servers."""


def server_table(served: ServedTable, workloads: Sequence[str], of_row: Ints) -> Table:
    """The table of `served`; `of_row` are codes of `workloads`, -1 for none."""
    known = {name: i for i, name in enumerate(name for name in workloads if name in served)}
    classes = np.array([*(known.get(name, -1) for name in workloads), -1])
    each = [served[name] for name in known]
    t = [(*one.speed.t, 0.0)[: PARAMETERS[Training.SYNCHRONOUS]] for one in each]
    units = [(one.server.cpus, one.server.gib, one.worker.cpus, one.worker.gib) for one in each]
    shared = {
        "t": np.array(t).reshape(-1, PARAMETERS[Training.SYNCHRONOUS]),
        "batch": np.array([one.speed.batch for one in each]),
        "asynchronous": np.array([one.speed.training is Training.ASYNCHRONOUS for one in each], dtype=bool),
        "units": np.array(units).reshape(-1, 4),
    }
    return Table({"class": classes[of_row]}, shared)


def served_of(table: Table) -> list[Served]:
    """The speed of each class of `table`."""
    columns = (table.shared[name].tolist() for name in ("t", "batch", "asynchronous", "units"))
    return [
        Served(_speed(t, batch, asynchronous), Unit(*units[:2]), Unit(*units[2:]))
        for t, batch, asynchronous, units in zip(*columns, strict=True)
    ]


def _speed(t: Sequence[float], batch: float, asynchronous: bool) -> StepSpeed:
    training = Training.ASYNCHRONOUS if asynchronous else Training.SYNCHRONOUS
    return StepSpeed(training, tuple(t[: PARAMETERS[training]]), batch)
