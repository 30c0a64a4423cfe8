"""Among running jobs that a policy ranks alike, the one whose preemption costs least gives way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import strategies  # noqa: F401  (registers the profile)
from rota.model.grants import Grant
from rota.scheduler.decision import Decision
from rota.scheduler.guard.check import check
from rota.scheduler.snapshot import Snapshot
from rota.scheduler.victims import cheaper_victims
from rota.stages.priority import ByPriority
from scripted import state_of

COSTS = {0: 30.0, 1: 10.0, 2: 20.0}
THREE = [Grant(0, (0, 1)), Grant(1, (2, 3)), Grant(2, (4, 5))]
JOBS = "A 2x9 B 2x9 C 2x9 D 2x9 E 1x9"


def by(keys: Mapping[int, float]) -> ByPriority:
    return ByPriority(lambda snapshot, row: keys.get(row, 0.0), preemptive=True)


def exchanged(
    keys: Mapping[int, float], grants: Sequence[Grant], preempt: Sequence[int], **columns: Any
) -> Decision:
    state = state_of(JOBS, columns.pop("cluster", "1x6"), columns.pop("running", THREE), 5.0, **columns)
    decision = Decision({}, grants, preempt, ranking=by(keys))
    found = cheaper_victims(Snapshot(state), decision, lambda row: COSTS.get(row, 0.0))
    assert check(state, found) == []
    return found


def test_the_cheapest_equal_gives_way_and_the_heir_gets_its_devices() -> None:
    found = exchanged({3: -1.0}, [Grant(3, (0, 1))], [0])
    assert (found.preempt, found.grants) == ([1], [Grant(3, (2, 3))])


def test_two_victims_are_the_two_cheapest() -> None:
    found = exchanged({3: -1.0, 4: -1.0}, [Grant(3, (0, 1)), Grant(4, (4,))], [0, 2])
    assert sorted(found.preempt) == [1, 2]


@pytest.mark.parametrize(
    ("keys", "columns"),
    [
        ({3: -1.0, 1: -0.5, 2: -0.5}, {}),
        ({3: -1.0}, {"tenant": [0, 1, 1, 0, 0], "tenant_names": ("a", "b")}),
        ({3: -1.0}, {"priority": [0, 1, 1, 0, 0]}),
        ({3: -1.0}, {"cluster": "3x2"}),
        ({3: -1.0}, {"running": [Grant(0, (0, 1)), Grant(4, (2,))]}),
    ],
    ids=["rank", "tenant", "priority", "node", "size"],
)
def test_who_is_no_equal_keeps_its_devices(keys: Mapping[int, float], columns: dict[str, Any]) -> None:
    found = exchanged(keys, [Grant(3, (0, 1))], [0], **columns)
    assert (list(found.preempt), list(found.grants)) == ([0], [Grant(3, (0, 1))])


def test_a_waiting_job_does_not_take_the_place_of_its_equal() -> None:
    """Else the policy would undo the exchange at its next call."""
    found = exchanged({}, [Grant(3, (0, 1))], [0])
    assert (list(found.preempt), list(found.grants)) == ([], [])


def test_a_policy_that_does_not_say_who_is_equal_is_left_alone() -> None:
    state = state_of(JOBS, "1x6", THREE, 5.0)
    decision = Decision({}, [Grant(3, (0, 1))], [0])
    assert cheaper_victims(Snapshot(state), decision, lambda row: COSTS[row]) is decision


@given(st.data())
def test_the_decision_stays_sound_and_settles(data: st.DataObject) -> None:
    """Whatever ranks and costs: no rule is broken, victims cost no more, and nothing moves again."""
    keys = dict(enumerate(data.draw(st.lists(st.integers(0, 1), min_size=8, max_size=8))))
    costs = data.draw(st.lists(st.integers(0, 3), min_size=8, max_size=8))
    sizes = data.draw(st.lists(st.integers(1, 2), min_size=8, max_size=8))
    state = state_of(" ".join(f"j{i} {gpus}x9" for i, gpus in enumerate(sizes)), "2x4")
    policy = by(keys)
    for row in range(4):  # some run, as they came
        fit = policy.fitter(Snapshot(state))(state.occupancy, row)
        if fit is not None:
            state.start(fit)
    for _ in range(8):
        snapshot = Snapshot(state)
        asked = policy.decide(snapshot, {})
        found = cheaper_victims(snapshot, asked, lambda row: costs[row])
        assert check(state, found) == []
        assert sum(costs[row] for row in found.preempt) <= sum(costs[row] for row in asked.preempt)
        if not found.grants and not found.preempt:
            return
        for row in found.preempt:
            state.free(row)
            state.stop(row)
        for grant in found.grants:
            state.start(grant)
    raise AssertionError("it goes on and on")
