"""Optimus as the baseline in Pollux' simulator, beside a twin of the published loop."""

from __future__ import annotations

from random import Random

import pytest

from play import finishes, play
from pollux_twin import optimus, some_jobs, tables, twin
from rota.model.cluster import parse_cluster
from rota.traces.elastic import make_elastic, parse_sizes
from rota.worlds.simulated.costs import parse_costs
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.semantics import semantics
from rota.worlds.simulated.speed_steps import StepTableSpeed


@pytest.mark.parametrize("seed", range(8))
def test_pollux_simulator(seed: int) -> None:
    """The published loop, tick by tick and job by job, ends every job in the same second."""
    random = Random(100 + seed)
    trace, found, cluster = some_jobs(random), tables(random), parse_cluster("2x4")
    trace = make_elastic(trace, parse_sizes("1:8"))
    speed = StepTableSpeed(trace, cluster, found)
    setting = Setting(semantics("pollux"), parse_costs("start=30s,restore=30s"), speed)
    expected = twin(trace, found.workloads["a"], optimus(found.workloads["a"]))
    assert finishes(play("optimus@pollux", trace, cluster, setting)) == expected
