"""Partition: each unit of the cluster, such as a virtual cluster, is scheduled by a policy of its own.

Paper     Hu et al., "Characterization and Prediction of Deep Learning Workloads in Large-Scale GPU
          Datacenters" (Helios), SC 2021, section 2: virtual clusters with nodes of their own
Decides   nothing itself; hands each unit, its jobs and its nodes, to the inner policy
Needs     what the inner policy needs
Idea      1. The cluster is cut along a named level; a unit serves the tenants named after it.
          2. Units neither lend nor borrow: to its policy, a unit is the whole cluster.
Departs   a job that its unit could never hold is rejected; Helios would let it block the queue for ever
Checked   simulators of Helios and Lucid, 2,104 jobs in four virtual clusters: `sjf` and `srtf` end every
          job at the same second, `fifo` all but those behind pairs submitted in the same second
"""

from __future__ import annotations

from dataclasses import dataclass

from rota.knowledge.needs import Knowledge
from rota.policies.partition.parts import Partition
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.policy import Lever, parse_inner, register
from rota.scheduler.snapshot import Snapshot


@dataclass(frozen=True)
class PartitionParameters:
    """Parameters of `partition`."""

    by: str = "vc"
    """Level of the cluster to cut along; its units are named like the tenants they serve."""
    policy: str = "fifo"
    """Policy of each unit; its parameters stand in brackets, as in `fifo[skip=yes]`."""


@register(
    "partition",
    "Each virtual cluster scheduled by itself on nodes of its own",
    paper="Helios, SC 2021",
    needs=frozenset(Knowledge),
    levers=set(Lever),
    parameters=PartitionParameters,
    heeds_priority=True,
)
class Partitioned:
    """Each virtual cluster scheduled by itself."""

    def __init__(self, parameters: PartitionParameters | None = None) -> None:
        p = parameters or PartitionParameters()
        spec = parse_inner(p.policy)
        self.needs = spec.make().needs
        self.heeds_priority = spec.heeds_priority
        self.inner = Partition(p.by, lambda _: spec.make())

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        return self.inner.decide(snapshot, memory)
