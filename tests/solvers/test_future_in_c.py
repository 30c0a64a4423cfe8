"""Plans on curves of free GPUs in C are those that NumPy comes to, to the bit."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rota.solvers import future
from rota.solvers.future import FreeCurve, Plan, SpeedLevels, least_share, soonest
from tiers import each_seed

pytestmark = pytest.mark.skipif(future._LOWEST is None, reason="`future.c` was not built")


def _curve(draw: np.random.Generator) -> FreeCurve:
    starts = np.unique(np.append(0, draw.integers(0, 60, draw.integers(0, 12))))
    return FreeCurve(starts, draw.integers(0, 10, len(starts)))


def _plan(draw: np.random.Generator) -> Plan:
    curve = _curve(draw)
    return Plan(curve.starts, curve.free, 7.5)


def _levels(draw: np.random.Generator) -> SpeedLevels:
    counts = np.unique(draw.choice([1, 2, 3, 4, 8], draw.integers(1, 5)))
    rates = np.sort(draw.choice([1.0, 1.5, 2.0, draw.random(), 3.7], len(counts)))
    return SpeedLevels.of(counts, rates)


def _of(plan: Plan | None) -> object:
    return None if plan is None else (plan.starts.tolist(), plan.gpus.tolist(), plan.end, plan.made)


@each_seed(300, 1000, 5000, at_once=100)
def test_plans_are_those_of_numpy(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(seed)
    curve, levels = _curve(draw), _levels(draw)
    work = float(draw.choice([0.0, 5.0, draw.exponential(40.0), math.inf, math.nan]))
    due = float(draw.choice([0.5, 10.0, draw.uniform(0.0, 120.0), math.inf]))
    now, pause = float(draw.choice([0.0, 0.25, draw.random()])), float(draw.choice([0.0, 0.2]))
    now_level = None if draw.random() < 0.5 else int(draw.integers(0, len(levels.gpus)))
    held = int(draw.integers(0, 5))

    def both() -> tuple[object, object]:
        share = least_share(curve, levels, work, due, now=now, first=now_level, pause=pause, held=held)
        return _of(share), _of(soonest(curve, levels, work, now=now, pause=pause, held=held))

    ours = both()
    monkeypatch.setattr(future, "_LOWEST", None)
    assert repr(ours) == repr(both())


@each_seed(50, 200, 1000, at_once=50)
def test_what_plans_leave_is_that_of_numpy(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(seed)
    curve, plan = _curve(draw), _plan(draw)
    ours = [curve.less(plan), curve.more(plan)]
    monkeypatch.setattr(future, "_CURVE_WITH", None)
    for one, other in zip(ours, [curve.less(plan), curve.more(plan)], strict=True):
        assert (one.starts.tolist(), one.free.tolist()) == (other.starts.tolist(), other.free.tolist())


def test_arrays_of_other_numbers_are_no_plan() -> None:
    with pytest.raises(TypeError, match="int64"):
        FreeCurve(np.zeros(1), np.zeros(1, dtype=np.int64)).less(future.NOTHING)
