"""Strict FIFO where jobs ask for partitions: a queue for each of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from play import play, starts, trace_of
from rota.model.cluster import Cluster, NodeShape
from rota.model.tenants import Tenant, Tenants
from rota.model.trace import Trace

TWO = Cluster.build(
    [
        NodeShape(count=1, gpus=4, labels=("left",), names=("a",)),
        NodeShape(count=1, gpus=4, labels=("right", "debug"), names=("b",)),
    ]
)


def asking(jobs: str, *node_sets: str) -> Trace:
    """The jobs, each with the node set that it asks for: A with the first, B with the second, and so on."""
    trace = trace_of(jobs)
    node_sets = tuple(node_sets[ord(id) - ord("A")] for id in trace.jobs.ids)
    names = tuple(dict.fromkeys(name for name in node_sets if name))
    codes = np.array([names.index(name) if name else -1 for name in node_sets], dtype=np.int32)
    return replace(trace, jobs=replace(trace.jobs, node_set=codes, node_set_names=names))


@pytest.mark.parametrize(
    ("jobs", "node_sets", "expected", "why"),
    [
        ("A 4x10 B 4x10@1 C 1x10@2", ("left", "left", "right"), "A 0 B 10 C 2", "C is of another partition"),
        ("A 4x10 B 4x10@1 C 1x10@2", ("right", "right", "debug"), "A 0 B 10 C 20", "on the same node"),
        ("A 4x10 B 4x10@1 C 1x10@2 D 1x1@3", ("left", "left", "", "right"), "A 0 B 10 C 10 D 10",
         "C could go anywhere: it waits behind B, and D behind it"),
        ("A 4x10 B 8x10@1 C 1x10@2", ("left", "", "right"), "A 0 B 10 C 20", "B waits for all nodes"),
        ("A 4x10 B 5x10@1 C 1x10@2 D 4x10@3", ("left", "right", "right", "left"), "A 0 C 2 D 10",
         "B can never run: it blocks nobody"),
    ],
)  # fmt: skip
def test_who_waits_behind_whom(jobs: str, node_sets: tuple[str, ...], expected: str, why: str) -> None:
    """As Slurm does it: nobody starts on nodes of a partition in which somebody before it waits."""
    words = expected.split()
    begun = starts(play("fifo", asking(jobs, *node_sets), TWO))
    known = {name: at for name, at in begun.items() if at is not None}
    assert known == dict(zip(words[::2], map(float, words[1::2]), strict=True)), why


@pytest.mark.parametrize(
    ("jobs", "node_sets", "expected", "why"),
    [
        ("A 4x10 B 4x10@1 C 2x10 D 4x5@2 E 2x20@3", ("left", "left", "right", "right", "right"),
         "A 0 B 10 C 0 D 10 E 15", "D is the first of its partition: E would delay it"),
        ("A 4x10 B 4x10@1 C 2x10 D 4x5@2 E 2x5@3", ("left", "left", "right", "right", "debug"),
         "A 0 B 10 C 0 D 10 E 3", "E ends before D can start, on a node of two partitions"),
        ("A 4x10 B 8x10@1 C 2x10 D 4x5@2 E 2x5@3", ("left", "", "right", "right", "right"),
         "A 0 B 10 C 0 D 20 E 3", "B could go anywhere: there is one queue"),
    ],
)  # fmt: skip
def test_each_queue_has_a_first_job_that_nobody_delays(
    jobs: str, node_sets: tuple[str, ...], expected: str, why: str
) -> None:
    """EASY promised a start to one job of the whole site: in all other partitions it was as `skip=yes`."""
    words = expected.split()
    begun = starts(play("fifo:backfill=easy", asking(jobs, *node_sets), TWO))
    assert begun == dict(zip(words[::2], map(float, words[1::2]), strict=True)), why


@pytest.mark.parametrize(("hard", "later_s"), [(False, 15.0), (True, 3.0)])
def test_only_a_hard_quota_makes_one_queue_of_all(hard: bool, later_s: float) -> None:
    """Who waits for one may wait for GPUs on nodes that it does not want; a soft one keeps nobody waiting."""
    cluster = replace(TWO, tenants=Tenants.of(Tenant("other", quota_gpus=4.0, hard=hard)))
    trace = asking("A 4x10 B 4x10@1 C 2x10 D 4x5@2 E 2x20@3", "left", "left", "right", "right", "right")
    assert starts(play("fifo:backfill=easy", trace, cluster))["E"] == later_s
