"""Gandiva_fair — every tenant gets GPU time in proportion to its tickets, and trades fast GPUs for slow ones.

Paper     Chaudhary et al., "Balancing Efficiency and Fairness in Heterogeneous GPU Clusters for Deep
          Learning", EuroSys 2020
Decides   placement, turns, GPU type, migration; every job is admitted
Needs     throughput of each job on each GPU type, at the number of GPUs it asks for
Idea      1. A tenant's tickets entitle it to a share of the GPUs; what it cannot use goes to the others.
          2. On a server, jobs take turns by stride: a gang as a whole or not at all; a job that does not
             fit is passed without a charge.
          3. Jobs larger than a server take turns with servers: a central walk has an entry for each of
             them, and one for all small jobs of each server (split stride).
          4. Jobs migrate until every server has the same tickets per GPU.
          5. With several types every tenant is first due the same part of each.  Then the tenant that gains
             least from fast GPUs sells them to the one that gains most, for as many slow ones as the
             second-highest bidder would pay: both gain.
Departs   The paper was not at hand: systems/gandiva_fair.md lists what is ours, above all the price with one
          bidder and the constants.  A job is due no more than it can use, inside a server too, so that it
          does not fall behind.  Fast GPUs that no tenant is due are first exchanged for slow ones, one for
          one.  Tickets of a tenant that is short in the long run count up to twice as much.
          Jobs are placed on a type by what their tenant is due; a part of a GPU below half a job is not
          realised.  A gang that some servers can hold whole is not spread over others.
          Jobs are not packed (`gandiva` packs).  Turns in which a job makes no progress become longer.
Checked   systems/gandiva_fair.md, worked examples 1 to 9; no tenant loses by trading, as a property
"""

from __future__ import annotations

from rota.knowledge.needs import Knowledge
from rota.model.tenants import Between
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.policy import Lever, register
from rota.scheduler.snapshot import Snapshot
from rota.stages.grounds import Grounds
from rota.systems.gandiva_fair.decision import FairDecision, fresh
from rota.systems.gandiva_fair.parameters import GandivaFairParameters


@register(
    "gandiva_fair",
    "GPU time in proportion to tickets, GPU types traded",
    paper="EuroSys 2020",
    needs={Knowledge.THROUGHPUT: True},
    levers={Lever.PREEMPT: True, Lever.MIGRATE: True},
    parameters=GandivaFairParameters,
    rotates=True,
    between=Between.WEIGHTS,
)
class GandivaFair:
    """Proportional shares of GPU time."""

    def __init__(self, parameters: GandivaFairParameters | None = None) -> None:
        self.parameters = parameters or GandivaFairParameters()
        self._grounds: Grounds | None = None

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        memory = memory or fresh()
        return FairDecision(snapshot, self.parameters, memory, self._grounds_of(snapshot)).decide()

    def _grounds_of(self, snapshot: Snapshot) -> Grounds:
        """Possible places of jobs, computed once for each table."""
        grounds, jobs = self._grounds, snapshot.jobs.table
        if grounds is None or grounds.jobs is not jobs or grounds.cluster is not snapshot.cluster:
            grounds = self._grounds = Grounds(snapshot.cluster, jobs)
        return grounds
