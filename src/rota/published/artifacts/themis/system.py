"""Themis as the ElasticFlow repository has it: `themis@elasticflow`.

Paper     Mahajan et al., "Themis: Fair and Efficient GPU Cluster Scheduling", NSDI 2020
Decides   order, preemption
Needs     duration, speed
Idea      1. pkusys/ElasticFlow, `ElasticFlow/scheduler/` (`themis`), which took the program from Gavel.
          2. In each slot, the fraction of it that each job is to run makes the worst finish-time ratio least;
             jobs run in order of these fractions as far as GPUs suffice.  `slots.py` lists what differs.
Departs   The paper's auctions, leases and placement are not part of that code.
Checked   every job ends in the same second as there (docs/fidelity.md)
"""

from __future__ import annotations

from rota.knowledge.needs import Knowledge
from rota.published.artifacts.themis.slots import Slots
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.policy import Lever, register
from rota.scheduler.snapshot import Snapshot


@register(
    "themis@elasticflow",
    "The worst finish-time ratio as small as possible, slot by slot",
    paper="Themis, NSDI 2020",
    needs={Knowledge.DURATION, Knowledge.THROUGHPUT},
    levers={Lever.PREEMPT, Lever.MIGRATE},
    rotates=True,
)
class ThemisOfElasticFlow:
    """One linear program in each slot; no auctions."""

    def __init__(self) -> None:
        self.inner = Slots()

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        return self.inner.decide(snapshot, memory)
