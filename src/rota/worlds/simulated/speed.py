"""How fast a job works with what it holds.

A speed model returns a rate, the progress at which it changes and the moment at which it does, so that
between two events every rate is constant.  Work is counted in the model's unit: seconds at the requested
allocation here.  A model that counts anything else has an attribute `per_s`: the work of each job in such a
second, NaN for a job whose rate there varies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Protocol

from rota.knowledge.needs import Knowledge, Provenance, Provider
from rota.knowledge.scaling import linear_scaling
from rota.knowledge.throughput import uniform_throughput
from rota.model.cluster import Cluster
from rota.model.columns import Floats
from rota.model.grants import Grant
from rota.model.jobs import JobTable
from rota.model.trace import Trace
from rota.worlds.simulated.pace import At, Pace
from rota.worlds.simulated.slowdowns import Efficiency, Slowdowns


class SpeedModel(Protocol):
    """Rate of a job, given what it holds and which jobs are beside it."""

    def total(self, trace: Trace) -> Floats:
        """Work each job has to do."""
        ...

    def pace(self, row: int, grant: Grant, beside: Sequence[Grant], at: At) -> Pace:
        """Rate of `row` on `grant` with the grants `beside` it on its devices, from `at` on."""
        ...


class FixedDuration:
    """Jobs take the time the trace says at the GPUs they asked for.

    Given other numbers of GPUs, elastic jobs speed up in proportion; a job given less of a device than it
    asked for slows down in proportion.
    """

    def __init__(self, jobs: JobTable, cluster: Cluster, slowdowns: Slowdowns | None = None) -> None:
        self.jobs = jobs
        self.cluster = cluster
        self.slowdowns = slowdowns or Slowdowns()
        self.efficiency = Efficiency(jobs, cluster, self.slowdowns)

    @cached_property
    def knowledge(self) -> Mapping[Knowledge, Provider]:
        """What this world is made of.  That speed depends on GPUs alone is assumed, not measured."""
        return {
            **self.efficiency.knowledge,
            Knowledge.THROUGHPUT: uniform_throughput(self.jobs, self.cluster, Provenance.ASSUMED),
            Knowledge.SCALING: linear_scaling(self.jobs, self.cluster, Provenance.ASSUMED),
        }

    def total(self, trace: Trace) -> Floats:
        return trace.truth.duration_s

    def pace(self, row: int, grant: Grant, beside: Sequence[Grant], at: At) -> Pace:
        asked = self.jobs.gpus.item(row)
        if not asked:
            return Pace(1.0)
        factor, _, until_s = self.efficiency.of(row, grant, beside, at)
        return Pace(len(grant.devices) / asked * factor, until_s=until_s)
