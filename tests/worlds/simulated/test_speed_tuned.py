"""Jobs that choose their batch by what they measured of themselves."""

from __future__ import annotations

import math

import numpy as np
import pytest

from play import trace_of
from rota.api.fidelity import run_case
from rota.knowledge.needs import Knowledge
from rota.knowledge.step_tables import EpochTable, MeasuredWorkload, StepTable, StepTables
from rota.model.cluster import parse_cluster
from rota.model.grants import Grant
from rota.worlds.simulated.pace import At
from rota.worlds.simulated.speed_tuned import BatchBounds, TunedSpeed
from shared_data import needs_shared, reference

GRADIENT_S = 0.001
"""Seconds of an example; 0.02 s more for each step, 0.05 s to synchronise."""


def _times(most: int) -> StepTable:
    def rows(gpus: int, most: int) -> np.ndarray:
        sync = 0.05 * (gpus > 1)
        return np.array([(m, 0.02 + GRADIENT_S * m + sync, sync) for m in (8, most)])

    shapes = {(1,): rows(1, most), (2,): rows(2, most // 2), (4,): rows(4, most)}
    return StepTable(shapes, np.zeros((0, 5)))


def _speed(tuning: BatchBounds = BatchBounds.SIA, slower: float = 1.0) -> TunedSpeed:
    sizes, ends = np.array([32.0, 1024.0]), np.array([100.0, 200.0])
    every = np.ones((2, 2))
    epochs = EpochTable(sizes, ends, np.stack((ends, ends / 32)), every, 50.0 * every)
    workload = MeasuredWorkload(epochs, {"a": _times(64), "b": _times(128)}, slower=slower)
    trace = trace_of("A 1x1 B 1x1", workload=[0, 0], workload_names=("m",), batch_size=[32.0, 32.0])
    return TunedSpeed(trace, parse_cluster("1x4:a,1x4:b"), StepTables({"m": workload}), tuning=tuning)


ONE, TWO = Grant(0, (0,)), Grant(0, (0, 1))


def test_begins_with_the_smallest_batch_and_learns():
    """At the next tick at which it has worked it knows its steps, and takes more."""
    speed = _speed()
    first = speed.pace(0, TWO, (), At(0.0, 0.0, 0.0))
    assert (speed.batch_now[0], first.until_s) == (32.0, 60.0)
    second = speed.pace(0, TWO, (), At(100.0, 60.0, 0.0))
    assert speed.batch_now[0] > 32.0
    assert second.rate > first.rate
    assert second.until_s == 120.0  # the new batch is to be timed as well


def test_who_knows_all_is_left_alone_until_the_epoch_ends():
    speed, now, done = _speed(), 0.0, 0.0
    for _ in range(6):
        pace = speed.pace(0, TWO, (), At(done, now, 0.0))
        now, done = now + 60.0, done + 100.0
    assert pace.until_s == math.inf
    assert pace.until_work == 3200.0


def test_a_restart_teaches_nothing():
    """It holds its GPUs, but has not worked."""
    speed = _speed()
    speed.pace(0, TWO, (), At(0.0, 0.0, 0.0))
    again = speed.pace(0, TWO, (), At(0.0, 60.0, 0.0))
    assert (speed.batch_now[0], again.until_s) == (32.0, 120.0)
    assert speed.learnt.known().by_row["profiled"].tolist() == [[0, 0], [0, 0]]


def test_policies_are_told_what_jobs_have_learnt():
    """Of A on two GPUs of a; nothing of b, but what one GPU of each does alone."""
    speed = _speed()
    told = speed.knowledge[Knowledge.GOODPUT].known()
    assert np.isnan(told.shared["fits"]).all()
    speed.pace(0, TWO, (), At(0.0, 0.0, 0.0))
    speed.pace(0, TWO, (), At(100.0, 60.0, 0.0))
    told = speed.learnt.known()
    assert np.isnan(told.shared["fits"]).any(axis=2).tolist() == [[False, True], [True, True]]
    assert told.by_row["profiled"].tolist() == [[2, 0], [0, 0]]
    assert told.shared["noise"][0, 0].tolist() == [math.inf, 1.0, 50.0]
    assert told.shared["alone"][0] == pytest.approx([64 / 0.084, 128 / 0.148])


# whose rules, GPUs, most of one GPU in one pass
@pytest.mark.parametrize(
    ("tuning", "grant", "most"),
    [(BatchBounds.SIA, TWO, 32), (BatchBounds.POLLUX, TWO, 64), (BatchBounds.SIA, ONE, 64)],
)
def test_what_bounds_the_batch_of_one_gpu(tuning, grant, most):
    """In Sia's simulator what was measured on that very placement; in Pollux's on any."""
    speed = _speed(tuning)
    table = speed.workloads[0].times["a"]
    shape = (len(grant.devices),)
    assert speed._local_most(speed.workloads[0], table, shape) == most


def test_slower_than_its_steps():
    plain, slow = (_speed(slower=factor).pace(0, ONE, (), At(0.0, 0.0, 0.0)).rate for factor in (1.0, 2.0))
    assert plain / slow == pytest.approx(2.0)


# -- the authors' simulator ------------------------------------------------------------------------


@needs_shared
@pytest.mark.soak
@pytest.mark.parametrize("case", ["philly40-sia", "philly40-siafix", "philly40-gavel", "philly1-gavel"])
def test_authors(case):
    result = run_case(f"benchmarks/fidelity/sia-{case}.yaml", reference(""))
    assert result.holds, result
