"""Goals: what each is, and that it is the number that reports have."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from advice_play import CLUSTER, busy

from rota.errors import InputError
from rota.model.cluster import parse_cluster
from rota.reports.advice.goals import GOALS, WeightedGoals, parse_goals, parse_power, wanted
from rota.reports.sample import Sample
from rota.reports.summary import summarise
from rota.reports.window import parse_window
from rota.traces.deadlines import parse_deadlines, with_deadlines
from rota.worlds.simulated.run import run

RECORD = run("srtf", with_deadlines(busy(), parse_deadlines("1:3")), parse_cluster(CLUSTER))
SAME = [
    # goal          metric
    ("jct",         "mean_jct_s"),
    ("tail",        "p99_waiting_s"),
    ("fairness",    "worst_tenant_rho"),
    ("utilisation", "utilisation"),
    ("deadlines",   "deadline_share"),
]  # fmt: skip


@pytest.mark.parametrize(("goal", "metric"), SAME)
@pytest.mark.parametrize("window", [None, "20%:80%"])
def test_a_goal_is_the_metric_of_reports(goal: str, metric: str, window: str | None) -> None:
    measured = None if window is None else parse_window(window)
    value = summarise(RECORD, measured)[metric]
    assert value is not None
    assert GOALS[goal].of(Sample.of(RECORD, measured)) == pytest.approx(value)


def test_energy_is_of_what_was_held() -> None:
    """Every GPU-second costs 240 W more than an idle one; of two types each its own."""
    power = parse_power("300:60", parse_cluster(CLUSTER))
    sample = Sample.of(RECORD)
    held = sample.column("service_gpu_s")[sample.finished].mean()
    assert GOALS["energy"].of(sample, power) == pytest.approx(240.0 * held)
    two = parse_cluster("1x8:A100,1x8:V100")
    mixed = Sample.of(run("fifo", busy(), two))
    drawn = GOALS["energy"].of(mixed, parse_power("A100=400:100,V100=250:50", two))
    held = mixed.column("service_gpu_s").mean()
    assert 200.0 * held < drawn < 300.0 * held


WEIGHTS = [
    ("jct", {"jct": 1.0}),
    ("jct,tail", {"jct": 1.0, "tail": 1.0}),
    ("jct=2, tail=0.5", {"jct": 2.0, "tail": 0.5}),
]


@pytest.mark.parametrize(("text", "weights"), WEIGHTS)
def test_weights(text: str, weights: dict[str, float]) -> None:
    assert parse_goals(text) == weights


WRONG = [
    ("speed", "'speed' is no goal; expected jct, tail, fairness, utilisation, deadlines, energy, or several"),
    ("jct=0", "'jct=0' has no weight; expected jct=2, above 0"),
    ("jct=much", "'jct=much' has no weight"),
    ("jct,jct", "names jct twice"),
    ("", "names no goal"),
]


@pytest.mark.parametrize(("text", "sentence"), WRONG)
def test_what_is_no_goal(text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=re.escape(sentence)):
        parse_goals(text)


POWERS = [
    ("300", "'300' is no power; expected BUSY:IDLE watts"),
    ("60:300", "'60:300' is no power"),
    ("A100=400:60", "says nothing of V100"),
    ("", "'' is no power"),
]


@pytest.mark.parametrize(("text", "sentence"), POWERS)
def test_what_is_no_power(text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=re.escape(sentence)):
        parse_power(text, parse_cluster("1x8:A100,1x8:V100"))


def test_a_trace_that_cannot_say() -> None:
    alone = replace(busy(), jobs=replace(busy().jobs, tenant=np.zeros(len(busy()), np.int32)))
    for goal, trace, sentence in [
        ("deadlines", busy(), "no job of .* has one; expected --deadlines"),
        ("energy", busy(), "no trace says what a GPU draws; expected --power"),
        ("fairness", alone, "1 tenant of .* with 10 jobs or more"),
    ]:
        with pytest.raises(InputError, match=sentence):
            wanted({goal: 1.0}, trace, None)


def test_several_goals_are_a_weighted_mean_of_ratios() -> None:
    """Half the time at three quarters of the weight, and half the utilisation at a quarter: 2 ** (-1/2)."""
    both = WeightedGoals((GOALS["jct"], GOALS["utilisation"]), (0.75, 0.25))
    change = both.cost((50.0, 0.4)) - both.cost((100.0, 0.8))
    assert np.exp(change) == pytest.approx(2.0**-0.5)
