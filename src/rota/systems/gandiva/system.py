"""Gandiva — run all jobs in turns at once, and keep improving their placement by measured rates.

Paper     Xiao et al., "Gandiva: Introspective Cluster Scheduling for Deep Learning", OSDI 2018
Decides   placement, turns, packing, migration, number of GPUs; not which job is admitted first
Needs     nothing about the future; with `packing`, the utilisation of a GPU by each job alone
Idea      1. Servers specialise in one size of job, so that their GPUs divide among jobs without remainder.
          2. Jobs of a server with more jobs than GPUs take turns, a gang on all its GPUs at once: early
             feedback from all, instead of completion of one.
          3. Where jobs take turns, two that leave a GPU idle are put on it together.  Rates are measured:
             a pair that does less than in turns is parted, and not tried again.
          4. When a job leaves, others move to GPUs that fell free and nearly empty servers are cleared.  A
             job that is slower afterwards moves back, and so do gangs when a newcomer would have no home.
          5. Idle GPUs of a server go to its elastic jobs, until another job needs them.
Departs   The paper gives rules 1 and 4 in outline; the order of choices is that of systems/gandiva.md.
          Turns are equal, without weights.  Turns of several servers end together where that shortens none
          by more than half.  A job that keeps its GPUs fully busy is not tried beside others; memory leaves a
          tenth free (the card's), and a kept pair is judged in every turn.  No job is moved away from a
          neighbour that does not share its GPUs, and jobs sensitive to distance are moved like others.
          No job gets GPUs of several servers that would fit on one, so there is no move to restore
          locality; several servers become one home for a job that needs them, also for cores or memory.
          A server takes others in where hard quotas keep its jobs from running together (ours).
Checked   systems/gandiva.md, examples 1 to 7; a naive scheduler makes the same turns, pairs and moves in
          thousands of small random scenes
"""

from __future__ import annotations

from rota.knowledge.needs import Knowledge
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.policy import Lever, register
from rota.scheduler.snapshot import Cursor, Snapshot
from rota.stages.grounds import Grounds
from rota.systems.gandiva.derived import Derived
from rota.systems.gandiva.parameters import GandivaParameters
from rota.systems.gandiva.policy import GandivaDecision


@register(
    "gandiva",
    "Turns on oversubscribed servers, packing and migration by trial",
    paper="OSDI 2018",
    needs={Knowledge.UTILISATION: lambda p: p.packing},
    levers={
        Lever.PREEMPT: True,
        Lever.MIGRATE: True,
        Lever.SHARE: lambda p: p.packing,
        Lever.RESIZE: lambda p: p.grow,
    },
    parameters=GandivaParameters,
    rotates=True,
)
class Gandiva:
    """Introspective scheduling."""

    def __init__(self, parameters: GandivaParameters | None = None) -> None:
        self.parameters = parameters or GandivaParameters()
        self._cursor = Cursor()
        self._derived: Derived | None = None

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        derived = self._derived_of(snapshot, memory)
        changed = derived.news(snapshot, self._cursor)
        if derived is not self._derived:
            self._derived, changed = derived, None
        return GandivaDecision(snapshot, self.parameters, derived, changed).decide()

    def _derived_of(self, snapshot: Snapshot, memory: Memory) -> Derived:
        """The `Derived` of the last call, if it had the same memory and the same table; else a new one."""
        derived, jobs, cluster = self._derived, snapshot.jobs.table, snapshot.cluster
        grounds = None if derived is None else derived.grounds
        if grounds is None or grounds.jobs is not jobs or grounds.cluster is not cluster:
            grounds = Grounds(cluster, jobs)
        if derived is not None and derived.memory is memory and derived.grounds is grounds:
            return derived
        if not memory:
            memory.update(homes={}, home_of={}, down=[], gpus=[], alone={}, bad={}, moves={}, barred={})
        return Derived(memory, grounds, self.parameters.quantum)
