"""Kinds of waiting jobs: who sleeps because what is free would be nothing to him."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from rota.model.cluster import Cluster, NodeShape, parse_cluster
from rota.systems.philly.locality import Domains, Locality
from rota.systems.philly.queues import Kinds
from rota.table.free import Free
from rota.table.node_sets import NodeSets
from rota.traces.generate import generate
from rota.worlds.simulated.run import run


def _chosen(domains: Domains, free: Free, gpus: int, level: Locality, by_type: list[int]) -> int:
    """Candidate nodes of an attempt, as said: the first type on which all fits, else the first at all."""
    offers = [domains.candidates(free, gpus, level, within) for within in by_type if within]
    at_once = [nodes for nodes in offers if nodes and free.within(nodes) >= gpus]
    return (at_once or [nodes for nodes in offers if nodes] or [0])[0]


def _scene(rng: random.Random) -> Cluster:
    return Cluster.build(
        [
            NodeShape(rng.randint(1, 2), rng.choice([4, 8]), gpu_type, levels={"rack": f"{gpu_type}{rack}"})
            for gpu_type in ("A", "B", "C")
            for rack in range(rng.randint(1, 2))
        ]
    )


def test_who_sleeps_would_have_had_the_nodes_of_a_full_cluster_and_nothing_there() -> None:
    """Where a kind finds nothing, at every level, whichever GPUs are free."""
    rng = random.Random(0)
    slept = awake = 0
    for _ in range(300):
        cluster = _scene(rng)
        domains, free = Domains(cluster), Free.of(cluster)
        by_type = [nodes if rng.random() < 0.8 else 0 for nodes in NodeSets(cluster).of_type]
        nodes, gpus = sum(by_type), rng.randint(1, 20)
        if not nodes or domains.size(nodes) < gpus:
            continue
        first = min(domains.first_level(free, gpus, within) for within in by_type if within)
        kind = Kinds(cluster, domains, True).of(nodes, gpus, int(first))
        for device in range(cluster.gpus):
            if rng.random() < 0.9:
                free.remove(device)
        if not kind.finds_none(free, domains.nodes ^ free.buckets[0]):
            awake += 1
            continue
        slept += free.within(nodes) > 0
        for level in list(Locality)[first:]:
            chosen = _chosen(domains, free, gpus, level, by_type)
            assert chosen == _chosen(domains, domains.full, gpus, level, by_type)
            assert not free.within(chosen)
    assert slept > 10
    assert awake > 100


@pytest.mark.soak
@pytest.mark.parametrize("parameters", ["", ":relax_after=1"])
def test_sleeping_where_others_gpus_are_free_changes_nothing(
    parameters: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On two types, with fewer decisions."""
    cluster = parse_cluster("3x8:V100,3x8:P100")
    trace = generate(250, seed=5, load=1.1, cluster=cluster)
    wanted = np.random.default_rng(5).choice([0, 0, 1, 2], len(trace))
    wanted[trace.jobs.gpus > 24] = 0
    trace = replace(trace, jobs=replace(trace.jobs, gpu_types=wanted, type_names=cluster.type_names))
    found = []
    for told_apart in (True, False):
        with monkeypatch.context() as patched:
            if not told_apart:
                patched.setattr(
                    "rota.systems.philly.attempt.Kinds",
                    lambda cluster, domains, _, up: Kinds(cluster, domains, False, up),
                )
            record = run(f"philly{parameters}", trace, cluster)
            found.append((record.intervals.drop("job_id"), record.decisions))
    (intervals, decisions), (as_before, more) = found
    assert intervals.equals(as_before)
    assert decisions < more
