"""In which order a policy serves those who wait, whether it knows that at once or only who is before whom."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rota.scheduler.reasons.order import MOST_ASKED, waiting_order
from rota.scheduler.snapshot import Snapshot
from rota.stages.priority import ByPriority
from rota.table.occupancy import Occupancy
from scripted import state_of


class Ahead:
    """A ranking that tells who is before whom, by keys of rows; counts how often it is asked."""

    spreads = False

    def __init__(self, keys: Sequence[int], *, weighs_all: bool = False) -> None:
        self.keys, self.weighs_all, self.asked = keys, weighs_all, 0

    def ahead(self, snapshot: Snapshot, row: int) -> list[int]:
        self.asked += 1
        own = (self.keys[row], row)
        waiting = [] if self.weighs_all else snapshot.waiting.tolist()
        return [other for other in waiting if (self.keys[other], other) < own]

    def fits(self, snapshot: Snapshot, scratch: Occupancy, row: int) -> bool:
        return True


def waits(count: int) -> Snapshot:
    """So many jobs wait."""
    return Snapshot(state_of(" ".join(f"J{row} 1x9" for row in range(count)), "1x4", []))


@pytest.mark.parametrize(
    ("keys", "order"),
    [
        ([0, 0, 0], [0, 1, 2]),
        ([3, 1, 2], [1, 2, 0]),
        ([5, 4, 3, 2, 1], [4, 3, 2, 1, 0]),
        ([7], [0]),
    ],
)
def test_both_ways_to_know_tell_the_same(keys: list[int], order: list[int]) -> None:
    snapshot = waits(len(keys))
    at_once = ByPriority(lambda _, row: keys[row])
    assert waiting_order(snapshot, at_once) == order
    assert [row for row in order if row in at_once.ahead(snapshot, order[-1])] == order[:-1]
    if len(keys) > 1:
        assert waiting_order(snapshot, Ahead(keys)) == order


def test_no_order_is_none() -> None:
    snapshot = waits(3)
    assert waiting_order(snapshot, None) is None
    assert waiting_order(snapshot, Ahead([2, 1, 0], weighs_all=True)) is None


def test_of_a_long_queue_the_first_are_in_order() -> None:
    """Nobody is lost, and nobody is asked for ever."""
    keys = [(row * 37) % 200 for row in range(200)]
    ranking = Ahead(keys)
    order = waiting_order(waits(200), ranking)
    assert order is not None
    assert sorted(order) == list(range(200))
    assert ranking.asked <= MOST_ASKED + 2
    assert [keys[row] for row in order[:20]] == list(range(20))


def test_kept_keys_change_nothing() -> None:
    snapshot, policy = waits(4), ByPriority(lambda _, row: -row)
    before = [policy.ahead(snapshot, row) for row in range(4)]
    policy.kept_keys = policy.waiting_keys(snapshot)
    assert [policy.ahead(snapshot, row) for row in range(4)] == before == [[1, 2, 3], [2, 3], [3], []]
