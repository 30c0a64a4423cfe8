"""Multifactor priority: a weighted sum of age, size, fair share and QOS, with EASY backfill.

Paper     none; Slurm's plugin priority/multifactor, as priority_multifactor.html of Slurm describes it
Decides   order, reservations
Needs     durations, for backfill: the user's, predicted or true ones
Idea      1. The priority of a waiting job is the sum of weights times factors between 0 and 1: *age*, its
             waiting time over `max_age_s`, at most 1; *size*, its GPUs over all of the cluster; *share*, 2 to
             the power of minus its tenant's part of all use over the tenant's part of the shares, where
             use halves every `half_life_s`; *priority*, its own over the largest of the waiting jobs.
          2. The highest comes first; equal ones in the order of submission.
          3. Waiting jobs are served as under `fifo:backfill=easy`: the first job of each partition that does
             not fit gets a reservation, and jobs that do not delay it pass it.
Departs   All tenants have equal shares, and are compared as leaves: no tree of accounts (fair tree).  Use is
          of GPUs alone.  There are no partition and association factors.  Priorities are computed at each
          decision, not every few minutes.
Checked   worked examples of systems/multifactor.md; decayed use against a naive sum over what was held;
          with weights of 0 it starts every job when `fifo:backfill=easy` does
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rota.knowledge.needs import Knowledge
from rota.model.columns import Floats, Ints
from rota.model.tenants import Between
from rota.scheduler.decision import Decision, Memory, Wake
from rota.scheduler.policy import Lever, register
from rota.scheduler.snapshot import Snapshot
from rota.stages.place import Placement
from rota.systems.fifo.backfill import EasyBackfill
from rota.systems.multifactor.usage import bring_up, held_by

WEEK_S = 604_800.0


@dataclass(frozen=True)
class MultifactorParameters:
    """Parameters of `multifactor`; the weights and times are those of slurm.conf."""

    age: float = 1000.0
    """Weight of what a job has waited (PriorityWeightAge)."""
    size: float = 0.0
    """Weight of the GPUs that it asks for (PriorityWeightJobSize); below 0 small jobs come first."""
    share: float = 10_000.0
    """Weight of fair share (PriorityWeightFairshare)."""
    priority: float = 100_000.0
    """Weight of the job's own priority, such as that of its QOS (PriorityWeightQOS)."""
    max_age_s: float = WEEK_S
    """Waiting beyond this does not count (PriorityMaxAge)."""
    half_life_s: float = WEEK_S
    """After this time past use counts half (PriorityDecayHalfLife)."""
    placement: Placement = Placement.CONSOLIDATE
    """Where on the cluster."""


@register(
    "multifactor",
    "Slurm's multifactor priority: age, size, fair share and QOS, with EASY backfill",
    needs=[Knowledge.DURATION],
    levers=[Lever.RESERVE],
    parameters=MultifactorParameters,
    heeds_priority=lambda p: p.priority > 0,
    between=lambda p: Between.EQUALLY if p.share > 0 else Between.NOTHING,
)
class Multifactor:
    """A weighted sum of factors, and EASY backfill."""

    def __init__(self, parameters: MultifactorParameters | None = None) -> None:
        self.parameters = parameters or MultifactorParameters()
        self.used: dict[str, float] = {}
        """Decayed use of each tenant at this decision."""
        self.inner = EasyBackfill(self.parameters.placement, self._order)

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        self.used = bring_up(memory, snapshot.now, self.parameters.half_life_s)
        decision = self.inner.decide(snapshot, memory)
        decision.wake = Wake()  # also where no job waits: use is counted from one decision to the next
        memory["holds"] = held_by(snapshot, [*snapshot.grants.values(), *decision.grants])
        return decision

    def _order(self, snapshot: Snapshot) -> Ints:
        rows = snapshot.waiting
        order: Ints = rows[np.argsort(-self._priority(snapshot, rows), kind="stable")]
        return order

    def _priority(self, snapshot: Snapshot, rows: Ints) -> Floats:
        """The sum of weights times factors of each of `rows` (n,)."""
        p, table = self.parameters, snapshot.jobs.table
        aged = np.minimum((snapshot.now - table.submit_s[rows]) / p.max_age_s, 1.0)
        sizes = table.gpus[rows] / max(snapshot.cluster.gpus, 1)
        own = np.maximum(table.priority[rows], 0)
        level = own / max(int(own.max(initial=0)), 1)
        total: Floats = (
            p.age * aged + p.size * sizes + p.share * self._shares(snapshot, rows) + p.priority * level
        )
        return total

    def _shares(self, snapshot: Snapshot, rows: Ints) -> Floats:
        """Fair-share factor of each of `rows`: 1 if its tenant used nothing, 0.5 if it used its share."""
        table, total = snapshot.jobs.table, sum(self.used.values())
        tenants = max(len(table.tenant_names), 1)
        if total <= 0.0:
            return np.ones(len(rows))
        factor = np.array(
            [0.5 ** (tenants * self.used.get(name, 0.0) / total) for name in table.tenant_names]
        )
        factors: Floats = factor[table.tenant[rows]]
        return factors
