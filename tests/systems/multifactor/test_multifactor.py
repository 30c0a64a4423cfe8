"""Multifactor priority: fair share, priorities, decayed use, and EASY backfill where all weights are 0."""

from __future__ import annotations

import numpy as np
import pytest

from play import play, starts, trace_of
from rota.systems.multifactor.usage import bring_up
from rota.traces.generate import generate

CLUSTER = "1x4"


def test_the_tenant_that_used_less_comes_first() -> None:
    """A and B are of one tenant, C of another: C is younger than B, and its tenant has used nothing."""
    jobs = trace_of("A 4x10 B 4x10@1 C 4x10@2", tenant=[0, 0, 1], tenant_names=("a", "b"))
    assert starts(play("multifactor", jobs, CLUSTER)) == {"A": 0.0, "C": 10.0, "B": 20.0}
    assert starts(play("multifactor:share=0", jobs, CLUSTER)) == {"A": 0.0, "B": 10.0, "C": 20.0}


def test_past_use_is_forgotten() -> None:
    """X used 400 GPU-seconds long ago, Y half as many just now."""
    jobs = trace_of(
        "X 4x100 Y 4x50@1000 Y2 4x10@1039 X2 4x10@1040", tenant=[0, 1, 1, 0], tenant_names=("x", "y")
    )
    long = starts(play("multifactor:half_life_s=1e9", jobs, CLUSTER))
    brief = starts(play("multifactor:half_life_s=60", jobs, CLUSTER))
    assert (long["Y2"], long["X2"]) == (1050.0, 1060.0)
    assert (brief["X2"], brief["Y2"]) == (1050.0, 1060.0)


def test_priorities_come_before_shares_and_age() -> None:
    jobs = trace_of("A 4x10 B 4x10@1 C 4x10@2", tenant=[0, 1, 0], tenant_names=("a", "b"), priority=[0, 0, 5])
    assert starts(play("multifactor", jobs, CLUSTER)) == {"A": 0.0, "C": 10.0, "B": 20.0}
    assert starts(play("multifactor:priority=0", jobs, CLUSTER)) == {"A": 0.0, "B": 10.0, "C": 20.0}


@pytest.mark.parametrize("seed", range(5))
def test_without_weights_it_is_easy_backfill(seed: int) -> None:
    trace = generate(150, seed=seed, load=1.1, cluster=16)
    ours = play("multifactor:age=0,share=0,priority=0", trace, "2x8")
    assert starts(ours) == starts(play("fifo:backfill=easy,priority=no", trace, "2x8"))


@pytest.mark.parametrize("seed", range(20))
def test_decayed_use_is_a_sum_over_what_was_held(seed: int) -> None:
    """However often it is brought up: each second held counts 2^-(age/half-life)."""
    rng = np.random.default_rng(seed)
    half_life_s, memory, now, held = 100.0, {}, 0.0, []
    for _ in range(12):
        used = bring_up(memory, now, half_life_s)
        gpus = float(rng.integers(0, 8))
        memory["holds"] = {"a": gpus}
        length_s = float(rng.integers(1, 120))
        held.append((now, now + length_s, gpus))
        now += length_s
    used = bring_up(memory, now, half_life_s)
    step_s = 0.05
    naive = sum(
        gpus * step_s * 0.5 ** ((now - at) / half_life_s)
        for begin, end, gpus in held
        for at in np.arange(begin + step_s / 2, end, step_s).tolist()
    )
    assert used["a"] == pytest.approx(naive, rel=1e-3)
