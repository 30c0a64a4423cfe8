"""Filling without walking the whole order gives what walking it gives."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rota.scheduler.snapshot import table_of
from rota.stages.fill import admit, running_set
from rota.stages.fit import Fitter
from rota.stages.order import JobOrder
from rota.stages.place import consolidate
from rota.stages.priority import ByPriority, Drift, last_items
from rota.stages.trial import admit_in_order, admit_placed, running_set_placed
from strategies import Midway, midways
from tiers import examples


def naive_admission(midway: Midway, strict: bool) -> list[int]:
    """Waiting rows in order, each if it fits beside those before it."""
    free, rows = midway.snapshot.occupancy.free.total, []
    for row in midway.order:
        if midway.snapshot.waits(row):
            gpus = midway.snapshot.gpus_of[row]
            if gpus <= free:
                free -= gpus
                rows.append(row)
            elif strict:
                break
    return rows


def naive_running_set(midway: Midway) -> set[int]:
    """All live rows in order, on an empty cluster, each if it fits beside those before it."""
    free, rows = midway.snapshot.cluster.gpus, set()
    for row in midway.order:
        gpus = midway.snapshot.gpus_of[row]
        if gpus <= free:
            free -= gpus
            rows.add(row)
    return rows


def order_of(midway: Midway, **options: bool) -> JobOrder:
    order = JobOrder(lambda snapshot, row: midway.keys[row], **options)
    order.sync(midway.snapshot)
    return order


def outcome(midway: Midway, start: list[int], preempt: list[int]) -> set[int]:
    """Who runs after the changes."""
    running = set(midway.snapshot.running.tolist())
    assert set(preempt) <= running
    assert not running & set(start)
    assert len(set(start)) == len(start)
    return (running - set(preempt)) | set(start)


@given(midways(), st.booleans())
@examples(300)
def test_admission_equals_a_walk_over_all_who_wait(midway: Midway, strict: bool) -> None:
    rows = admit(order_of(midway), midway.snapshot.occupancy.free.total, strict=strict)
    assert rows == naive_admission(midway, strict)


@given(midways())
@examples(500)
def test_the_running_set_equals_a_walk_from_an_empty_cluster(midway: Midway) -> None:
    order = order_of(midway, tracks_running=True)
    running = order.running.items[order.running.head :]
    state = table_of(midway.snapshot)
    found = running_set(order, running, state.occupancy.free.total, state.gpus_of)
    assert outcome(midway, found.start, found.preempt) == naive_running_set(midway)


@given(midways(), st.integers(1, 12))
@examples(300)
def test_leading_running_jobs_may_be_left_out_unless_it_reached_them(midway: Midway, count: int) -> None:
    state, rows = table_of(midway.snapshot), midway.snapshot.running
    some = last_items(midway.keys[rows], rows, count)
    found = running_set(order_of(midway), some, state.occupancy.free.total, state.gpus_of)
    if not found.reached or len(some) == len(rows):
        assert outcome(midway, found.start, found.preempt) == naive_running_set(midway)


@given(midways(), st.integers(0, 5))
@examples(200)
def test_keys_of_running_jobs_may_be_ahead(midway: Midway, ahead: int) -> None:
    """Whole numbers, so that adding the offset is exact."""
    state, keys = table_of(midway.snapshot), midway.keys
    running = sorted((float(keys[row]) + ahead, row) for row in midway.snapshot.running.tolist())
    found = running_set(order_of(midway), running, state.occupancy.free.total, state.gpus_of, float(ahead))
    assert outcome(midway, found.start, found.preempt) == naive_running_set(midway)


@given(midways())
@examples(200)
def test_placing_one_by_one_admits_the_same_where_any_gpu_will_do(midway: Midway) -> None:
    snapshot = midway.snapshot
    fit = Fitter(snapshot, consolidate)
    order = order_of(midway, tracks_running=True, by_kind=True)
    running = order.running.left()
    grants, preempt, _ = running_set_placed(order, running, snapshot, fit)
    start = [grant.job for grant in grants if grant.job not in snapshot.grants]
    assert outcome(midway, start, preempt) == naive_running_set(midway)
    waiting = [row for row in midway.order if snapshot.waits(row)]
    added = admit_placed(waiting, fit.scratch(snapshot), fit)
    assert [grant.job for grant in added] == naive_admission(midway, strict=False)
    in_order = order_of(midway, by_kind=True)
    snapshot.occupancy.take_back()
    assert admit_in_order(in_order, snapshot, fit) == added
    snapshot.occupancy.take_back()
    assert admit_in_order(in_order, snapshot, fit, rooms={}) == added


@given(
    midways(),
    st.sampled_from(
        [{}, {"preemptive": True}, {"preemptive": True, "drifts": Drift.RUNNING}, {"strict": True}]
    ),
)
@examples(200)
def test_counting_and_placing_decide_alike(midway: Midway, options: dict[str, Any]) -> None:
    """Both paths of ByPriority start and preempt the same jobs on a uniform cluster."""
    policy = ByPriority(lambda snapshot, rows: midway.keys[rows], **options)
    counted, placed = policy._by_count(midway.snapshot), policy._by_place(midway.snapshot)
    held = midway.snapshot.grants
    starts = [{grant.job for grant in grants if grant.job not in held} for grants, _ in (counted, placed)]
    assert starts[0] == starts[1]
    assert sorted(counted[1]) == sorted(placed[1])
