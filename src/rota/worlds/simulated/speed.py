"""How fast a job works with what it holds.

A speed model returns a rate, the progress at which it changes and the moment at which it does, so that
between two events every rate is constant.  Work is counted in the model's unit: seconds at the requested
allocation here.  A model that counts anything else has an attribute `per_s`: the work of each job in such a
second, NaN for a job whose rate there is not always the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from rota.knowledge.given import Given
from rota.knowledge.needs import Knowledge, Provider
from rota.knowledge.scaling import linear_scaling
from rota.knowledge.throughput import uniform_throughput
from rota.model.cluster import Cluster
from rota.model.columns import Floats, read_only
from rota.model.grants import Grant, Role
from rota.model.jobs import JobTable
from rota.model.trace import Trace
from rota.worlds.simulated.interference import Interference


class Pace(NamedTuple):
    """Work per second, and what ends it, whichever comes first; infinite for what does not."""

    rate: float
    until_work: float = math.inf
    """The work done at which the rate changes."""
    until_s: float = math.inf
    """The moment at which it changes, after now; a job at rate 0 works again only then."""


class At(NamedTuple):
    """Where a job is when its rate is asked for."""

    done: float
    """Work it has done."""
    now: float
    company_s: float
    """Moment since which these neighbours, or nobody, have been beside it on these devices."""


class SpeedModel(Protocol):
    """Rate of a job, given what it holds and who is beside it."""

    def total(self, trace: Trace) -> Floats:
        """Work each job has to do."""
        ...

    def pace(self, row: int, grant: Grant, beside: Sequence[Grant], at: At) -> Pace:
        """Rate of `row` on `grant` with the grants `beside` it on its devices, from `at` on."""
        ...


@dataclass(frozen=True)
class Slowdowns:
    """What placement and company cost; all factors multiply the rate."""

    spread: Mapping[str, float] = field(default_factory=dict)
    """Rate of a workload on more nodes than it needs, relative to the fewest; `*` for all others."""
    colocation: float = 1.0
    """Rate of a packed job relative to its share of the device, for each job beside it."""
    company: Interference | None = None
    """How workloads bear each other; None leaves it to `colocation`."""

    @property
    def none(self) -> bool:
        return not self.spread and self.colocation == 1.0 and self.company is None


class FixedDuration:
    """Jobs take the time the trace says at the GPUs they asked for.

    Given other numbers of GPUs, elastic jobs speed up in proportion; a job given less of a device than it
    asked for slows down in proportion.
    """

    def __init__(self, jobs: JobTable, cluster: Cluster, slowdowns: Slowdowns | None = None) -> None:
        self.jobs = jobs
        self.cluster = cluster
        self.slowdowns = slowdowns or Slowdowns()
        self._node_of: list[int] = cluster.device_node.tolist()
        self._largest_node = int(cluster.node_gpus.max())

    def total(self, trace: Trace) -> Floats:
        return trace.truth.duration_s

    def pace(self, row: int, grant: Grant, beside: Sequence[Grant], at: At) -> Pace:
        asked = self.jobs.gpus.item(row)
        if not asked:
            return Pace(1.0)
        return Pace(len(grant.devices) / asked * self.efficiency(row, grant, beside))

    def efficiency(self, row: int, grant: Grant, beside: Sequence[Grant]) -> float:
        """What share, company and placement leave of the rate on as many whole GPUs, in [0, 1]."""
        factor = 1.0
        if grant.role is not Role.ALONE or grant.share != 1.0:
            factor *= self._shared(row, grant, beside)
        if self.slowdowns.spread and len(grant.devices) > 1:
            factor *= self._spread(row, grant)
        return factor

    def _shared(self, row: int, grant: Grant, beside: Sequence[Grant]) -> float:
        """A claim of the share asked for is full speed; opportunistic jobs get what others leave."""
        if grant.role is Role.OPPORTUNISTIC:
            left = 1.0 - sum(g.share for g in beside if g.role is not Role.OPPORTUNISTIC)
            peers = 1 + sum(g.role is Role.OPPORTUNISTIC for g in beside)
            return max(left, 0.0) / peers
        rate = min(1.0, grant.share / self.jobs.gpu_share.item(row))
        if grant.role is Role.PACKED:
            workload = self.jobs.name_of("workload", row)
            others = [self.jobs.name_of("workload", other.job) for other in beside]
            measured = self.slowdowns.company.rate(workload, others) if self.slowdowns.company else None
            if measured is not None:
                return measured
            rate *= self.slowdowns.colocation ** len(beside)
        return rate

    @cached_property
    def knowledge(self) -> Mapping[Knowledge, Provider]:
        """What this world is made of; nothing about utilisation where nobody has said anything."""
        own: dict[Knowledge, Provider] = {
            Knowledge.THROUGHPUT: uniform_throughput(self.jobs, self.cluster),
            Knowledge.SCALING: linear_scaling(self.jobs, self.cluster),
        }
        company = self.slowdowns.company
        if company is not None:
            of_workload = np.array([*map(company.utilisation_of, self.jobs.workload_names), 1.0])
            use = of_workload[self.jobs.workload] if self.jobs.workload_names else np.ones(len(self.jobs))
            own[Knowledge.UTILISATION] = Given(Knowledge.UTILISATION, read_only(use))
        return own

    def _spread(self, row: int, grant: Grant) -> float:
        nodes = len({self._node_of[device] for device in grant.devices})
        fewest = -(-len(grant.devices) // self._largest_node)
        if nodes <= fewest:
            return 1.0
        spread = self.slowdowns.spread
        return spread.get(self.jobs.name_of("workload", row), spread.get("*", 1.0))
