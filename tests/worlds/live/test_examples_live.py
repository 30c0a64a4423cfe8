"""The example of a policy that decides by itself, on a cluster whose tenants come one after the other."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from live_stage import Stage

from rota.scheduler.policy import systems

FAIR_START = Path(__file__).parents[3] / "examples" / "fair_start.py"


@pytest.fixture(autouse=True)
def known() -> None:
    if "fair_start" not in systems():
        runpy.run_path(str(FAIR_START))


def test_fair_start_remembers_of_tenants_that_come_later() -> None:
    """x has had both GPUs for 50 s when y comes, which the memory of before does not know: y goes first."""
    stage = Stage("gpu", gpu_type="A100", policy="fair_start", n1=2)
    first = stage.submit(gpus=2, tenant="x")
    stage.run(first)
    stage.wait(50.0)
    again, other = stage.submit(gpus=2, tenant="x"), stage.submit(gpus=2, tenant="y")
    stage.end(first)
    assert stage.job(other).attempts
    assert not stage.job(again).attempts
