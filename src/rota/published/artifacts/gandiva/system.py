"""Gandiva as the simulators of two later papers simplify it: `gandiva@tiresias` and `gandiva@elasticflow`.

Paper     Xiao et al., "Gandiva: Introspective Cluster Scheduling for Deep Learning", OSDI 2018
Decides   placement, turns
Needs     nothing about the future
Idea      1. `tiresias`: SymbioticLab/Tiresias, `simulator/`, scheme `gandiva`.
          2. `elasticflow`: pkusys/ElasticFlow, `ElasticFlow/scheduler/`, scheme `gandiva`, a copy of it.
          3. Nodes form sets by job size, resized at each step by demand; turns pass each minute.
Departs   No affinity of partly filled servers, no packing, no migration with measurement, no growing;
          `set_turns.py` lists what differs.
Checked   Tiresias' simulator (2,396 and 60 jobs) and ElasticFlow's (100, 195, 260 and 195 jobs): every job
          ends at the same second (docs/fidelity.md)
"""

from __future__ import annotations

from rota.published.artifacts.gandiva.set_turns import ELASTICFLOW_ORDER, TIRESIAS_ORDER, SetTurns
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.policy import Lever, register
from rota.scheduler.snapshot import Snapshot

PAPER = "OSDI 2018"


@register(
    "gandiva@tiresias",
    "Gandiva as the baseline in Tiresias' simulator carries it out",
    paper=PAPER,
    levers={Lever.PREEMPT, Lever.MIGRATE},
    rotates=True,
)
class GandivaOfTiresias:
    """Turns in sets of nodes; steps that change no job's devices are left out."""

    def __init__(self) -> None:
        self.inner = SetTurns(TIRESIAS_ORDER, skips=True)

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        return self.inner.decide(snapshot, memory)


@register(
    "gandiva@elasticflow",
    "Gandiva as the baseline in ElasticFlow's simulator carries it out",
    paper=PAPER,
    levers={Lever.PREEMPT, Lever.MIGRATE},
    rotates=True,
)
class GandivaOfElasticFlow:
    """Turns in sets of nodes, each step asked for."""

    def __init__(self) -> None:
        self.inner = SetTurns(ELASTICFLOW_ORDER)

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        return self.inner.decide(snapshot, memory)
