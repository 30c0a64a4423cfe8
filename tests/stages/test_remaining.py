"""Remaining time: whatever work is counted in, for those who may know."""

from __future__ import annotations

import numpy as np
import pytest

from play import trace_of
from rota.errors import NeedError
from rota.knowledge.needs import Knowledge, Known, Provenance
from rota.model.cluster import parse_cluster
from rota.model.columns import Floats
from rota.scheduler.moments.packing import pack, unpack
from rota.scheduler.snapshot import Snapshot
from rota.stages.remaining import remaining_s
from rota.table.progress import Progress
from rota.table.state import State

NEEDS = frozenset({Knowledge.DURATION})
KNOWN = {Knowledge.DURATION: Known(np.array([100.0, 40.0]), Provenance.ORACLE)}


def snapshot_of(per_s: Floats | None, done: list[float], needs: frozenset[Knowledge] = NEEDS) -> Snapshot:
    progress = Progress(2, per_s)
    progress.base[:] = done
    state = State(trace_of("A 1x1 B 1x1").jobs, parse_cluster("1x4"), progress)
    for row in range(2):
        state.submit(row)
    return Snapshot(state, known=KNOWN, needs=needs)


@pytest.mark.parametrize(
    ("per_s", "done", "expected", "why"),
    [
        (None, [30.0, 50.0], [70.0, -10.0], "seconds; B has outrun its estimate"),
        (np.array([4.0, 0.5]), [80.0, 10.0], [80.0, 20.0], "80 iterations are 20 s, 10 slow ones as well"),
    ],
)
def test_seconds_left(per_s: Floats | None, done: list[float], expected: list[float], why: str) -> None:
    snapshot = snapshot_of(per_s, done)
    assert remaining_s(snapshot, np.arange(2)).tolist() == expected, why
    assert [remaining_s(snapshot, row) for row in range(2)] == expected, why
    stored = unpack(pack(snapshot), NEEDS)
    assert remaining_s(stored, np.arange(2)).tolist() == expected, "a stored moment says the same"


def test_what_is_left_is_for_those_who_declared_the_need() -> None:
    with pytest.raises(NeedError, match="does not list"):
        remaining_s(snapshot_of(None, [0.0, 0.0], frozenset()), 0)
