"""What placement, company and host leave of a job's full speed, whatever its full speed is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from rota.errors import InputError
from rota.knowledge.given import Given
from rota.knowledge.hosts import HostTable
from rota.knowledge.needs import Knowledge, Provider
from rota.model.cluster import Cluster
from rota.model.columns import Floats, Ints, read_only
from rota.model.grants import Grant, Role
from rota.model.jobs import JobTable
from rota.worlds.simulated.interference import Interference
from rota.worlds.simulated.pace import At, Pace
from rota.worlds.simulated.sharing import DeviceSharing, Neighbour

ByWorkload = Mapping[str, float]
"""A factor for each workload; `*` for all others."""
_FULL = Pace(1.0)


@dataclass(frozen=True)
class Slowdowns:
    """What placement, company and host cost; all factors multiply the rate."""

    spread: ByWorkload = field(default_factory=dict)
    """Rate of a workload on more nodes than it needs, relative to the fewest."""
    levels: Mapping[str, ByWorkload] = field(default_factory=dict)
    """The same by level of the cluster: on more racks than it needs; the widest level that is left counts."""
    colocation: float = 1.0
    """Rate of a packed job relative to its share of the device, for each job beside it."""
    company: Interference | None = None
    """How workloads bear each other; None leaves it to `colocation`."""
    sharing: DeviceSharing | None = None
    """Who gets what of a device on which some have a claim and others none; None keeps to the shares."""
    hosts: HostTable = field(default_factory=dict)
    """Speeds by CPU cores and memory for each GPU; workloads without an entry do not mind."""

    @property
    def none(self) -> bool:
        return self == Slowdowns()


class Efficiency:
    """Evaluates slowdowns for the jobs of a trace on a cluster."""

    def __init__(self, jobs: JobTable, cluster: Cluster, slowdowns: Slowdowns) -> None:
        self.jobs = jobs
        self.slowdowns = slowdowns
        unknown = next((level for level in slowdowns.levels if level not in cluster.levels), None)
        if unknown is not None:
            known = ", ".join(cluster.levels) or "none: the cluster names no levels above its nodes"
            raise InputError.at(
                f"{unknown!r} is no level of the cluster", field="--slowdowns", expected=known
            )
        self._levels = [
            _Level(cluster.levels[level][cluster.device_node], slowdowns.levels[level])
            for level in cluster.levels
            if level in slowdowns.levels
        ]
        if slowdowns.spread:
            self._levels.append(_Level(cluster.device_node, slowdowns.spread))
        self._places = bool(self._levels or slowdowns.hosts)

    def of(self, row: int, grant: Grant, beside: Sequence[Grant], at: At) -> Pace:
        """What is left of the rate on as many whole GPUs, in [0, 1], and until when."""
        pace = _FULL
        if grant.role is not Role.ALONE or grant.share != 1.0:
            pace = self._shared(row, grant, beside, at)
        return pace._replace(rate=pace.rate * self.placed(row, grant)) if self._places else pace

    def placed(self, row: int, grant: Grant) -> float:
        """What placement and host alone leave of it."""
        factor = 1.0
        if self._levels and len(grant.devices) > 1:
            factor *= self._spread(row, grant)
        if self.slowdowns.hosts:
            factor *= self._hosted(row)
        return factor

    # -- company -----------------------------------------------------------------------------------

    def _shared(self, row: int, grant: Grant, beside: Sequence[Grant], at: At) -> Pace:
        """A claim of the share asked for is full speed; opportunistic jobs get what others leave."""
        if self.slowdowns.sharing is not None and grant.role in (Role.GUARANTEED, Role.OPPORTUNISTIC):
            return self._divided(self.slowdowns.sharing, grant, beside, at)
        if grant.role is Role.OPPORTUNISTIC:
            return Pace(min(_left(grant, device, beside) for device in grant.devices))
        rate = min(1.0, grant.share / self.jobs.gpu_share.item(row))
        if grant.role is Role.PACKED:
            measured = self._measured(row, beside)
            if measured is not None:
                return Pace(measured)
            rate *= self.slowdowns.colocation ** len(beside)
        return Pace(rate)

    def _measured(self, row: int, beside: Sequence[Grant]) -> float | None:
        """What is known of this workload beside the others."""
        if self.slowdowns.company is None:
            return None
        others = [self.jobs.name_of("workload", other.job) for other in beside]
        return self.slowdowns.company.rate(self.jobs.name_of("workload", row), others)

    def _divided(self, sharing: DeviceSharing, grant: Grant, beside: Sequence[Grant], at: At) -> Pace:
        """The device on which it gets least sets the pace; it may change with any of them."""
        paces = [
            sharing.pace(
                grant.role,
                [Neighbour(other.role, self.use.item(other.job)) for other in _on(device, grant, beside)],
                at,
            )
            for device in grant.devices
        ]
        return Pace(min(pace.rate for pace in paces), until_s=min(pace.until_s for pace in paces))

    @cached_property
    def use(self) -> Floats:
        """Part of its devices that each job keeps busy alone: all, where nobody says otherwise."""
        company = self.slowdowns.company or Interference()
        of_workload = np.array([*(company.utilisation_of(name) for name in self.jobs.workload_names), 1.0])
        use = of_workload[self.jobs.workload] if self.jobs.workload_names else np.ones(len(self.jobs))
        return read_only(use)

    @cached_property
    def knowledge(self) -> Mapping[Knowledge, Provider]:
        """What policies may be told of it; nothing of utilisation where nobody has said anything."""
        if self.slowdowns.company is None:
            return {}
        return {Knowledge.UTILISATION: Given(Knowledge.UTILISATION, self.use)}

    # -- placement and host ------------------------------------------------------------------------

    def _spread(self, row: int, grant: Grant) -> float:
        workload = self.jobs.name_of("workload", row)
        for level in self._levels:
            factor = level.factor(workload)
            if factor is not None and level.is_left(grant.devices):
                return factor
        return 1.0

    def _hosted(self, row: int) -> float:
        """Speed with the cores and the memory it asked for; who asked for none has as much as it wants."""
        speeds = self.slowdowns.hosts.get(self.jobs.name_of("workload", row))
        gpus = self.jobs.gpus.item(row)
        if speeds is None or not gpus:
            return 1.0
        cpus, gib = self.jobs.cpus.item(row), self.jobs.memory_gib.item(row)
        return speeds.speed(cpus / gpus if cpus else math.inf, gib / gpus if gib else math.inf)


class _Level:
    """A level of the cluster, and what it costs to be on more of its units than needed."""

    def __init__(self, unit_of: Ints, factors: ByWorkload) -> None:
        self._unit_of: list[int] = unit_of.tolist()
        """Unit of each device."""
        self._largest = int(np.bincount(unit_of).max())
        self._factors = factors

    def factor(self, workload: str) -> float | None:
        return self._factors.get(workload, self._factors.get("*"))

    def is_left(self, devices: Sequence[int]) -> bool:
        """True if `devices` lie in more units than so many have to."""
        units = len({self._unit_of[device] for device in devices})
        return units > -(-len(devices) // self._largest)


def _on(device: int, grant: Grant, beside: Sequence[Grant]) -> Sequence[Grant]:
    """Those of `beside` who are on this device of `grant`."""
    return beside if len(grant.devices) == 1 else [other for other in beside if device in other.devices]


def _left(grant: Grant, device: int, beside: Sequence[Grant]) -> float:
    """What the shares claimed of a device leave for each opportunistic job on it."""
    others = _on(device, grant, beside)
    left = 1.0 - sum(other.share for other in others if other.role is not Role.OPPORTUNISTIC)
    return max(left, 0.0) / (1 + sum(other.role is Role.OPPORTUNISTIC for other in others))
