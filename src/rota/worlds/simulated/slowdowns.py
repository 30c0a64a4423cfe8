"""What placement, company and host leave of a job's full speed, whatever its full speed is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rota.errors import InputError
from rota.knowledge.given import Given
from rota.knowledge.hosts import HostSpeeds, HostTable, host_share, host_table, speeds_of
from rota.knowledge.needs import Knowledge, Provider
from rota.knowledge.placement import NODE, ByWorkload, Closeness, levels_of, placement_table
from rota.knowledge.servers import Served, ServedTable, served_of, server_table
from rota.model.cluster import Cluster
from rota.model.columns import Floats, read_only
from rota.model.grants import Grant, Role
from rota.model.jobs import JobTable
from rota.worlds.simulated.interference import Interference
from rota.worlds.simulated.pace import At, Pace
from rota.worlds.simulated.sharing import DeviceSharing, Neighbour

_FULL = Pace(1.0)


@dataclass(frozen=True)
class Slowdowns:
    """What placement, company and host cost; all factors multiply the rate."""

    spread: ByWorkload = field(default_factory=dict)
    """Rate of a workload on more nodes than it needs, relative to the fewest."""
    levels: Mapping[str, ByWorkload] = field(default_factory=dict)
    """Slowdown by level of the cluster, above its nodes or inside them: on more racks, or sockets, than a job
    needs; the widest such level counts."""
    colocation: float = 1.0
    """Rate of a packed job relative to its share of the device, for each job beside it."""
    company: Interference | None = None
    """How workloads slow each other down; None leaves it to `colocation`."""
    sharing: DeviceSharing | None = None
    """How a device is split among jobs with a claim on it and jobs without; None keeps to the shares."""
    hosts: HostTable = field(default_factory=dict)
    """Speeds by CPU cores and memory for each GPU; workloads without an entry do not depend on them."""
    servers: ServedTable = field(default_factory=dict)
    """Speeds by parameter servers and workers; workloads without an entry have no servers."""

    @property
    def none(self) -> bool:
        return self == Slowdowns()


class Efficiency:
    """Evaluates slowdowns for the jobs of a trace on a cluster."""

    def __init__(
        self,
        jobs: JobTable,
        cluster: Cluster,
        slowdowns: Slowdowns,
        told: Mapping[Knowledge, Any] | None = None,
    ) -> None:
        """`told` is what policies know of any kind in `SLOWING`, in place of what `slowdowns` say."""
        self.jobs = jobs
        self.slowdowns = slowdowns
        _check_levels(slowdowns, cluster)
        values = {**_stated(jobs, cluster, slowdowns), **(told or {})}
        self.knowledge: Mapping[Knowledge, Provider] = {
            kind: Given(kind, value) for kind, value in values.items() if kind in SLOWING
        }
        """What policies may know of it; kinds that nothing was stated about are left out."""
        self.use: Floats = values.get(Knowledge.UTILISATION, np.ones(len(jobs)))
        """Part of its devices that each job keeps busy alone: all, unless stated otherwise."""
        self._by_use = Knowledge.UTILISATION in (told or {})
        self._closeness: Closeness | None = None
        self._hosts: list[HostSpeeds | None] = []
        if Knowledge.PLACEMENT in values:
            self._closeness = Closeness(cluster, values[Knowledge.PLACEMENT].shared["rates"])
            self._class: list[int] = values[Knowledge.PLACEMENT].by_row["class"].tolist()
        if Knowledge.HOSTS in values:
            speeds = [*speeds_of(values[Knowledge.HOSTS]), None]  # the last is for jobs that do not mind, -1
            self._hosts = [speeds[number] for number in values[Knowledge.HOSTS].by_row["class"].tolist()]
        self._served: list[Served | None] = []
        if Knowledge.SERVERS in values:
            served = [*served_of(values[Knowledge.SERVERS]), None]  # the last is of those without servers, -1
            self._served = [served[number] for number in values[Knowledge.SERVERS].by_row["class"].tolist()]
        self.places = bool(self._closeness or self._hosts or self._served)
        """True if the speed depends on where a job is placed."""

    def of(self, row: int, grant: Grant, beside: Sequence[Grant], at: At) -> Pace:
        """The part of the rate on as many whole GPUs that is left, in [0, 1], and until when."""
        pace = _FULL
        if grant.role is not Role.ALONE or grant.share != 1.0:
            pace = self._shared(row, grant, beside, at)
        return pace._replace(rate=pace.rate * self.placed(row, grant)) if self.places else pace

    def placed(self, row: int, grant: Grant) -> float:
        """What placement, host and parameter servers alone leave of it."""
        factor = 1.0
        if self._closeness is not None and len(grant.devices) > 1:
            factor *= self._closeness.factor(self._class[row], grant.devices)
        speeds = self._hosts[row] if self._hosts else None
        if speeds is not None and grant.devices:
            factor *= speeds.speed(*host_share(self.jobs, grant))
        served = self._served[row] if self._served else None
        if served is not None and grant.devices:
            factor *= served.factor(self.jobs, grant)
        return factor

    # -- company -----------------------------------------------------------------------------------

    def _shared(self, row: int, grant: Grant, beside: Sequence[Grant], at: At) -> Pace:
        """A claim of the share asked for is full speed; opportunistic jobs get what others leave."""
        if self.slowdowns.sharing is not None and grant.role in (Role.GUARANTEED, Role.OPPORTUNISTIC):
            return self._divided(self.slowdowns.sharing, grant, beside, at)
        if grant.role is Role.OPPORTUNISTIC:
            return Pace(min(_left(grant, device, beside) for device in grant.devices))
        rate = min(1.0, grant.share / self.jobs.gpu_share.item(row))
        if grant.role is not Role.PACKED:
            return Pace(rate)
        return Pace(min(self._packed(row, rate, others) for others in companies(grant, beside)))

    def _packed(self, row: int, rate: float, beside: Sequence[Grant]) -> float:
        """The rate of a job whose claim is good for `rate`, beside others on one device."""
        measured = self._measured(row, beside)
        return rate * self.slowdowns.colocation ** len(beside) if measured is None else measured

    def _measured(self, row: int, beside: Sequence[Grant]) -> float | None:
        """The measured rate of this workload beside the others."""
        if self._by_use and beside:
            asked = self.use.item(row) + sum(self.use.item(other.job) for other in beside)
            return Interference().of_use(asked)
        if self.slowdowns.company is None:
            return None
        others = [self.jobs.name_of("workload", other.job) for other in beside]
        return self.slowdowns.company.rate(self.jobs.name_of("workload", row), others)

    def _divided(self, sharing: DeviceSharing, grant: Grant, beside: Sequence[Grant], at: At) -> Pace:
        """The rate on the device where the job gets least, which sets the pace; any device may end it."""
        paces = [
            sharing.pace(
                grant.role,
                [Neighbour(other.role, self.use.item(other.job)) for other in _on(device, grant, beside)],
                at,
            )
            for device in grant.devices
        ]
        return Pace(min(pace.rate for pace in paces), until_s=min(pace.until_s for pace in paces))


SLOWING = frozenset({Knowledge.UTILISATION, Knowledge.PLACEMENT, Knowledge.HOSTS, Knowledge.SERVERS})
"""Kinds of knowledge that slow a job down, whatever its full speed is."""


def _check_levels(slowdowns: Slowdowns, cluster: Cluster) -> None:
    known = levels_of(cluster)
    unknown = next((level for level in slowdowns.levels if level not in known), None)
    if unknown is not None:
        raise InputError.at(
            f"{unknown!r} is no level of the cluster", field="--slowdowns", expected=", ".join(known)
        )


def _stated(jobs: JobTable, cluster: Cluster, slowdowns: Slowdowns) -> dict[Knowledge, Any]:
    """What `slowdowns` say of these jobs, in the form that policies receive."""
    stated: dict[Knowledge, Any] = {}
    if slowdowns.company is not None:
        stated[Knowledge.UTILISATION] = _use(jobs, slowdowns.company)
    if slowdowns.levels or slowdowns.spread:
        factors = {NODE: slowdowns.spread, **slowdowns.levels}
        stated[Knowledge.PLACEMENT] = placement_table(cluster, factors, jobs.workload_names, jobs.workload)
    if slowdowns.hosts:
        stated[Knowledge.HOSTS] = host_table(slowdowns.hosts, jobs.workload_names, jobs.workload)
    if slowdowns.servers:
        stated[Knowledge.SERVERS] = server_table(slowdowns.servers, jobs.workload_names, jobs.workload)
    return stated


def _use(jobs: JobTable, company: Interference) -> Floats:
    """Part of its devices that each job keeps busy alone."""
    of_workload = np.array([*(company.utilisation_of(name) for name in jobs.workload_names), 1.0])
    use = of_workload[jobs.workload] if jobs.workload_names else np.ones(len(jobs))
    return read_only(use)


def companies(grant: Grant, beside: Sequence[Grant]) -> Sequence[Sequence[Grant]]:
    """Grants in `beside` on each device of `grant`; on all devices at once if that makes no difference."""
    if len(beside) < 2 or len(grant.devices) < 2:
        return [beside]
    return [_on(device, grant, beside) for device in grant.devices]


def _on(device: int, grant: Grant, beside: Sequence[Grant]) -> Sequence[Grant]:
    """The grants in `beside` that are on this device of `grant`."""
    return beside if len(grant.devices) == 1 else [other for other in beside if device in other.devices]


def _left(grant: Grant, device: int, beside: Sequence[Grant]) -> float:
    """What the shares claimed of a device leave for each opportunistic job on it."""
    others = _on(device, grant, beside)
    left = 1.0 - sum(other.share for other in others if other.role is not Role.OPPORTUNISTIC)
    return max(left, 0.0) / (1 + sum(other.role is Role.OPPORTUNISTIC for other in others))
