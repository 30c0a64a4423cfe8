"""Ageing, the policy that ran wrong and passed: its keys change while jobs wait, and it has to say so."""

from __future__ import annotations

import pytest

from play import play, starts, trace_of
from rota.scheduler.decision import Decision, Memory, Wake
from rota.scheduler.snapshot import Snapshot
from rota.stages.priority import ByPriority, Drift
from rota.testing import ContractError, check_policy
from rota.testing.contract import SEEDS

PER_HOUR = 1.0
"""Priority that a job gains by an hour of waiting: next to nothing in the seconds of a scene."""


class Ageing:
    """Highest priority first, and every hour of waiting counts as one more."""

    needs = frozenset()
    drifts = Drift.ALWAYS

    def __init__(self) -> None:
        self.inner = ByPriority(self.key, drifts=self.drifts)

    def key(self, snapshot: Snapshot, row: int) -> float:
        return -(snapshot.jobs.table.priority[row] + PER_HOUR * snapshot.jobs.waited_s(row) / 3600.0)

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        return self.inner.decide(snapshot, memory, Wake())


class Unsaid(Ageing):
    """The same, without a word about it."""

    drifts = Drift.NEVER


OLD_AND_NEW = trace_of("A 1x20000 B 1x10 C 1x10@9000", priority=[0, 0, 2])
"""When A ends, B has waited for more than five hours, C for three: ageing overtakes priority."""


def test_ageing_is_served_as_it_says() -> None:
    begun = starts(play(Ageing(), OLD_AND_NEW, "1x1"))
    assert begun["B"] < begun["C"]


def test_ageing_that_is_not_told_runs_wrong() -> None:
    """B's key was read when it came, when it had not waited at all."""
    begun = starts(play(Unsaid(), OLD_AND_NEW, "1x1"))
    assert begun["B"] > begun["C"]


def test_the_contract_wants_it_said_in_its_first_scenes() -> None:
    check_policy(Ageing, seeds=SEEDS)
    with pytest.raises(ContractError, match=r"drifts=Drift\.ALWAYS"):
        check_policy(Unsaid, seeds=SEEDS, only="the key of a waiting job")
