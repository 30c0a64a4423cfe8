"""What other policies would have gained: measured by replays of the same jobs, on both sides."""

from __future__ import annotations

import numpy as np
import pytest

import rota
from rota.api.analysis import analyze, busiest
from rota.errors import InputError
from rota.model.jobs import JobTable, Truth
from rota.model.trace import Trace
from rota.reports.findings.studies import Analysis
from rota.traces.generate import generate

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trace() -> Trace:
    return generate(400, seed=3, load=1.2, cluster=rota.cluster_from("4x8"))


@pytest.fixture(scope="module")
def analysis(trace: Trace) -> Analysis:
    return analyze(trace, cluster="4x8", replays=60)


def test_the_busiest_jobs_are_a_stretch_of_the_trace() -> None:
    """Twenty jobs of an hour, one each hour, but for ten that come within a minute on eight GPUs each."""
    submit_s = np.concatenate((np.arange(10) * 3600.0, 40_000 + np.arange(10) * 6.0))
    gpus = np.repeat([1, 8], 10)
    table = JobTable.build([str(i) for i in range(20)], submit_s=submit_s, gpus=gpus)
    toy = Trace(table, Truth.build(np.full(20, 3600.0)), "toy", "plain")
    assert busiest(toy, 10).tolist() == list(range(10, 20))
    assert busiest(toy, 50).tolist() == list(range(20))


@pytest.mark.soak
def test_a_gain_is_what_the_two_replays_say(trace: Trace, analysis: Analysis) -> None:
    gains = [one.gain for finding in analysis.findings for one in finding.remedies if one.gain]
    (gain,) = [gain for gain in gains if gain.policy == "sjf"]
    part = trace.take(busiest(trace, 60))
    runs = rota.simulate(
        part, cluster="4x8", policies=["sjf", "fifo:skip=yes"], knowledge="duration=predicted", workers=1
    )
    after, before = (summary["mean_waiting_s"] for summary in runs.summaries)
    assert (gain.before, gain.after, gain.against) == (before, after, "fifo:skip=yes")


@pytest.mark.soak
def test_a_trace_without_starts_is_told_what_a_replay_would_show(analysis: Analysis) -> None:
    keys = {finding.key for finding in analysis.findings}
    assert "waiting" not in keys
    assert "replayed_waiting" in keys
    assert "how long jobs waited, and why" in {gap.what for gap in analysis.unsaid}
    (remark,) = analysis.remarks
    assert remark.startswith("Replays: the 60 jobs in a row that asked for most GPU time (")


def test_no_replays_cost_nothing(trace: Trace) -> None:
    assert all(one.gain is None for f in analyze(trace).findings for one in f.remedies)


def test_wrong_number(trace: Trace) -> None:
    with pytest.raises(InputError, match="-1 is no number of jobs"):
        analyze(trace, replays=-1)
