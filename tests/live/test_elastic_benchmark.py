"""The benchmark of elastic policies: what it simulates is what it says."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rota.worlds.simulated.costs import CostModel
from rota.worlds.simulated.measured_costs import MeasuredCosts

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "elastic.py"


@pytest.fixture(scope="module")
def elastic() -> ModuleType:
    spec = importlib.util.spec_from_file_location("rota_benchmarks_elastic", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(PROGRAM.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(PROGRAM.parent))
    return module


def said(steps: int, at_s: float, slots: int, batch: float, noise: float | None = None) -> dict[str, Any]:
    return {
        "steps": steps,
        "at_s": at_s,
        "slots": slots,
        "batch_size": batch,
        "gradient_noise": noise,
        "attempt": 1,
    }


def test_what_steps_took_beyond_their_sleep(elastic: ModuleType) -> None:
    """On one slot 10 ms more, on two 30 ms more; across a change of the batch nobody knows."""
    slept_s = 0.02 + 0.004 * 32
    one = [said(10, 100.0, 1, 32), said(20, 100.0 + 10 * (slept_s + 0.01), 1, 32), said(90, 103.0, 1, 64)]
    two = [said(5, 200.0, 2, 64, 100.0), said(9, 200.0 + 4 * (slept_s + 0.03), 2, 64, 120.0)]
    took = elastic.measured({"1": one, "2": two}, [105.0, two[-1]["at_s"] + 4.0])
    expected = elastic.Measured(0.01, 0.02, 110.0, 3.0)
    assert vars(took) == pytest.approx(vars(expected))


@pytest.mark.parametrize(("policy", "first_gpus"), [("fifo", 1), ("afs", 4)])
def test_a_job_alone_by_hand(elastic: ModuleType, policy: str, first_gpus: int) -> None:
    """It asks for one slot: `fifo` gives it that, `afs` all four; the best batch within 32 to 256."""
    plan = elastic.Plan([0.0], [1], [400])
    outcome = elastic.Outcome([1000.0], [1002.0], [1100.0], 0, [32.0])
    took = elastic.Measured(0.01, 0.02, 128.0, 0.5)
    replay = elastic.simulated(plan, outcome, policy, MeasuredCosts(start=CostModel(2.0)), took, seed=1)
    sync_s = 0.0 if first_gpus == 1 else 0.02
    rates = [
        batch * (128 + 32) / (128 + batch) / (0.03 + 0.004 * batch / first_gpus + sync_s)
        for batch in range(32, 257, first_gpus)
    ]
    assert replay.submit_s == [1000.0]
    assert replay.finish_s[0] == pytest.approx(1000.0 + 2.5 + 400 * 32 / max(rates), rel=0.01)
