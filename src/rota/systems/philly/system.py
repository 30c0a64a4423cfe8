"""Philly: gangs gathered close together, quotas that may be exceeded while GPUs are idle.

Paper     Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads",
          USENIX ATC 2019, section 2.3; constants as our card of the system gives them
Decides   order, placement, reservations, preemption
Needs     nothing about the future; `patience_per_h` (guideline 1) needs durations
Idea      1. Virtual clusters by used GPUs over quota, least first; within one, order of arrival, skipping
             jobs that do not fit.
          2. An attempt fixes candidate nodes, holds what is free there, starts when the gang is complete;
             after 180 s it releases them and waits 120 s.  Every waiting job runs this cycle separately.
          3. After two failed attempts locality is relaxed: fewest nodes, one rack, anywhere.
          4. A quota may be exceeded while GPUs are idle.  Above 90 % use, a job within its quota takes GPUs
             back from the virtual cluster that is furthest above its own; a job that loses them and fits
             elsewhere moves there.
Departs   A job starts at the strictest level that the empty cluster could meet. A victim whose GPUs turn
          out not to be needed is spared, and no job is preempted at the moment of its start; virtual
          clusters with equal use of their quota go by name. Of the guidelines these are here: waiting longer
          for locality (`patience_per_h`), starting spread and moving together (`migrate`), and dedicated
          nodes (`dedicated`; with `migrate` cleared of jobs of one GPU). The world does retries under any
          policy: blind, or by class of failure with back-off, given up at the third equal failure or where
          it persisted for others (`rota simulate --retries adaptive`; live by its classifier). The pre-run
          pool is a policy around this one (`prerun`). The policy sleeps through attempts that cannot
          succeed: no suitable GPU is free, and no job may take any. Jobs submitted together pause together,
          so that GPUs idle in front of a queue, as in our card of the system. A fraction has a GPU to
          itself, a gang of fractions one GPU each. A job that a hard quota, cores or memory keep from
          starting holds nothing, and starts in its attempt once they allow it. Nodes that are lost or closed
          are no candidates and not part of the cluster (ours). The world slows jobs down beside others
          or spread wide (`--slowdowns`); the study's table of co-located servers is not built in.
Checked   systems/philly.md, worked examples 1 to 4; a generated month (docs/philly.md):
          strict locality raises the 90th percentile wait of jobs above 8 GPUs from 1.1 to 172 h, shortens
          their runs by 4.1 %; fragmentation is 0 to 3 % of waiting time where the study has 80 % of delays,
          and more with larger quotas
"""

from __future__ import annotations

from rota.knowledge.needs import Knowledge
from rota.model.tenants import Between
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.policy import Lever, register
from rota.scheduler.snapshot import Snapshot
from rota.systems.philly.parameters import PhillyParameters
from rota.systems.philly.run import PhillyRun


@register(
    "philly",
    "Quotas with borrowing, gangs gathered by reservation, locality relaxed by retries",
    paper="Jeon et al., ATC 2019",
    needs={Knowledge.DURATION: lambda p: p.patience_per_h > 0.0},
    levers={Lever.PREEMPT, Lever.MIGRATE, Lever.RESERVE},
    parameters=PhillyParameters,
    between=Between.QUOTAS,
)
class Philly:
    """Microsoft's production scheduler as its trace study describes it."""

    def __init__(self, parameters: PhillyParameters | None = None) -> None:
        self.parameters = parameters or PhillyParameters()
        self._run = PhillyRun(self.parameters)

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        return self._run.decide(snapshot, memory)
