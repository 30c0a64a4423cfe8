"""What a policy knows ends where the submitted jobs end, whatever form it has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from play import play, trace_of
from rota.knowledge.given import Given
from rota.knowledge.needs import Knowledge, Table
from rota.knowledge.registry import Where, kinds
from rota.model.cluster import parse_cluster
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.snapshot import Snapshot
from rota.worlds.simulated.run import Setting

TRACE = trace_of("A 1x10 B 1x10@5 C 2x10@7")
COLUMN = np.arange(3.0)
FORMS = [
    # what is provided
    COLUMN,
    np.arange(6.0).reshape(3, 2),
    Table({"curve": np.arange(3)}, {"rates": np.arange(8.0)}),
    Table({"a": COLUMN, "b": COLUMN}),
]


class Looks:
    """Starts nothing, and notes how many rows it is told about."""

    def __init__(self, kind: Knowledge) -> None:
        self.kind, self.needs = kind, frozenset({kind})
        self.seen: list[tuple[int, set[int]]] = []

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        told: Any = snapshot.know(self.kind)
        columns = list(told.by_row.values()) if isinstance(told, Table) else [told]
        self.seen.append((len(snapshot.jobs), {len(column) for column in columns}))
        shown = [*columns, *(told.shared.values() if isinstance(told, Table) else ())]
        assert not any(array.flags.writeable for array in shown)
        return Decision(memory)


@pytest.mark.parametrize("values", FORMS)
def test_given_knowledge_does_not_show_the_future(values: Any) -> None:
    policy = Looks(Knowledge.SCALING)
    play(policy, TRACE, "1x4", Setting(providers=(Given(Knowledge.SCALING, values),)))
    assert policy.seen == [(1, {1}), (2, {2}), (3, {3})]


HANDED_OVER = {Knowledge.GOODPUT, Knowledge.PAIRS, Knowledge.PLACEMENT, Knowledge.HOSTS}
"""By speed models only."""


@pytest.mark.parametrize("kind", sorted(kinds(Where.SIMULATED) - HANDED_OVER))
def test_no_provider_shows_the_future(kind: Knowledge) -> None:
    """A sample over no rows at all, such as past service, has no columns."""
    policy = Looks(kind)
    play(policy, TRACE, parse_cluster("1x4"))
    assert all(rows <= {jobs} for jobs, rows in policy.seen)
    assert [jobs for jobs, _ in policy.seen] == [1, 2, 3]
