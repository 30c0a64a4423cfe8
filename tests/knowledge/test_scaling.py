"""Scaling curves: concave, interpolated, flat beyond what was measured."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from play import trace_of
from rota.errors import InputError
from rota.knowledge.scaling import ScalingCurves, concave, curves_of, linear_scaling, rates_on
from rota.knowledge.throughput import ThroughputTable
from rota.model.cluster import parse_cluster


@pytest.mark.parametrize(
    ("rates", "clean", "why"),
    [
        ([0, 1, 2, 3], [0, 1, 2, 3], "linear stays"),
        ([0, 1, 1.6, 2.0], [0, 1, 1.6, 2.0], "concave stays"),
        ([0, 1, 2, 2, 4], [0, 1, 2, 3, 4], "a plateau at 3 is bridged"),
        ([0, 1, 3], [0, 1.5, 3], "p(2) > 2 p(1) is bridged from 0"),
        ([0, 2, 1], [0, 2, 2], "no curve falls"),
        ([0, 0, 0], [0, 0, 0], "a job that cannot run"),
    ],
)
def test_concave(rates, clean, why):
    assert concave(np.array(rates, dtype=float)).tolist() == pytest.approx(clean), why


@given(st.lists(st.floats(0, 100), min_size=1, max_size=20))
def test_concave_envelope(rates):
    """The envelope is concave, rises, and touches nothing from below."""
    curve = concave(np.array([0.0, *rates]))
    assert (curve >= np.array([0.0, *rates]) - 1e-9).all()
    steps = np.diff(curve)
    assert (steps >= -1e-9).all()
    assert (np.diff(steps) <= 1e-6).all()


def test_curves_of_jobs():
    """One curve per workload, read as wide as the reader needs."""
    curves = ScalingCurves.build({"a": {1: 2.0, 2: 3.0}, "b": {1: 1.0}})
    jobs = trace_of("A 1x1 B 2x1", workload=[0, 1], workload_names=("b", "a"), gpus_max=[3, 4]).jobs
    table = curves.of_jobs(jobs)
    assert curves_of(table, np.arange(2), 4).tolist() == [[0, 1, 1, 1, 1], [0, 2, 3, 3, 3]]
    assert rates_on(table, np.array([1, 0]), np.array([2, 9])).tolist() == [3, 1]


def test_curves_from_a_throughput_table():
    """The numbers between those measured are interpolated."""
    table = ThroughputTable.build({("w", "v100", 1): 1.0, ("w", "v100", 4): 2.5, ("x", "k80", 1): 1.0})
    curves = ScalingCurves.from_table(table, "V100")
    assert curves.workloads == ("w",)
    assert curves.rates.tolist() == [[0.0, 1.0, 1.5, 2.0, 2.5]]
    with pytest.raises(InputError, match="has no rates for 'h100'"):
        ScalingCurves.from_table(table, "h100")


def test_workload_without_a_curve_is_refused():
    curves = ScalingCurves.build({"a": {1: 1.0}})
    with pytest.raises(InputError, match="job A runs 'z', which has no scaling curve"):
        curves.of_jobs(trace_of("A 1x1", workload=0, workload_names=("z",)).jobs)


def test_linear_scaling_is_1_at_the_request():
    jobs = trace_of("A 2x1 B 4x1").jobs
    table = linear_scaling(jobs, parse_cluster("1x4")).known()
    assert curves_of(table, np.arange(2), 4).tolist() == [[0, 0.5, 1, 1.5, 2], [0, 0.25, 0.5, 0.75, 1]]
