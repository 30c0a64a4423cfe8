"""Jobs that ask for some nodes only, by name or label: no policy puts them elsewhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from play import play, starts, trace_of
from rota.errors import PolicyError
from rota.model.cluster import Cluster, NodeShape
from rota.model.feasible import feasible_rows
from rota.model.grants import Grant
from rota.model.reasons import Code
from rota.model.record import Record
from rota.model.trace import Trace
from rota.scheduler.decision import Decision
from rota.scheduler.policy import parse_policy, systems
from rota.scheduler.reasons.waiting import explain
from rota.worlds.simulated.run import Setting, prepare

CLUSTER = Cluster.build(
    [
        NodeShape(count=2, gpus=4, labels=("short", "long"), names=("a1", "a2")),
        NodeShape(count=1, gpus=4, labels=("long",), names=("b1",)),
        NodeShape(count=1, gpus=0, names=("login",)),
    ]
)


# what a job asks for, and the nodes that will do
@pytest.mark.parametrize(
    ("node_set", "nodes"),
    [
        ("", ["a1", "a2", "b1", "login"]),
        ("short", ["a1", "a2"]),
        ("short|b1", ["a1", "a2", "b1"]),
        ("!a1", ["a2", "b1", "login"]),
        ("long|!short", ["b1"]),
        ("!short|long", ["b1"]),
        ("nowhere", []),
        ("!nowhere", ["a1", "a2", "b1", "login"]),
    ],
)
def test_which_nodes_will_do(node_set: str, nodes: list[str]) -> None:
    admitted = np.flatnonzero(CLUSTER.admitted(node_set)).tolist()
    assert [CLUSTER.node_names[node] for node in admitted] == nodes
    part = CLUSTER.take(np.array([2, 0]))
    there = [part.node_names[node] for node in np.flatnonzero(part.admitted(node_set)).tolist()]
    assert there == [name for name in ("b1", "a1") if name in nodes]


def placed(text: str, *node_sets: str, **columns: Any) -> Trace:
    """The jobs of `text`, each with its node set."""
    known = tuple(dict.fromkeys(name for name in node_sets if name))
    codes = [known.index(name) if name else -1 for name in node_sets]
    return trace_of(text, node_set=codes, node_set_names=known, **columns)


def nodes_used(record: Record) -> dict[str, set[str]]:
    used: dict[str, set[str]] = {}
    for job, nodes in record.intervals.select("job_id", "nodes").iter_rows():
        used.setdefault(job, set()).update(CLUSTER.node_names[node] for node in nodes)
    return used


# feasible: of 8 GPUs there are enough in `long`, not in `b1`; a job without GPUs needs a node, too
def test_what_can_never_run_is_refused() -> None:
    trace = placed("A 8x1 B 8x1 C 8x1 D 0x1 E 0x1", "long", "b1", "", "b1", "nowhere")
    assert feasible_rows(trace.jobs, CLUSTER).tolist() == [True, False, True, True, False]


KNOWS = ("max_min", "afs", "partition")  # need a level, curves or throughputs to run at all


@pytest.mark.parametrize("policy", [name for name in systems() if name not in KNOWS])
def test_no_policy_puts_a_job_elsewhere(policy: str) -> None:
    """The guard of the simulated world raises if one does."""
    trace = placed(
        "A 4x30 B 2x20 C 4x25@1 D 1x5@2 E 6x10@3 F 3x9@4 G 2x50@5 H 1x3@6",
        *("short", "b1", "b1", "!b1", "short", "", "long|!a1", "a2"),
    )
    record = play(policy, trace, CLUSTER)
    assert record.jobs["state"].to_list() == ["COMPLETED"] * 8
    used = nodes_used(record)
    for row, job in enumerate(trace.jobs.ids):
        admitted = CLUSTER.admitted(trace.jobs.name_of("node_set", row))
        assert used[job] <= {name for name, ok in zip(CLUSTER.node_names, admitted, strict=True) if ok}


def test_who_may_use_other_nodes_passes_by() -> None:
    """B waits for `b1`; under `skip`, C does not wait for B."""
    trace = placed("A 4x10 B 4x5@1 C 4x5@2", "b1", "b1", "short")
    assert starts(play("fifo:skip=yes", trace, CLUSTER)) == {"A": 0, "B": 10, "C": 2}


def test_a_job_without_gpus_keeps_to_its_nodes() -> None:
    trace = placed("A 0x10 B 1x1", "b1", "")
    assert play("fifo", trace, CLUSTER).jobs["state"].to_list() == ["COMPLETED", "COMPLETED"]


class Elsewhere:
    """Starts the first waiting job on device 8, which is in `b1`."""

    needs: frozenset[Any] = frozenset()

    def decide(self, snapshot: Any, memory: Any) -> Decision:
        grants = [Grant(int(row), (8,)) for row in snapshot.waiting[:1]]
        return Decision(memory, grants=grants)


def test_the_guard_refuses_other_nodes() -> None:
    with pytest.raises(PolicyError, match="asks for nodes short and is granted b1"):
        play(Elsewhere(), placed("A 1x1", "short"), CLUSTER)


def test_why_it_waits() -> None:
    trace = placed("A 4x10 B 4x5@1", "b1", "b1")
    loop, _ = prepare(parse_policy("fifo").make(), trace, CLUSTER, Setting())
    for _ in range(2):
        loop.step()
    snapshot = loop.snapshot()
    decision = Decision({})
    (first, *_) = explain(snapshot, decision, 1)
    assert (first.code, first.requested, first.provided) == (Code.NODE_SET, 4, 0)
    assert first.sentence() == "needs 4 GPUs on nodes b1; 0 are free there"


def test_moments_keep_labels_and_node_sets() -> None:
    from rota.scheduler.moments.packing import pack_cluster, unpack_cluster

    again = unpack_cluster(pack_cluster(CLUSTER))
    assert {name: nodes.tolist() for name, nodes in again.labels.items()} == {
        "short": [0, 1],
        "long": [0, 1, 2],
    }
    assert replace(again, labels={}).admitted("b1").tolist() == [False, False, True, False]
