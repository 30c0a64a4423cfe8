"""Throughput by type as it is learnt: first runs spread, what was seen counts, the rest is estimated."""

from __future__ import annotations

import numpy as np
import pytest

from play import trace_of
from rota.knowledge.estimated import CURIOSITY, EstimatedThroughput
from rota.knowledge.needs import Knowledge, Observation
from rota.knowledge.throughput import ThroughputTable
from rota.model.cluster import parse_cluster
from rota.model.grants import Grant
from rota.worlds.simulated.run import Setting, run
from rota.worlds.simulated.speed_table import ThroughputSpeed

CLUSTER = parse_cluster("1x2:V100,1x2:K80")
V100, K80 = 0, 2
"""A device of each type."""


def provider(count, **columns):
    names = {"workload": range(count), "workload_names": [f"w{i}" for i in range(count)], **columns}
    jobs = trace_of(" ".join(f"j{i} 1x9" for i in range(count)), **names).jobs
    made = EstimatedThroughput(jobs, CLUSTER)
    for row in range(count):
        made.submitted(row)
    return made


def see(made, row, device, speed):
    made.observed([Observation(row, Grant(row, (device,)), 0.0, 10.0, work=10.0 * speed)])


def test_first_runs_are_spread_over_the_types():
    assert provider(3).known().tolist() == [[CURIOSITY, 1.0], [1.0, CURIOSITY], [CURIOSITY, 1.0]]


def test_a_type_on_which_it_never_ran_is_worth_a_try():
    made = provider(1)
    see(made, 0, V100, 4.0)
    assert made.known()[0].tolist() == [4.0, 4.0 * CURIOSITY]
    see(made, 0, K80, 1.0)
    assert made.known()[0].tolist() == [4.0, 1.0]
    see(made, 0, K80, 2.0)  # a moving average
    assert made.known()[0].tolist() == [4.0, 1.5]


def test_a_class_is_taken_to_be_as_the_one_it_is_like():
    """The third ran on V100 alone: with one number any of the known ones is as near, and the first counts."""
    made = provider(3)
    for row, on_v100, on_k80 in ((0, 4.0, 1.0), (1, 4.0, 3.0)):
        see(made, row, V100, on_v100)
        see(made, row, K80, on_k80)
    see(made, 2, V100, 8.0)
    low, high = sorted((8.0 * 1.0 / 4.0 * CURIOSITY, 8.0 * 3.0 / 4.0 * CURIOSITY))
    assert low <= made.known()[2, 1] <= high
    assert made.known()[2, 0] == 8.0


def test_jobs_of_one_workload_are_a_class():
    made = provider(2, workload=[0, 0], workload_names=["resnet"])
    see(made, 0, V100, 4.0)
    assert made.known()[1, 0] == 4.0


def test_what_is_no_news_changes_nothing():
    made = provider(1)
    see(made, 0, V100, 4.0)
    before = made.known()
    see(made, 0, V100, 4.01)
    assert made.known() is before


def test_a_shared_device_says_nothing():
    made = provider(1)
    made.observed([Observation(0, Grant(0, (V100,), share=0.5), 0.0, 10.0, work=40.0)])
    assert made.known()[0].tolist() == [CURIOSITY, 1.0]


def test_gavel_finds_out_by_itself():
    """w0 is four times as fast on V100, w1 equally fast on both: each has to end up where it belongs."""
    rates = {("w0", "V100", 1): 4.0, ("w0", "K80", 1): 1.0, ("w1", "V100", 1): 1.1, ("w1", "K80", 1): 1.0}
    cluster = parse_cluster("1x1:V100,1x1:K80")
    trace = trace_of("A 1x1 B 1x1", workload=[0, 1], workload_names=["w1", "w0"])
    object.__setattr__(trace.truth, "iterations", np.array([20_000.0, 40_000.0]))
    finishes = {}
    for source in ("oracle", "measured", "assumed"):
        speed = ThroughputSpeed(trace, cluster, ThroughputTable.build(rates))
        setting = Setting(speed=speed, knowledge={Knowledge.THROUGHPUT: source})
        record = run("gavel:objective=throughput", trace, cluster, setting)
        finishes[source] = float(record.jobs["finish_s"].mean())
    assert finishes["oracle"] == pytest.approx(finishes["measured"], rel=0.08)
    assert finishes["measured"] < 0.75 * finishes["assumed"]
