"""Durations from what programs say they have to do, and how fast they were seen."""

from __future__ import annotations

import math

import pytest

from play import trace_of
from rota.knowledge.duration import MeasuredDuration
from rota.knowledge.needs import Observation
from rota.model.cluster import parse_cluster
from rota.model.grants import Grant, Role
from rota.scheduler.policy import parse_policy
from rota.worlds.simulated.run import Setting, prepare

TWO = Grant(0, (0, 1))
BESIDE = TWO._replace(role=Role.PACKED)
SEEN = [
    # what was seen                                                       estimate   why
    (Observation(0, TWO, 0.0, 10.0, work=5.0, total=100.0), 200.0, "half a unit a second"),
    (Observation(0, TWO, 9.9, 10.0, step_s=0.1, total=5000.0), 500.0, "steps, as programs count them"),
    (Observation(0, TWO, 0.0, 10.0, work=5.0), 900.0, "it does not say how much it has to do"),
    (Observation(0, TWO, 0.0, 10.0, total=100.0), 900.0, "nobody saw how fast it is"),
    (Observation(0, TWO, 10.0, 10.0, work=5.0, total=100.0), 900.0, "a moment is no time"),
    (Observation(0, Grant(0, (0,)), 0.0, 10.0, work=5.0, total=100.0), 900.0, "on one GPU, not two"),
    (
        Observation(0, TWO._replace(role=Role.PACKED), 0.0, 10.0, work=5.0, total=100.0),
        900.0,
        "beside others",
    ),
    (Observation(0, TWO, 0.0, 10.0, work=5.0, total=math.inf), 900.0, "it never ends"),
]


def heard(*seen: Observation) -> float:
    """What is told of a job of two GPUs with a limit of 900 s."""
    trace = trace_of("A 2x200", limit_s=[900.0])
    provider = MeasuredDuration(trace.jobs)
    loop, _ = prepare(parse_policy("fifo").make(), trace, parse_cluster("1x2"), Setting())
    provider.attach(loop.state)
    provider.submitted(0)
    for one in seen:
        provider.observed([one])
    return float(provider.known()[0])


@pytest.mark.parametrize(("seen", "estimate", "why"), SEEN, ids=[row[-1] for row in SEEN])
def test_what_counts_as_seen(seen: Observation, estimate: float, why: str) -> None:
    assert heard(seen) == pytest.approx(estimate), why


def test_the_newest_look_counts_if_it_is_news() -> None:
    first, alike, other = (Observation(0, TWO, 0.0, 10.0, work=w, total=100.0) for w in (5.0, 5.1, 10.0))
    assert heard(first, alike) == pytest.approx(200.0)
    assert heard(first, alike, other) == pytest.approx(100.0)


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_in_a_simulation_who_runs_is_known(noise: float) -> None:
    """A has run; its limit was wrong, and what is seen of it is right but for noise."""
    trace = trace_of("A 1x100 B 1x100 C 1x300", limit_s=[1000.0] * 3)
    setting = Setting(knowledge={"duration": "measured"}, observation_noise=noise)
    loop, _ = prepare(parse_policy("srtf").make(), trace, parse_cluster("1x1"), setting)
    loop.run(250.0)
    known = next(iter(loop.providers.values())).known().tolist()
    assert known[0] == pytest.approx(100.0, rel=3 * noise + 1e-9)
