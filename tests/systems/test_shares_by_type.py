"""Policies that decide numbers of GPUs, on a cluster of several types: no job has GPUs of two of them.

What a job was to have and finds no place for is handed out to others.
"""

from __future__ import annotations

from random import Random

import pytest

from idle_beside import run_and_watch
from play import play, trace_of
from rota.model.cluster import parse_cluster
from rota.scheduler.policy import parse_policy
from rota.worlds.simulated.faults import Fault
from rota.worlds.simulated.run import Setting, prepare
from tiers import each_seed

POLICIES = ["edf:size=most", "edf:size=fastest", "elasticflow:slot_s=10,restart_s=0", "afs:min_resize_s=0"]


@pytest.mark.parametrize("policy", POLICIES)
def test_who_comes_later_has_the_other_type(policy: str) -> None:
    """A could use all eight, and B waited beside the four that A cannot have."""
    trace = trace_of("A 1x600 B 1x10@1", gpus_min=[1, 1], gpus_max=[8, 1])
    record = play(policy, trace, "1x4:a,1x4:b")
    assert record.jobs["finish_s"].to_list() == [150.0, 11.0]


@pytest.mark.parametrize("policy", POLICIES[:3])  # afs resizes within a type
def test_who_runs_grows_as_far_as_it_can(policy: str) -> None:
    """The larger type is back at 10 s: its four GPUs are not the six that A could use, but more than two."""
    trace = trace_of("A 1x100", gpus_min=[1], gpus_max=[6])
    record = play(policy, trace, "1x4:a,1x2:b", Setting(faults=[Fault(0, 0.0, 10.0)]))
    assert record.jobs["finish_s"].to_list() == [30.0]


@pytest.mark.parametrize("policy", POLICIES)
@each_seed(8, 60, 600)
def test_nobody_waits_beside_idle_gpus(policy: str, seed: int) -> None:
    """Unlike nodes of up to three types, some lost for a while; a job of few sizes may find none of them."""
    draw = Random(f"types {seed}")
    nodes = [f"1x{draw.choice([1, 2, 4, 8])}:{draw.choice('abc')}" for _ in range(draw.randint(1, 5))]
    cluster = parse_cluster(",".join(nodes))
    jobs = [(draw.choice([0, draw.randint(0, 900)]), draw.randint(1, 2000)) for _ in range(12)]
    text = " ".join(f"J{n} 1x{run_s}@{at_s}" for n, (at_s, run_s) in enumerate(sorted(jobs)))
    most = [draw.randint(1, cluster.gpus) for _ in jobs]
    faults = list[Fault]()
    for node in range(cluster.nodes):
        lost_s = draw.uniform(0.0, 1500.0)
        faults += [Fault(node, lost_s, lost_s + draw.uniform(1.0, 3000.0))] * draw.randint(0, 1)
    trace = trace_of(text, gpus_min=[1] * len(jobs), gpus_max=most)
    loop, _ = prepare(parse_policy(policy).make(), trace, cluster, Setting(faults=faults))
    assert max(run_and_watch(loop).values(), default=0.0) <= 1e-6
