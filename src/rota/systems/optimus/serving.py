"""Workers and parameter servers of jobs, handed out together, and the CPUs they take."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from rota.knowledge.needs import Table
from rota.knowledge.servers import Served, served_of
from rota.model.columns import Floats
from rota.model.gpu_counts import feasible_counts
from rota.model.grants import Grant, with_one_nan
from rota.model.jobs import JobTable
from rota.scheduler.snapshot import Snapshot
from rota.solvers.marginal import WORKER, Demand, TrainingJob, hand_out
from rota.stages.feeding import FeedingFitter
from rota.stages.fit import Fitter
from rota.stages.place import Place
from rota.stages.quota_caps import caps_of
from rota.stages.sizing import Sizing
from rota.table.occupancy import Occupancy


@dataclass(frozen=True)
class ServedJobs:
    """The jobs of one decision that have parameter servers, and how many each is to have."""

    jobs: JobTable
    of: Mapping[int, Served] = field(default_factory=dict)
    """The served jobs by row."""
    units: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Servers and workers by row."""

    def servers(self, row: int, workers: int) -> int:
        """Servers for this many workers: fewer, in proportion, where workers are fewer than was meant."""
        most, among = self.units[row]
        return max(round(most * workers / among), 1)

    def limits(self, row: int, workers: int) -> tuple[float, float]:
        """CPUs and GiB of this many workers with their servers."""
        servers = self.servers(row, workers)
        return self.of[row].cpus(servers, workers), self.of[row].gib(servers, workers)

    def limited(self, grant: Grant) -> Grant:
        """`grant` with the CPUs and the memory of its workers and servers."""
        if grant.job not in self.units:
            return grant
        cpus, gib = self.limits(grant.job, len(grant.devices))
        return with_one_nan(grant._replace(cpus=cpus, memory_gib=gib or math.nan))

    def keep(self, held: Grant) -> int:
        """The GPUs of `held`; it keeps its servers as well."""
        workers = len(held.devices)
        if held.job in self.units:
            self.units[held.job] = self.of[held.job].granted(self.jobs, held), workers
        return workers


def served_rows(table: Table, rows: Sequence[int]) -> dict[int, Served]:
    """The speeds of `rows` that have parameter servers."""
    classes = table.by_row["class"]
    served = served_of(table)
    return {row: served[classes.item(row)] for row in rows if classes.item(row) >= 0}


def hand_out_both(
    snapshot: Snapshot,
    sizing: Sizing,
    serving: ServedJobs,
    curves: Sequence[Sequence[float]],
    left_s: Floats,
    worth: Floats,
) -> list[int]:
    """Workers of each job of `sizing`; the servers go to `serving`.

    `curves` are rates by number of GPUs of jobs without servers, `left_s` seconds left at the request and
    `worth` the weight of what a job saves.
    """
    capacity = _capacity(snapshot, sizing)
    most = float(sizing.most) if "cpu" not in capacity else math.inf
    among = [
        _served(serving, row, counts, left, most) if row in serving.of
        else _alone(serving.jobs, row, counts, left, curve)
        for row, counts, left, curve in zip(
            sizing.rows.tolist(), sizing.counts, (left_s * worth).tolist(), curves, strict=True
        )
    ]  # fmt: skip
    units = hand_out(among, capacity, caps=caps_of(snapshot, sizing.rows))
    for row, (servers, workers) in zip(sizing.rows.tolist(), units.of, strict=True):
        if workers and row in serving.of:
            serving.units[row] = servers, workers
    return [held[WORKER] for held in units.of]


def seconds_at(serving: ServedJobs, row: int, servers: int, workers: int) -> float:
    """Time for a second of work at the request with these numbers of both."""
    served, jobs = serving.of[row], serving.jobs
    asked = served.at(served.asked(jobs, row), jobs.gpus.item(row))
    return asked / served.at(servers, workers)


