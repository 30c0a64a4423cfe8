"""PAI: the worked examples of its card, and what naive versions get wrong."""

from __future__ import annotations

from typing import Any

import pytest

from play import finishes, jcts, play, starts
from rota.model.cluster import Cluster, NodeShape, parse_cluster
from rota.model.jobs import JobTable, Truth
from rota.model.trace import Trace
from rota.policies.pai.recurrence import Recurrence
from rota.scheduler.policy import parse_policy
from rota.worlds.simulated.run import Setting, prepare


def trace_of_rows(rows: list[tuple[float, float, int, float]], **columns: Any) -> Trace:
    """Jobs 1, 2, ... as (submit, duration, GPUs, share)."""
    submit, duration, gpus, share = zip(*rows, strict=True)
    ids = [str(i + 1) for i in range(len(rows))]
    return Trace(
        JobTable.build(ids, submit_s=submit, gpus=gpus, gpu_share=share, **columns),
        Truth.build(duration),
        "test",
        "test",
    ).by_submission()


# Job 4 is two instances of half a GPU each; with one GPU in all that is one whole GPU.
FOUR = [(0, 100, 1, 1.0), (0, 10, 1, 0.5), (0, 20, 1, 0.5), (0, 5, 1, 1.0)]


@pytest.mark.parametrize(
    ("policy", "expected", "mean"),
    [
        ("pai:estimate=none", {"1": 100, "2": 110, "3": 120, "4": 125}, 113.75),
        ("pai:estimate=known", {"1": 125, "2": 15, "3": 25, "4": 5}, 42.5),
    ],
)
def test_order(policy: str, expected: dict[str, float], mean: float) -> None:
    """Examples 1 and 2: order of submission, and true durations."""
    found = jcts(play(policy, trace_of_rows(FOUR), "1x1"))
    assert found == expected
    assert sum(found.values()) / 4 == mean


def test_order_by_user_means() -> None:
    """Example 3: a = 60 s and b = 7.5 s from completed jobs; 2, then 3 beside it, then 4, then 1."""
    past = [(0, 120, 1, 1.0), (0, 15, 1, 1.0)]  # one job of each user, on a cluster of two
    tenants = {"tenant": [0, 1, 0, 1, 0, 1], "tenant_names": ("a", "b")}
    later = [(1000 + s, d, g, f) for s, d, g, f in FOUR]
    record = play("pai:estimate=user", trace_of_rows(past + later, **tenants), "1x1")
    found = jcts(record)
    assert [found[str(i)] for i in (3, 4, 5, 6)] == [125, 10, 20, 25]


MIXED = parse_cluster("1x1:MISC,1x1:T4,1x1:V100")


@pytest.mark.parametrize(
    ("policy", "types", "gpus", "expected", "why"),
    [
        ("pai", ["", "V100"], [1, 1], ["MISC", "V100"], "not flagged: weakest; flagged: strongest"),
        ("pai", ["T4|V100", "V100", "V100"], [1, 1, 1], ["T4", "V100", None], "names V100, so it waits"),
        ("pai", ["V100", "", ""], [1, 1, 1], ["V100", "MISC", "T4"], "weakest first"),
        ("pai:machines=pack", ["", "", ""], [1, 1, 1], ["MISC", "T4", "V100"], "order of the cluster"),
    ],
)
def test_types(policy: str, types: list[str], gpus: list[int], expected: list[str | None], why: str) -> None:
    """Example 4: machines with one free GPU each."""
    names = ("T4", "V100")
    masks = [sum(1 << names.index(name) for name in filter(None, cell.split("|"))) for cell in types]
    rows = [(0.0, 100.0 + i, n, 1.0) for i, n in enumerate(gpus)]
    record = play(policy, trace_of_rows(rows, gpu_types=masks, type_names=names), MIXED)
    at_once = {r["job_id"]: r["nodes"][0] for r in record.intervals.iter_rows(named=True) if not r["start_s"]}
    found = [at_once.get(str(i + 1)) for i in range(len(rows))]
    assert [None if node is None else MIXED.type_names[node] for node in found] == expected, why


def test_a_high_gpu_job_goes_down_in_power() -> None:
    """Example 4: two jobs of two GPUs: the V100s first, the T4s next, and never the MISC ones."""
    cluster = parse_cluster("1x2:MISC,1x2:T4,1x2:V100")
    rows = [(0.0, 100.0, 2, 1.0), (0.0, 100.0, 2, 1.0), (0.0, 100.0, 1, 1.0), (0.0, 100.0, 1, 0.5)]
    record = play("pai", trace_of_rows(rows), cluster)
    assert [nodes[0] for nodes in record.intervals.sort("job")["nodes"]] == [2, 1, 0, 0]


