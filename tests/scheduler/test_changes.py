"""What a snapshot shows: what has changed since a cursor last looked, and nothing that can be written."""

from __future__ import annotations

import pytest

from play import trace_of
from rota.model.cluster import parse_cluster
from rota.model.grants import Grant
from rota.scheduler.live_columns import LiveColumns
from rota.scheduler.snapshot import Cursor, Snapshot
from rota.table.progress import Progress
from rota.table.state import COLUMNS, Phase, State


def table_of_three() -> State:
    jobs = trace_of("A 1x10 B 1x10 C 1x10").jobs
    state = State(jobs, parse_cluster("1x4"), Progress(3))
    for row in range(3):
        state.submit(row)
    return state


def test_only_rows_that_changed_are_shown_and_each_once() -> None:
    state, cursor = table_of_three(), Cursor()
    assert Snapshot(state).changes(cursor) is None, "the first look"
    assert list(Snapshot(state).changes(cursor) or ()) == []
    state.start(Grant(1, (0,)))
    state.start(Grant(2, (1,)))
    state.free(1)
    state.stop(1, Phase.COMPLETED)
    assert Snapshot(state).changes(cursor) == [1, 2]
    assert list(Snapshot(state).changes(cursor) or ()) == []


def test_a_cursor_of_another_run_has_seen_nothing() -> None:
    one, other, cursor = table_of_three(), table_of_three(), Cursor()
    Snapshot(one).changes(cursor)
    assert cursor.follows(Snapshot(one))
    assert not cursor.follows(Snapshot(other))
    assert Snapshot(other).changes(cursor) is None


@pytest.mark.parametrize("name", COLUMNS)
def test_live_columns_cannot_be_written(name: str) -> None:
    state = table_of_three()
    with pytest.raises(ValueError, match="read-only"):
        getattr(LiveColumns(state), name)[0] = 1


def test_rows_that_run_cannot_be_written() -> None:
    state = table_of_three()
    state.start(Grant(1, (0,)))
    rows = Snapshot(state).running_unsorted
    with pytest.raises(ValueError, match="read-only"):
        rows[0] = 2


def test_who_waits_and_how_much_they_ask_for() -> None:
    state = table_of_three()
    state.start(Grant(1, (0,)))
    snapshot = Snapshot(state)
    assert (snapshot.waiting_count, snapshot.waiting_gpus) == (2, 2)
    assert [snapshot.waits(row) for row in range(3)] == [True, False, True]
