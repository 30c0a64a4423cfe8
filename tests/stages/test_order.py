"""The order of waiting jobs, kept up to date or built anew, is the sorted queue."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rota.model.grants import Grant
from rota.scheduler.snapshot import Snapshot, table_of
from rota.stages.order import JobOrder, SortedItems, plain
from rota.stages.place import consolidate
from rota.table.state import Phase, State
from strategies import Midway, midways
from tiers import examples


@given(midways(), st.data())
@examples(150)
def test_a_kept_order_equals_one_built_anew(midway: Midway, data: st.DataObject) -> None:
    """Jobs start, are preempted and end; the kept order follows the log, the fresh one reads the snapshot."""
    snapshot, state = midway.snapshot, table_of(midway.snapshot)

    def key(_: Snapshot, row: int) -> float:
        return float(midway.keys[row])

    kept = JobOrder(key, tracks_running=True)
    for _ in range(data.draw(st.integers(1, 8))):
        kept.sync(snapshot)
        fresh = JobOrder(key, tracks_running=True)
        fresh.sync(snapshot)
        assert list(kept.in_order()) == list(fresh.in_order())
        waiting = [row for row in midway.order if row in state.waiting]
        assert [row for _, row in kept.in_order()] == waiting
        running = [(key(snapshot, row), row) for row in midway.order if row in state.running]
        assert kept.running.items[kept.running.head :] == running
        _change(state, data)


def _change(state: State, data: st.DataObject) -> None:
    """A few starts, preemptions and endings."""
    for row in data.draw(st.lists(st.sampled_from(range(len(state.jobs))), max_size=4)):
        if row in state.running:
            state.free(row)
            state.stop(row, data.draw(st.sampled_from([Phase.PENDING, Phase.COMPLETED])))
        elif row in state.waiting and state.gpus_of[row] <= state.occupancy.free.total:
            devices = consolidate(state.occupancy.free.copy(), state.gpus_of[row])
            assert devices is not None
            state.start(Grant(row, devices))


@given(midways(), st.integers(0, 30))
@examples(100)
def test_a_moved_job_stands_where_its_new_key_says(midway: Midway, change: int) -> None:
    keys = midway.keys.copy()
    order = JobOrder(lambda _, row: float(keys[row]), tracks_running=True)
    order.sync(midway.snapshot)
    row = change % len(keys)
    keys[row] = change / 4
    order.move(midway.snapshot, row)
    waiting = [row for row in midway.order if midway.snapshot.waits(row)]
    assert [r for _, r in order.in_order()] == sorted(waiting, key=lambda r: (keys[r], r))


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=300))
@examples(100)
def test_sorted_items_equal_a_sorted_list(steps: list[tuple[bool, int]]) -> None:
    """Mostly consumed from the head, as queues are; rows make items unique."""
    items, model = SortedItems(), list[tuple[int, int]]()
    for row, (adds, key) in enumerate(steps):
        if adds or not model:
            items.add((key, row))
            model.append((key, row))
            model.sort()
        else:
            victim = model.pop(0 if key < 7 else key % len(model))
            items.remove(victim)
        assert items.items[items.head :] == model
        assert len(items) == len(model)


def test_keys_are_numbers_of_python():
    """Also where a policy makes an array of no dimension of a row, or a tuple of such."""
    keys = plain(np.where(True, 1.5, 0.0)), plain((np.int64(2), (np.float64(0.5), "a"))), plain("b")
    assert keys == (1.5, (2, (0.5, "a")), "b")
    assert [type(key) for key in (keys[0], *keys[1], keys[1][1][0])] == [float, int, tuple, float]