def test_machines_of_a_type_are_balanced_and_types_are_not() -> None:
    """Reserving dominates balancing: the weak machines fill evenly before a strong one is touched."""
    cluster = parse_cluster("1x2:V100,2x2:T4")
    rows = [(0.0, 100.0 + i, 1, 1.0) for i in range(5)]
    record = play("pai", trace_of_rows(rows), cluster)
    assert [nodes[0] for nodes in record.intervals.sort("job")["nodes"]] == [1, 2, 1, 2, 0]
    naive = play("pai:machines=balance", trace_of_rows(rows), cluster)
    assert sorted(nodes[0] for nodes in naive.intervals.sort("job")["nodes"][:3]) == [0, 1, 2]


def test_balance_counts_cpus() -> None:
    """The allocation rate is the mean of CPUs and GPUs: the machine with busy CPUs comes last."""
    cluster = Cluster.build([NodeShape(2, 4, cpus=10)])
    rows = [(0.0, 100.0, 1, 1.0), (1.0, 100.0, 2, 1.0), (2.0, 100.0, 1, 1.0)]
    record = play("pai:estimate=none", trace_of_rows(rows, cpus=[8, 2, 1]), cluster)
    # After two jobs: (1/4 + 8/10)/2 against (2/4 + 2/10)/2.
    assert [nodes[0] for nodes in record.intervals.sort("job")["nodes"]] == [0, 1, 1]


@pytest.mark.parametrize(
    ("shares", "cluster", "devices", "why"),
    [
        ([0.5, 0.3, 0.2], "1x1", [0, 0, 0], "0.5 + 0.3 + 0.2 is one GPU"),
        ([0.5, 0.3, 0.25], "1x1", [0, 0, None], "0.25 does not fit"),
        ([0.6, 0.6, 0.8], "1x2", [0, 1, None], "0.8 is free in the node, but on no device"),
        ([0.6, 0.6, 1.0], "1x2", [0, 1, None], "no device is whole"),
        ([0.6, 0.6, 0.4], "1x2", [0, 1, 0], "fits beside the first"),
        ([0.3, 0.6, 0.5, 0.2], "1x2", [0, 0, 1, 1], "fullest device on which it fits"),
    ],
)
def test_fractions(shares: list[float], cluster: str, devices: list[int | None], why: str) -> None:
    """Example 5: a fraction is on one device."""
    rows = [(0.0, 100.0 + i, 1, share) for i, share in enumerate(shares)]
    record = play("pai:estimate=none", trace_of_rows(rows), cluster)
    at = {r["job_id"]: r["devices"][0] for r in record.intervals.iter_rows(named=True) if not r["start_s"]}
    assert [at.get(str(i + 1)) for i in range(len(rows))] == devices, why


def test_estimates() -> None:
    """Example 6: the most specific key with a past, then the median, then 0."""
    recurrence = Recurrence()
    assert recurrence.estimate(["a"]) == 0.0

    def keys(user: str, group: str, percent: int) -> list[Any]:
        return [(user, group, percent), (user, group), user]

    for user, group, percent, seconds in [
        *(("a", "g1", 50, 10.0), ("a", "g1", 50, 20.0), ("a", "g1", 100, 100.0), ("a", "g2", 50, 40.0)),
        ("b", "g9", 50, 1000.0),
    ]:
        recurrence.add(keys(user, group, percent), seconds)
    assert recurrence.estimate(keys("a", "g1", 50)) == 15
    assert recurrence.estimate(keys("a", "g1", 200)) == pytest.approx(130 / 3)
    assert recurrence.estimate(keys("a", "g3", 50)) == 42.5
    assert recurrence.estimate(keys("c", "g1", 50)) == 40


def test_estimates_of_waiting_jobs_move() -> None:
    """Job 3 of group y looks as long as its user's other job until one of its own group has ended."""
    rows = [(0, 50, 1, 1.0), (50, 5, 1, 1.0), (50, 60, 1, 1.0), (51, 9, 1, 1.0), (52, 8, 1, 1.0)]
    columns = {"tenant": [0] * 5, "group": [0, 1, 2, 1, 0], "group_names": ("x", "y", "z")}
    found = starts(play("pai:estimate=group", trace_of_rows(rows, **columns), "1x1"))
    assert found["4"] < found["5"]


def test_a_fresh_instance_decides_the_same() -> None:
    """History and order are caches: dropping them at every step changes nothing."""
    rows = [(7.0 * i % 97, 5.0 + 13 * i % 41, 1 + i % 2, 1.0) for i in range(60)]
    columns = {"tenant": [i % 3 for i in range(60)], "tenant_names": ("a", "b", "c")}
    trace = trace_of_rows(rows, group=[i % 7 for i in range(60)], group_names=tuple("stuvwxy"), **columns)
    spec = parse_policy("pai")
    loop, _ = prepare(spec.make(), trace, parse_cluster("1x3"), Setting())
    while loop.step():
        loop.policy = spec.make()
    expected = finishes(play("pai", trace, "1x3"))
    assert len(expected) == 60
    loop_starts = loop.state.first_start_s.tolist()
    assert loop_starts == list(starts(play("pai", trace, "1x3")).values())
