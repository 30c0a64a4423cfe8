"""Who tells how much is left: the truth, losses that are heard, losses made up."""

from __future__ import annotations

import math

import numpy as np
import pytest

from play import trace_of
from rota.knowledge.convergence import EPOCH_S, MADE_UP, HeardConvergence, MadeUpLosses, oracle_convergence
from rota.knowledge.loss_curve import converged_at, loss_at
from rota.knowledge.needs import Observation
from rota.knowledge.registry import Setup
from rota.model.cluster import parse_cluster
from rota.model.grants import Grant
from rota.table.progress import Progress
from rota.table.state import State

TRACE = trace_of("A 1x3000 B 1x600 C 1x600", workload=[0, 0, 1], workload_names=("bert", "ncf"))
CLUSTER = parse_cluster("1x4")


def running() -> State:
    """A, B and C run, at full speed, since 0."""
    progress = Progress(3)
    state = State(TRACE.jobs, CLUSTER, progress)
    for row in range(3):
        state.submit(row)
        state.start(Grant(row, (row,)))
        progress.rate[row] = 1.0
    return state


def hear(provider: HeardConvergence, state: State, row: int, losses: list[float]) -> None:
    """One loss at the end of each epoch."""
    for epoch, loss in enumerate(losses, 1):
        state.now = epoch * EPOCH_S
        provider.observed([Observation(row, state.grants[row], 0.0, state.now, loss=loss)])


def test_losses_that_are_heard() -> None:
    """On the curve of worked example 1 a job has converged after 25 epochs, of which ten are done."""
    state, provider = running(), HeardConvergence(TRACE.jobs)
    provider.attach(state)
    hear(provider, state, 0, [1 / (0.5 * k + 1.0) + 0.1 for k in range(1, 11)])
    told = provider.known().by_row
    assert told["left_s"][0] == pytest.approx(15 * EPOCH_S)
    assert told["points"].tolist() == [10, 0, 0]
    assert np.isnan(told["left_s"][1:]).all(), "nobody knows anything of the others"


def test_who_has_converged_has_an_epoch_left() -> None:
    state, provider = running(), HeardConvergence(TRACE.jobs)
    provider.attach(state)
    hear(provider, state, 0, [1.0, 0.5, *([0.4] * 20)])
    assert provider.known().by_row["left_s"][0] == pytest.approx(EPOCH_S)


def test_until_there_are_losses_similar_jobs_tell() -> None:
    """B took 600 s; A, of the same workload, has done 60 of them.  Of C's workload nobody has completed."""
    state, provider = running(), HeardConvergence(TRACE.jobs)
    provider.attach(state)
    state.now = 600.0
    provider.ended(1, 600.0)
    state.now = 60.0
    assert provider.known().by_row["left_s"][[0, 2]] == pytest.approx([540.0, math.nan], nan_ok=True)


@pytest.mark.parametrize("loss", [math.nan, math.inf, 0.0, -1.0])
def test_odd_losses_are_not_heard(loss: float) -> None:
    state, provider = running(), HeardConvergence(TRACE.jobs)
    provider.attach(state)
    hear(provider, state, 0, [1.0, loss, 0.5, 0.3])
    assert provider.known().by_row["points"][0] == 3


def test_many_losses_are_thinned() -> None:
    """Losses without end do not fill memory, and the curve stays what it was."""
    state, provider = running(), HeardConvergence(TRACE.jobs)
    provider.attach(state)
    hear(provider, state, 0, [1 / (0.005 * k + 1.0) + 0.1 for k in range(1, 400)])
    assert len(provider._heard[0]) <= 64
    assert provider.known().by_row["points"][0] == 399


def test_the_truth_goes_by_durations() -> None:
    state = running()
    provider = oracle_convergence(Setup(TRACE.jobs, CLUSTER, TRACE.truth))
    assert provider is not None
    provider.attach(state)
    state.now = 500.0
    assert provider.known().by_row["left_s"].tolist() == [2500.0, 100.0, 100.0]  # type: ignore[union-attr]


def test_made_up_losses_end_with_the_job() -> None:
    """Their curve has levelled off after 30 epochs, a thirtieth of the job each, but for noise."""
    assert converged_at(MADE_UP[None, :]).tolist() == [30]
    state = running()
    provider = MadeUpLosses(TRACE.jobs, TRACE.truth.duration_s)
    provider.attach(state)
    state.now = 500.0
    told = provider.known().by_row
    assert told["points"].tolist() == [5, 25, 25]
    assert told["left_s"][1:] == pytest.approx([100.0, 100.0], abs=80.0)
    assert loss_at(MADE_UP, np.array(1.0)) == pytest.approx(1 / (0.2 + 1 / 0.9) + 0.1)


def test_made_up_losses_are_the_same_whenever_they_are_asked_for() -> None:
    often, once = (
        MadeUpLosses(TRACE.jobs, TRACE.truth.duration_s),
        MadeUpLosses(TRACE.jobs, TRACE.truth.duration_s),
    )
    state = running()
    for provider in (often, once):
        provider.attach(state)
    for now in range(0, 500, 7):
        state.now = float(now)
        often.known()
    state.now = 500.0
    assert often.known().by_row["left_s"].tolist() == once.known().by_row["left_s"].tolist()
