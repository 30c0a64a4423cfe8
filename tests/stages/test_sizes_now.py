"""Which numbers of GPUs jobs may have: what cannot be, and what was refused, is not asked for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from play import trace_of
from rota.model.cluster import parse_cluster
from rota.model.grants import Can
from rota.scheduler.decision import Decision
from rota.scheduler.guard.live_rules import NoPreemption
from rota.scheduler.policy import parse_policy
from rota.scheduler.snapshot import Snapshot
from rota.stages.sizes import are_silent, sizes_now
from rota.worlds.simulated.run import Setting, prepare


class Looks:
    """A policy that notes who is to go on on another number of GPUs, and when it says so."""

    def __init__(self, text: str) -> None:
        self.inner = parse_policy(text).make()
        self.needs = self.inner.needs
        self.resized: list[tuple[float, int]] = []

    def decide(self, snapshot: Snapshot, memory: dict) -> Decision:
        decision = self.inner.decide(snapshot, memory)
        for grant in decision.grants:
            old = snapshot.grants.get(grant.job)
            if old is not None and len(old.devices) != len(grant.devices):
                self.resized.append((snapshot.now, grant.job))
        return decision


@pytest.mark.parametrize("policy", ["afs", "elan"])
def test_a_refusal_is_asked_about_ever_more_rarely(policy: str) -> None:
    """A runs on four GPUs, and the cluster does not let it shrink for B.

    Half a minute after a refusal the policy hears of it, and leaves A alone for 60 s, 120 s, 240 s, 480 s.
    """
    trace = trace_of("A 1x8000 B 1x4000@10", gpus_min=1, gpus_max=[4, 1])
    looks = Looks(policy)
    loop, _ = prepare(looks, trace, parse_cluster("1x4"), Setting())
    loop.rules, loop.strict = NoPreemption(lambda: {0}), False
    loop.run(1000.0)
    assert looks.resized == [(10.0, 0), (100.0, 0), (250.0, 0), (520.0, 0)]


CANS: Sequence[tuple[Can, list[tuple[int, ...]], str]] = [
    (Can.ALL, [(1, 2, 3, 4), (1,)], "any number"),
    (Can.CHECKPOINT | Can.SUSPEND, [(4,), (1,)], "A would lose its work on another number"),
    (Can.NOTHING, [(1,)], "A bears no stop: only B is decided about, and there is no GPU for it"),
]


@pytest.mark.parametrize(("can", "counts", "why"), CANS)
def test_numbers_that_jobs_bear(can: Can, counts: list[tuple[int, ...]], why: str) -> None:
    trace = trace_of(
        "A 4x400 B 1x10@10", gpus_min=1, gpus_max=[4, 1], workload_names=("net",), workload=[0, -1]
    )
    setting = Setting(can={"net": can, "*": Can.ALL})
    loop, _ = prepare(parse_policy("fifo").make(), trace, parse_cluster("1x4"), setting)
    loop.run(10.0)
    sizes = sizes_now(loop.snapshot(), {}, 60.0)
    assert [tuple(one) for one in sizes.counts] == counts, why
    assert sizes.gpus == (4 if len(counts) == 2 else 0)


def test_a_job_that_cannot_be_resized_comes_back_as_it_was() -> None:
    """A was preempted from four GPUs, and has done work on them: it goes on on four."""
    trace = trace_of("A 1x400 B 4x10@60", gpus_max=4)
    can = {"*": Can.SUSPEND}
    loop, _ = prepare(parse_policy("afs").make(), trace, parse_cluster("1x4"), Setting(can=can))
    loop.run(60.0)
    assert 1 in loop.state.running
    assert loop.memory["bound"] == {0: 4}
    loop.run(80.0)
    assert len(loop.state.grants[0].devices) == 4


SILENT: Sequence[tuple[Can, float, list[bool], str]] = [
    (Can.SUSPEND, 10.0, [True, False], "A may still be importing its libraries; B has one size"),
    (Can.NOTHING, 10.0, [True, False], "nor is anything known of it"),
    (Can.CHECKPOINT, 10.0, [False, False], "it has spoken"),
    (Can.SUSPEND, 60.0, [False, False], "a minute is over"),
]


@pytest.mark.parametrize(("can", "at_s", "silent", "why"), SILENT)
def test_who_is_silent(can: Can, at_s: float, silent: list[bool], why: str) -> None:
    trace = trace_of("A 1x400 B 1x400", gpus_max=[4, 1])
    loop, _ = prepare(parse_policy("fifo").make(), trace, parse_cluster("1x4"), Setting(can={"*": can}))
    loop.run(at_s)
    assert are_silent(loop.snapshot(), np.arange(2)).tolist() == silent, why


def test_who_has_not_spoken_yet_is_left_alone_for_a_minute() -> None:
    """A program of which no more is known than of any other may still be importing its libraries."""
    trace = trace_of("A 1x400 B 4x10@10", gpus_max=4)
    setting = Setting(can={"*": Can.SUSPEND})
    loop, _ = prepare(parse_policy("afs").make(), trace, parse_cluster("1x4"), setting)
    loop.run(10.0)
    assert [1 in loop.state.running, loop.wake.at_s] == [False, 60.0]
    loop.run(60.0)
    assert 1 in loop.state.running


def test_who_runs_on_a_node_that_is_drained_stays_and_takes_nothing_from_the_others() -> None:
    """A has a node of its own, which is drained: B is decided about, on the GPUs of the other."""
    trace = trace_of("A 4x400 B 4x400@5", gpus_min=1)
    loop, _ = prepare(parse_policy("fifo").make(), trace, parse_cluster("2x4"), Setting())
    loop.run(10.0)
    loop.state.occupancy.close(list(loop.state.grants[0].devices))
    sizes = sizes_now(loop.snapshot(), {}, 60.0)
    assert (sizes.rows.tolist(), sizes.gpus) == ([1], 4)
