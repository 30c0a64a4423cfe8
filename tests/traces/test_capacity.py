"""Sizing a cluster by a trace, and naming one on a command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.errors import InputError
from rota.model.jobs import JobTable, RecordedRun, Truth
from rota.model.trace import Trace
from rota.traces.capacity import auto_cluster, cluster_from, peak_demand, sweep_peak
from rota.traces.generate import generate


def trace_of(
    jobs: list[tuple[float, float, int]], observed: RecordedRun | None = None, **columns: object
) -> Trace:
    """Jobs as (submission, duration, GPUs)."""
    submit_s, duration_s, gpus = zip(*jobs, strict=True)
    ids = [str(row) for row in range(len(jobs))]
    table = JobTable.build(ids, submit_s=submit_s, gpus=gpus, **columns)
    return Trace(table, Truth.build(duration_s), "hand", "hand", observed)


@pytest.mark.parametrize(
    ("jobs", "peak", "why"),
    [
        ([(0, 10, 4), (5, 10, 4)], 8, "they overlap"),
        ([(0, 10, 4), (10, 10, 4)], 4, "one ends as the other begins"),
        ([(0, 10, 4), (20, 10, 3), (21, 1, 2)], 5, "the later pair is larger"),
        ([(0, 0, 8), (5, 10, 2)], 8, "a job of no length still has to fit"),
        ([(0, 10, 0), (0, 10, 2)], 2, "CPU jobs hold no GPU"),
    ],
)
def test_the_peak_if_nothing_waits(jobs: list[tuple[float, float, int]], peak: int, why: str) -> None:
    demand = peak_demand(trace_of(jobs))
    assert demand.gpus_by_type == {"GPU": peak}, why
    assert "every job started at its submission" in demand.why


def test_recorded_times_come_first() -> None:
    """Both were submitted together, but one waited for the other; a third never started."""
    seen = RecordedRun(np.array([0.0, 10.0, np.nan]), np.array([10.0, np.nan, 99.0]))
    demand = peak_demand(trace_of([(0, 10, 4), (0, 10, 4), (0, 10, 4)], seen))
    assert demand.gpus_by_type == {"GPU": 4}
    assert "recorded" in demand.why


def test_recorded_times_that_are_all_missing_do_not_count() -> None:
    seen = RecordedRun(np.full(2, np.nan), np.full(2, np.nan))
    assert peak_demand(trace_of([(0, 10, 4), (0, 10, 4)], seen)).gpus_by_type == {"GPU": 8}


def test_failing_attempts_hold_gpus_too() -> None:
    trace = trace_of([(0, 10, 4), (15, 10, 4)])
    again = Trace(trace.jobs, Truth.build([10, 10], failures={0: (10.0,)}), "hand", "hand")
    assert peak_demand(again).gpus_by_type == {"GPU": 8}


def test_each_type_has_its_own_peak() -> None:
    """Types as a mask over (A, B): one job on A, one on B, one on either, one on any."""
    masks = {"gpu_types": [0b01, 0b10, 0b11, 0], "type_names": ("A", "B")}
    trace = trace_of([(0, 9, 8), (0, 9, 4), (0, 9, 2), (0, 9, 1)], **masks)
    assert peak_demand(trace).gpus_by_type == {"A": 11, "B": 4}
    assert auto_cluster(trace, 4).describe() == "3x4:A,1x4:B (16 GPUs in 4 nodes)"


def test_shares_add_up() -> None:
    trace = trace_of([(0, 9, 1)] * 5, gpu_share=0.3)
    assert peak_demand(trace).gpus_by_type == {"GPU": 2}


intervals = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 9), st.integers(1, 8)), max_size=12)


@given(intervals)
def test_the_sweep_agrees_with_counting_every_moment(jobs: list[tuple[int, int, int]]) -> None:
    began, length, amount = np.array(jobs, dtype=np.float64).reshape(-1, 3).T
    counted = max(
        (amount[(began <= moment) & (moment < began + length)].sum() for moment in range(30)), default=0
    )
    assert sweep_peak(began, began + length, amount) == counted


def test_the_automatic_cluster_holds_the_peak_and_not_a_node_more() -> None:
    trace = generate(5000, seed=3, load=0.7, cluster=512)
    peak = peak_demand(trace).gpus_by_type["GPU"]
    for per_node in (1, 4, 8):
        cluster = auto_cluster(trace, per_node)
        assert peak <= cluster.gpus < peak + per_node


def test_clusters_by_name(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("nodes: [{count: 3, gpus: 4}]")
    assert cluster_from("80x8:V100").gpus == 640
    assert cluster_from(str(file)).gpus == 12
    assert cluster_from("auto", trace_of([(0, 1, 9)])).describe() == "2x8 (16 GPUs in 2 nodes)"


@pytest.mark.parametrize(
    ("text", "trace", "problem"),
    [
        ("auto", None, "give a trace, or name the cluster"),
        ("auto", trace_of([(0, 1, 0)]), "has no job with GPUs"),
        ("eight", None, "does not describe nodes"),
        ("none.yaml", None, "No such file"),
    ],
)
def test_names_of_no_cluster_are_refused(text: str, trace: Trace | None, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        cluster_from(text, trace)


def test_nodes_without_gpus_hold_nothing() -> None:
    with pytest.raises(InputError, match="node of 0 GPUs"):
        auto_cluster(trace_of([(0, 1, 1)]), 0)
