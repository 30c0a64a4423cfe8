"""Who found no place at a moment finds one at the same moment, once something has made room."""

from __future__ import annotations

import pytest

from play import trace_of
from rota.model.cluster import parse_cluster
from rota.scheduler.decision import Event
from rota.scheduler.policy import parse_policy
from rota.scheduler.world import Batch
from rota.worlds.simulated.run import Setting, prepare

CAPACITY = int(Event.CAPACITY)


@pytest.mark.parametrize("policy", ["elan", "elan:backfill=yes", "afs", "afs:lengths=no"])
def test_a_device_that_is_back_at_the_very_moment_serves_who_needs_it(policy: str) -> None:
    """A accepts node n1 only; its device is closed as A comes, and open again before any time has passed."""
    trace = trace_of("A 1x5", node_set=[0], node_set_names=("n1",))
    loop, _ = prepare(parse_policy(policy).make(), trace, parse_cluster("2x1"), Setting())
    behind = loop.world.next
    first = behind(0.0)
    assert first is not None
    assert list(first.arrived) == [0]
    first.closed, first.cause = [1], first.cause | CAPACITY
    batches = iter([first, Batch(0.0, CAPACITY, opened=[1])])
    loop.world.next = lambda until_s: next(batches, None) or behind(until_s)  # type: ignore[method-assign]
    loop.run()
    assert loop.state.first_start_s.tolist() == [0.0]
