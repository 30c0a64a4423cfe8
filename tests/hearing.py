"""Keeps what a policy was shown and said at its last decision."""

from __future__ import annotations

from typing import Any

from play import trace_of
from rota.model.cluster import Cluster
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.policy import Policy
from rota.scheduler.snapshot import Snapshot
from rota.worlds.simulated.run import Setting, prepare


class Heard:
    """Keeps what `inner` was shown and said at its last decision."""

    def __init__(self, inner: Policy) -> None:
        self.inner = inner
        self.needs = inner.needs
        self.last: tuple[Snapshot, Decision] | None = None

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        decision = self.inner.decide(snapshot, memory)
        self.last = snapshot, decision
        return decision


def heard(
    policy: Policy, jobs: str, cluster: Cluster, until_s: float = 4.0, **columns: Any
) -> tuple[Snapshot, Decision]:
    """The last decision of a run of `jobs`, as in `play.trace_of`, that ends at `until_s`."""
    listens = Heard(policy)
    prepare(listens, trace_of(jobs, **columns), cluster, Setting())[0].run(until_s)
    assert listens.last is not None
    return listens.last
