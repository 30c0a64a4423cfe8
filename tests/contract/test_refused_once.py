"""Whom a live world refuses once starts later, under every registered policy: none takes him for running."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from play import trace_of
from rota.model.cluster import Cluster, NodeShape
from rota.scheduler.decision import Decision
from rota.scheduler.guard.check import Breach
from rota.scheduler.policy import parse_policy, systems
from rota.table.state import State
from rota.worlds.simulated.run import Setting, prepare

CLUSTER = Cluster.build([NodeShape(2, 4, levels={"vc": "default"})])
ROW = 1


class NotTheFirstTime:
    """Rules of a world that refuse the first start of `ROW`, as a node does that is not ready."""

    def __init__(self) -> None:
        self.refused_s = -1.0

    def __call__(self, state: State, decision: Decision) -> Sequence[Breach]:
        """The same for each question of one moment: part of a decision is asked about again."""
        starts = any(grant.job == ROW and ROW not in state.grants for grant in decision.grants)
        if not starts or self.refused_s not in (-1.0, state.now):
            return []
        self.refused_s = state.now
        return [Breach("the node is ready", ROW, "the node is not ready")]


@pytest.mark.parametrize("policy", systems())
@pytest.mark.parametrize("jobs", ["A 4x1000 B 4x100", "A 2x1000 B 2x100", "A 4x500 B 4x100 C 4x100"])
def test_who_is_refused_once_starts_later(policy: str, jobs: str) -> None:
    loop, _ = prepare(parse_policy(policy).make(), trace_of(jobs), CLUSTER, Setting())
    loop.strict, loop.rules = False, NotTheFirstTime()
    loop.run(5000.0, most=5000)
    assert loop.rules.refused_s >= 0.0
    assert loop.state.first_start_s.item(ROW) > loop.rules.refused_s
    assert not loop.state.waiting.n
