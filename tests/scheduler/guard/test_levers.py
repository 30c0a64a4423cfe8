"""A policy does to jobs what it has declared: everything else breaks a rule."""

from __future__ import annotations

from typing import Any

import pytest

from play import play, trace_of
from rota.errors import GuardError
from rota.model.cluster import parse_cluster
from rota.model.grants import Grant, Reservation, Role
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.guard.levers import check_levers
from rota.scheduler.guard.partial import sound_part
from rota.scheduler.policy import Lever
from rota.scheduler.snapshot import Snapshot
from rota.table.progress import Progress
from rota.table.state import State


def one_runs() -> State:
    """A runs on devices 0 and 1 of four; B and C, of one GPU each, wait."""
    jobs = trace_of("A 2x10 B 1x10 C 1x10").jobs
    state = State(jobs, parse_cluster("1x4"), Progress(3))
    for row in range(3):
        state.submit(row)
    state.start(Grant(0, (0, 1)))
    return state


PULLED = [
    # decision, the lever that it pulls
    ({"grants": [Grant(1, (2,))]}, None),
    ({"grants": [Grant(0, (0, 1))]}, None),
    ({"preempt": [0]}, Lever.PREEMPT),
    ({"grants": [Grant(0, (2, 3))]}, Lever.MIGRATE),
    ({"grants": [Grant(0, (0, 1, 2))]}, Lever.RESIZE),
    ({"grants": [Grant(1, (2, 3))]}, Lever.RESIZE),
    ({"grants": [Grant(1, (2,), 0.5, Role.PACKED)]}, Lever.SHARE),
    ({"reservations": [Reservation(1, (2,), 100.0)]}, Lever.RESERVE),
    ({"reject": {1: "too large"}}, Lever.REJECT),
]


@pytest.mark.parametrize(("wanted", "lever"), PULLED, ids=[str(row[1] or "none") for row in PULLED])
def test_each_lever_is_seen(wanted: dict[str, Any], lever: Lever | None) -> None:
    state, decision = one_runs(), Decision({}, **wanted)
    assert check_levers(state, decision, frozenset(Lever)) == []
    breaches = check_levers(state, decision, frozenset(Lever) - {lever})
    assert [breach.rule for breach in breaches] == ["lever"] * (lever is not None)
    assert all(f"does not declare the lever {lever}" in breach.message for breach in breaches)


@pytest.mark.parametrize(("wanted", "lever"), PULLED, ids=[str(row[1] or "none") for row in PULLED])
def test_live_only_what_was_not_declared_is_refused(wanted: dict[str, Any], lever: Lever | None) -> None:
    """B is left alone whatever was meant for it, and C starts."""
    decision = Decision({}, **{**wanted, "grants": [*wanted.get("grants", ()), Grant(2, (3,))]})
    without = frozenset(Lever) - {lever}
    left, refused = sound_part(one_runs(), decision, lambda state, said: check_levers(state, said, without))
    assert len(refused) == (lever is not None)
    assert [grant.job for grant in left.grants][-1] == 2
    assert check_levers(one_runs(), left, without) == []


class Preempts:
    """Stops whoever runs when another job comes."""

    needs: frozenset[Any] = frozenset()
    levers: frozenset[Lever] = frozenset()

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        rows = snapshot.waiting.tolist()
        if snapshot.grants:
            return Decision(memory, preempt=list(snapshot.grants))
        return Decision(memory, [Grant(rows[0], (0,))] if rows else [])


def test_in_a_simulation_it_is_an_error() -> None:
    with pytest.raises(GuardError, match="is preempted, and the policy does not declare the lever preempt"):
        play(Preempts(), "A 1x10 B 1x10@5", "1x1")