def _served(
    serving: ServedJobs, row: int, counts: Sequence[int], left_s: float, most_servers: float
) -> TrainingJob:
    served = serving.of[row]
    return TrainingJob(
        left_s,
        lambda servers, workers: 1.0 / seconds_at(serving, row, servers, workers),
        server={"cpu": served.server.cpus, "gib": served.server.gib},
        worker={"gpu": 1.0, "cpu": served.worker.cpus, "gib": served.worker.gib},
        most=(most_servers, math.inf),
        counts=counts,
    )


def _alone(
    jobs: JobTable, row: int, counts: Sequence[int], left_s: float, curve: Sequence[float]
) -> TrainingJob:
    """A job whose workers reduce gradients among themselves: it has one server, which takes nothing."""
    asked = jobs.gpus.item(row)
    cpus, gib = jobs.cpus.item(row) / asked, jobs.memory_gib.item(row) / asked
    speed: Callable[[int, int], float] = lambda _, workers: curve[workers]  # noqa: E731
    worker: Demand = {"gpu": 1.0, "cpu": cpus, "gib": gib}
    return TrainingJob(left_s, speed, server={}, worker=worker, most=(1.0, math.inf), counts=counts)


def _capacity(snapshot: Snapshot, sizing: Sizing) -> Demand:
    """Capacity to hand out of limited resources: healthy ones less what other jobs hold."""
    cluster, occupancy = snapshot.cluster, snapshot.occupancy
    up = [node for node in range(cluster.nodes) if node not in occupancy.down_nodes]
    own_cpus = own_gib = 0.0
    among = set(sizing.rows.tolist())
    for row, grant in snapshot.grants.items():
        if row in among:
            for node, cpus, gib in occupancy.needs(grant):
                if node not in occupancy.down_nodes:
                    own_cpus, own_gib = own_cpus + cpus, own_gib + gib
    capacity = {"gpu": float(sizing.gpus)}
    for name, of_nodes, used, own in (
        ("cpu", cluster.node_cpus, occupancy.cpus_used, own_cpus),
        ("gib", cluster.node_memory_gib, occupancy.memory_used, own_gib),
    ):
        if of_nodes[up].all():  # a node without a number has as much as any job asks for
            capacity[name] = float(of_nodes[up].sum()) - sum(used[node] for node in up) + own
    return capacity


class ServingFitter(FeedingFitter):
    """Places jobs with the CPUs and the memory of their servers, which lie where their workers lie.

    Where they find no place there are fewer servers: as many as workers, and with the least workers
    that a job can have one at last.
    """

    def __init__(self, snapshot: Snapshot, place: Place, serving: ServedJobs) -> None:
        super().__init__(snapshot, place)
        self.serving = serving

    def on_type(self, scratch: Occupancy, row: int, type_code: int, gpus: int | None = None) -> Grant | None:
        if gpus is None or row not in self.serving.units:
            return super().on_type(scratch, row, type_code, gpus)
        meant = self.serving.units[row]
        most = self.serving.servers(row, gpus)
        fewest = 1 if gpus <= feasible_counts(self.jobs, row)[0] else min(most, gpus)
        for servers in range(most, fewest - 1, -1):
            self.serving.units[row] = servers, gpus
            grant = super().on_type(scratch, row, type_code, gpus)
            if grant is not None:
                return self.serving.limited(grant)
        self.serving.units[row] = meant
        return None

    def _each(self, row: int, gpus: int) -> tuple[float, float]:
        if row not in self.serving.units:
            return super()._each(row, gpus)
        cpus, gib = self.serving.limits(row, gpus)
        return cpus / gpus, gib / gpus

    def asks_of_hosts(self, row: int) -> bool:
        return row in self.serving.units or super().asks_of_hosts(row)

    def _hosts(self, scratch: Occupancy, row: int, gpus: int, nodes: int = -1) -> int:
        if row in self.serving.units:  # what it takes depends on how many it gets: nothing to remember
            return Fitter._hosts(self, scratch, row, gpus, nodes)
        return super()._hosts(scratch, row, gpus, nodes)
