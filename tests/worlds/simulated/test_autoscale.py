"""Nodes that come and go: ordered, there after a while, given back when empty; no job is lost by it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from play import finishes, play, trace_of
from rota.api.simulation import simulate
from rota.errors import InputError
from rota.model.cluster import parse_cluster
from rota.model.grants import Grant
from rota.model.record import Record
from rota.reports.occupancy import available_gpu_s, paid_nodes
from rota.reports.window import Span
from rota.scheduler.decision import Decision, Wake
from rota.scheduler.policy import parse_policy
from rota.scheduler.snapshot import Snapshot
from rota.worlds.simulated.autoscale import Autoscale, parse_autoscale
from rota.worlds.simulated.run import Setting, prepare
from rota.worlds.simulated.semantics import PRESETS
from scripted import Scripted
from tiers import examples

CLUSTER = parse_cluster("4x2")


class Wants:
    """First come first served, and so many nodes at the moments it is told."""

    def __init__(self, wanted: dict[float, int]) -> None:
        self.inner = parse_policy("fifo:skip=yes").make()
        self.needs, self.wanted = self.inner.needs, dict(wanted)

    def decide(self, snapshot: Snapshot, memory: dict[str, Any]) -> Decision:
        decision = self.inner.decide(snapshot, memory)
        due = [at_s for at_s in self.wanted if at_s <= snapshot.now]
        if due:
            decision.wanted_nodes = self.wanted[max(due)]
            self.wanted = {at_s: n for at_s, n in self.wanted.items() if at_s not in due}
        decision.wake = Wake(min(self.wanted, default=float("inf")))
        return decision


def run(jobs: str, wanted: dict[float, int], autoscale: Autoscale) -> Record:
    return play(Wants(wanted), trace_of(jobs), CLUSTER, Setting(autoscale=autoscale))


def test_an_ordered_node_is_there_after_a_while() -> None:
    """A has the only node; B and C wait for two that are asked for at 10 s, and take 30 s to come."""
    record = run("A 2x100 B 2x50@10 C 2x50@10", {10.0: 3}, Autoscale(1, 4, 30.0))
    assert finishes(record) == {"A": 100.0, "B": 90.0, "C": 90.0}
    assert record.cluster["paid_nodes"] == [[0.0, 1], [10.0, 3]]


def test_a_node_goes_when_nobody_holds_anything_on_it() -> None:
    """Two of three nodes shall go at 10 s: the empty one at once, B's when B has ended; A's stays."""
    record = run("A 2x100 B 2x50", {10.0: 1}, Autoscale(1, 4, 30.0, start=3))
    assert finishes(record) == {"A": 100.0, "B": 50.0}
    assert record.cluster["paid_nodes"] == [[0.0, 3], [10.0, 2], [50.0, 1]]
    paid = paid_nodes(record)
    assert paid is not None
    assert available_gpu_s(record, Span(0.0, 100.0)) == 2 * (10 * 3 + 40 * 2 + 50 * 1)


def test_who_would_leave_stays_before_anything_is_ordered() -> None:
    """At 20 s the node that waits for B's end is wanted again: nothing is ordered, and C starts at 50 s."""
    record = run("A 2x100 B 2x50 C 2x10@30", {10.0: 1, 20.0: 2}, Autoscale(1, 4, 1000.0, start=2))
    assert finishes(record) == {"A": 100.0, "B": 50.0, "C": 60.0}
    assert record.cluster["paid_nodes"] == [[0.0, 2]]


def test_an_order_is_cancelled() -> None:
    """What is on its way is given up before anything that is there."""
    record = run("A 2x100", {10.0: 4, 20.0: 1}, Autoscale(1, 4, 30.0))
    assert record.cluster["paid_nodes"] == [[0.0, 1], [10.0, 4], [20.0, 1]]


@examples(40)
@given(
    jobs=st.lists(
        st.tuples(st.integers(1, 4), st.integers(1, 60), st.integers(0, 100)), min_size=1, max_size=12
    ),
    wanted=st.dictionaries(st.floats(1.0, 200.0), st.integers(0, 9), max_size=8),
    limits=st.tuples(st.integers(2, 4), st.integers(2, 4)).map(sorted),
    delay_s=st.sampled_from([0.0, 7.0, 60.0]),
)
def test_within_the_limits_and_no_job_is_lost(
    jobs: list[tuple[int, int, int]], wanted: dict[float, int], limits: list[int], delay_s: float
) -> None:
    """Whatever is asked for, when: never fewer nodes than the least, nor more than the most; all jobs end."""
    least, most = limits
    text = " ".join(
        f"j{i} {gpus}x{s}@{at}" for i, (gpus, s, at) in enumerate(sorted(jobs, key=lambda j: j[2]))
    )
    trace = trace_of(text)
    loop, recorder = prepare(
        Wants(wanted), trace, CLUSTER, Setting(autoscale=Autoscale(least, most, delay_s))
    )
    while loop.step():
        assert CLUSTER.nodes - len(loop.state.occupancy.down_nodes) <= most
    assert len(recorder.ends) == len(trace)
    steps = loop.world.paid  # type: ignore[attr-defined]
    assert all(least <= nodes for _, nodes in steps)
    assert steps[0] == (0.0, least)
    assert all(moment[3].value == "finished" for moment in recorder.intervals), "nobody was stopped"


def test_who_is_on_a_node_that_leaves_may_be_moved_off_it() -> None:
    """A is moved to the other node at 20 s, and its own goes at once."""
    trace = trace_of("A 2x100 B 2x20")
    turns = (
        {"grants": [Grant(0, (2, 3)), Grant(1, (0, 1))], "wake": Wake(10.0)},
        {"wanted_nodes": 1, "wake": Wake(30.0)},
        {"wake": Wake(30.0)},
        {"grants": [Grant(0, (0, 1))]},
    )
    setting = Setting(autoscale=Autoscale(1, 2, 30.0, start=2))
    loop, _ = prepare(Scripted(*turns), trace, parse_cluster("2x2"), setting)
    loop.run()
    assert loop.world.paid == [(0.0, 2), (20.0, 1)]  # type: ignore[attr-defined]


# -- what people type ------------------------------------------------------------------------------


def test_words() -> None:
    assert parse_autoscale("2:4,delay=5m,start=3", CLUSTER) == Autoscale(2, 4, 300.0, 3)
    assert str(parse_autoscale("2:4,delay=5m,start=3", CLUSTER)) == "2:4,delay=5m,start=3"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("4", "no range of nodes"),
        ("0:4", "does not fit a cluster of 4 nodes"),
        ("2:5", "does not fit a cluster of 4 nodes"),
        ("2:3,start=4", "does not fit"),
        ("2:3,speed=4", "speed"),
        ("2:3,delay=4", "delay"),
    ],
)
def test_nonsense(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        parse_autoscale(text, CLUSTER)


def test_nodes_of_several_kinds() -> None:
    with pytest.raises(InputError, match="several kinds"):
        parse_autoscale("1:2", parse_cluster("1x2:A,1x4:B"))


def test_who_never_says_how_many() -> None:
    with pytest.raises(InputError, match="'fifo' does not decide how many nodes"):
        simulate(trace_of("A 1x10"), cluster=CLUSTER, policies="fifo", autoscale="1:4")


def test_not_in_ticks() -> None:
    setting = Setting(autoscale=Autoscale(1, 2), semantics=PRESETS["pollux"])
    with pytest.raises(InputError, match="--semantics pollux"):
        prepare(parse_policy("fifo").make(), trace_of("A 1x10"), CLUSTER, setting)
