"""LAS: worked examples, a naive twin, and the parameters that would never come to rest."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from play import finishes, play, trace_of
from rota.errors import InputError
from rota.model.cluster import parse_cluster
from rota.model.tenants import Tenant, Tenants
from rota.scheduler.policy import parse_policy
from rota.worlds.simulated.abilities import parse_can
from rota.worlds.simulated.costs import parse_costs
from rota.worlds.simulated.run import Setting

EXAMPLE_1 = "J1 2x2 J2 1x8 J3 2x6"


@pytest.mark.parametrize(
    ("policy", "jobs", "cluster", "expected", "why"),
    [
        ("las:every=1", EXAMPLE_1, "1x2", [5, 14, 16], "Tiresias card, example 1: by GPU-time"),
        ("las:every=1,metric=time", EXAMPLE_1, "1x2", [4, 16, 14], "example 1, naive: by time"),
        (
            "las:quantum=20",
            "A 4x10 B 4x10",
            "1x4",
            [20, 15],
            "5 s each; then A and B are level, and B, who runs, stays",
        ),
        (
            "las:quantum=20",
            "A 4x10 B 4x10@7",
            "1x4",
            [20, 17],
            "B has received a quantum at 12, as has A, and stays",
        ),
        ("las:quantum=1000", "A 4x10 B 4x10", "1x4", [10, 20], "within a quantum nobody is preempted"),
        ("las:quantum=5,metric=time", "A 4x10 B 1x10", "1x4", [20, 15], "5 s each, whatever their width"),
        ("las:quantum=20", "A 4x10 B 2x9@5", "1x4", [19, 14], "B has had less all along"),
        (
            "las:quantum=1",
            "A 4x9 B 1x3 C 3x9",
            "1x4",
            [18, 3.75, 15.5],
            "C ends as its 27th quantum does, and is not stopped a rounding error before",
        ),
        ("las", "A 2x10 B 4x10 C 2x10", "1x4", [10, 20, 10], "C passes B by"),
    ],
)
def test_worked_examples(policy: str, jobs: str, cluster: str, expected: list[float], why: str) -> None:
    assert list(finishes(play(policy, jobs, cluster)).values()) == expected, why


@pytest.mark.parametrize(
    ("columns", "tenants"),
    [
        ({"gpu_types": [1, 1], "type_names": ["A"]}, ()),
        ({}, [Tenant("default", quota_gpus=1.0, hard=True)]),
    ],
    ids=["the other type is free", "the quota is used up"],
)
def test_free_gpus_that_are_of_no_use_keep_nobody_from_taking_turns(
    columns: dict[str, Any], tenants: Sequence[Tenant]
) -> None:
    cluster = replace(parse_cluster("1x1:A,1x4:B"), tenants=Tenants.of(*tenants))
    trace = trace_of("J1 1x40 J2 1x15", **columns)
    assert list(finishes(play("las:quantum=10", trace, cluster)).values()) == [55, 25]


def naive(jobs: list[tuple[int, int, int]], gpus: int, quantum: int) -> list[int]:
    """Second by second: rank by whole quanta, running first, then submission; admit what fits."""
    left, served, runs = [d for _, d, _ in jobs], [0] * len(jobs), [False] * len(jobs)
    ends, now = [0] * len(jobs), 0
    while any(left):
        live = [i for i, (_, _, submit) in enumerate(jobs) if submit <= now and left[i]]
        free, chosen = gpus, set[int]()
        for i in sorted(live, key=lambda i: (served[i] // quantum, not runs[i], i)):
            if jobs[i][0] <= free:
                free -= jobs[i][0]
                chosen.add(i)
        runs = [i in chosen for i in range(len(jobs))]
        now += 1
        for i in chosen:
            left[i] -= 1
            served[i] += jobs[i][0]
            if not left[i]:
                ends[i] = now
    return ends


@pytest.mark.parametrize("quantum", [4, 12])
def test_quanta_are_looked_at_when_they_end(quantum: int) -> None:
    """The planned moments miss nothing that a twin sees that looks every second."""
    for seed in range(30):
        rng, submit, jobs = random.Random(seed), 0, []
        for _ in range(20):
            jobs.append((rng.choice([1, 1, 2, 4]), rng.randint(1, 25), submit))
            submit += rng.randint(0, 8)
        text = " ".join(f"J{i} {g}x{d}@{s}" for i, (g, d, s) in enumerate(jobs))
        found = finishes(play(f"las:quantum={quantum}", text))
        assert list(found.values()) == naive(jobs, 4, quantum), f"seed {seed}"


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("las:quantum=0", "would never stop switching between equal jobs"),
        ("las:quantum=-5", "would never stop"),
        ("las:quantum=inf", "expected a number of GPU-seconds above 0"),
        ("las:every=-1", "every=-1 is no time"),
    ],
)
def test_wrong_parameters_are_refused(spec: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        parse_policy(spec)


NOTHING = Setting(can=parse_can("nothing"))
LONG_STARTS, DEAR_STOPS = (Setting(costs=parse_costs(text)) for text in ("switch=60s", "preempt=60s"))


@pytest.mark.parametrize(
    ("policy", "setting", "ends"),
    [
        # turns of 1 1 2 2 4 4 minutes each, and the one that is long enough
        ("las:every=60", NOTHING, {"A": 1980, "B": 2280}),
        # of 1 2 2 2 2 2 2 4 4 4 4 minutes, as who is level runs on, and the one that is long enough
        ("las:quantum=60", NOTHING, {"A": 2340, "B": 2040}),
        # of two minutes, of which the first is the start
        ("las:every=60", LONG_STARTS, {"A": 1140, "B": 1260}),
        ("las:quantum=60", LONG_STARTS, {"A": 1020, "B": 1140}),
        ("las:every=60", DEAR_STOPS, {"A": 1080, "B": 1200}),
        ("las:quantum=60", DEAR_STOPS, {"A": 1020, "B": 900}),
    ],
)
def test_quanta_in_vain_grow(policy: str, setting: Setting, ends: dict[str, float]) -> None:
    assert finishes(play(policy, "A 1x300 B 1x300", "1x1", setting)) == ends


def test_a_longer_quantum_ends_before_anybody_else_begins() -> None:
    """A's, of four minutes, lasts from 12 to 16 min; C, who has received nothing, comes in the 14th."""
    ends = finishes(play("las:every=60", "A 1x300 B 1x300 C 1x10@800", "1x1", NOTHING))
    assert ends["C"] == 970
