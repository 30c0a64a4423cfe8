"""PAI: the worked examples of its card, and what naive versions get wrong."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import median
from typing import Any

import numpy as np
import pytest

from play import finishes, jcts, play, starts
from rota.model.cluster import Cluster, NodeShape, parse_cluster
from rota.model.jobs import JobTable, Truth
from rota.model.tenants import Tenant, Tenants
from rota.model.trace import Trace
from rota.scheduler.policy import parse_policy
from rota.systems.pai.recurrence import Recurrence
from rota.worlds.simulated.run import Setting, prepare
from tiers import first


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


@pytest.mark.parametrize(
    ("jobs", "cluster", "devices", "why"),
    [
        ([(4, 0.5)], "1x4", [(0, 1, 2, 3)], "half of each of four devices"),
        ([(2, 0.5), (2, 0.5), (2, 0.5)], "1x2", [(0, 1), (0, 1), None], "two such gangs fill two devices"),
        ([(1, 0.5), (2, 0.5)], "1x3", [(0,), (0, 1)], "the fullest device first"),
        ([(1, 0.6), (2, 0.5)], "1x3", [(0,), (1, 2)], "there is no room for half on the first"),
        ([(2, 0.5)], "1x1", [None], "its parts do not share a device (ours)"),
        ([(3, 0.25)], "2x2", [(0, 1, 2)], "machine after machine"),
    ],
)
@pytest.mark.parametrize("policy", ["pai:estimate=none", "fifo:skip=yes"])
def test_gangs_of_fractions(
    policy: str,
    jobs: list[tuple[int, float]],
    cluster: str,
    devices: list[tuple[int, ...] | None],
    why: str,
) -> None:
    """Several GPUs, and a share of each: each part is on a device of its own."""
    rows = [(0.0, 100.0 + i, gpus, share) for i, (gpus, share) in enumerate(jobs)]
    record = play(policy, trace_of_rows(rows), cluster)
    at = {r["job_id"]: r["devices"] for r in record.intervals.iter_rows(named=True) if not r["start_s"]}
    found = [tuple(at[str(i + 1)]) if str(i + 1) in at else None for i in range(len(rows))]
    assert found == devices, why


def test_two_gangs_of_halves_take_the_time_of_one() -> None:
    """Sharing halves the GPUs that are needed: as whole GPUs the second gang would wait for the first."""
    halves = finishes(play("pai", trace_of_rows([(0.0, 100.0, 4, 0.5)] * 2), "1x4"))
    whole = finishes(play("pai", trace_of_rows([(0.0, 100.0, 4, 1.0)] * 2), "1x4"))
    assert (max(halves.values()), max(whole.values())) == (100.0, 200.0)


def test_a_gang_of_fractions_is_high_by_what_it_asks_for_in_all() -> None:
    """Three quarters are less than a GPU: weak machines.  Six are more: strong ones."""
    cluster = parse_cluster("1x8:T4,1x8:V100")
    rows = [(0.0, 100.0, 3, 0.25), (0.0, 100.0, 6, 0.25)]
    record = play("pai:estimate=none", trace_of_rows(rows), cluster)
    assert [nodes[0] for nodes in record.intervals.sort("job")["nodes"]] == [0, 1]


def test_estimates() -> None:
    """Example 6: the most specific key with a past, then the median, then 0."""
    recurrence = Recurrence()

    def estimate(of: list[Any]) -> float:
        return recurrence.expected_s(recurrence.speaker(of))

    assert estimate(["a"]) == 0.0

    def keys(user: str, group: str, percent: int) -> list[Any]:
        return [(user, group, percent), (user, group), user]

    for user, group, percent, seconds in [
        *(("a", "g1", 50, 10.0), ("a", "g1", 50, 20.0), ("a", "g1", 100, 100.0), ("a", "g2", 50, 40.0)),
        ("b", "g9", 50, 1000.0),
    ]:
        recurrence.add(keys(user, group, percent), seconds)
    assert estimate(keys("a", "g1", 50)) == 15
    assert estimate(keys("a", "g1", 200)) == pytest.approx(130 / 3)
    assert estimate(keys("a", "g3", 50)) == 42.5
    assert estimate(keys("c", "g1", 50)) == 40


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


@pytest.mark.parametrize("policy", ["pai", "philly", "fifo", "drf", "tiresias", "gandiva"])
@pytest.mark.parametrize(
    ("gpus", "quota", "together", "why"),
    [
        (1, 1.0, True, "half and half are one GPU"),
        (1, 0.5, False, "one after the other"),
        (1, 0.75, False, "the second would make it 1"),
        (2, 2.0, True, "two halves and two halves are two GPUs"),
        (2, 1.0, False, "two halves are one"),
    ],
)
def test_a_hard_quota_counts_shares(policy: str, gpus: int, quota: float, together: bool, why: str) -> None:
    """Two jobs that ask for half of each of their GPUs, of a tenant with a hard quota; both end."""
    cluster = Cluster.build([NodeShape(1, 4)], Tenants.of(Tenant("a", quota, hard=True)))
    trace = trace_of_rows([(0, 10, gpus, 0.5), (0, 10, gpus, 0.5)], tenant=[0, 0], tenant_names=("a",))
    record = play(policy, trace, cluster)
    assert record.jobs["finish_s"].null_count() == 0
    assert (max(starts(record).values()) == 0) == together, why


def test_history_has_the_successful_attempt_only() -> None:
    """Job 1 fails twice after 40 s and then takes 100 s; job 2 takes 120 s: group x is expected first."""
    rows = [(0, 100, 1, 1.0), (0, 120, 1, 1.0), (500, 50, 1, 1.0), (501, 9, 1, 1.0), (502, 9, 1, 1.0)]
    columns = {"tenant": [0] * 5, "tenant_names": ("a",), "group": [0, 1, 2, 1, 0]}
    trace = trace_of_rows(rows, group_names=("x", "y", "z"), **columns)
    truth = Truth.build([d for _, d, _, _ in rows], failures={0: (40.0, 40.0)})
    found = starts(play("pai:estimate=group", replace(trace, truth=truth), "1x1"))
    assert found["5"] < found["4"], "x took 100 s, y 120 s; with its failed attempts x would have taken 180"


def test_ties_between_devices_are_in_whole_percents() -> None:
    """What .3 + .6 - .3 leaves behind in the last bit does not make device 0 less full than device 1."""
    rows = [(0.0, 10.0, 1, 0.3), (1.0, 99.0, 1, 0.6), (2.0, 99.0, 1, 0.6), (20.0, 99.0, 1, 0.25)]
    record = play("pai", trace_of_rows(rows), "1x2")
    assert [devices[0] for devices in record.intervals.sort("job")["devices"]] == [0, 0, 1, 0]


# -- a naive scheduler to compare with ---------------------------------------------------------------


def naive_pai(trace: Trace, sizes: list[int], names: int) -> list[float]:
    """Starts of whole and shared single-GPU jobs and gangs: every job and node looked at, at every event."""
    jobs, durations = trace.jobs, trace.truth.duration_s.tolist()
    used = [[0] * size for size in sizes]  # percents of each device
    started: dict[int, float] = {}
    ends: dict[int, tuple[float, list[tuple[int, int, int]]]] = {}
    past: list[tuple[tuple[int, ...], float]] = []

    def keys(row: int) -> list[tuple[int, ...]]:
        user, group = jobs.tenant.item(row), jobs.group.item(row)
        percent = round(100 * jobs.gpus.item(row) * jobs.gpu_share.item(row))
        return [(user, group, percent)[:length] for length in range(names, 0, -1)]

    def expected(row: int) -> float:
        for key in keys(row):
            alike = [seconds for of, seconds in past if of[: len(key)] == key]
            if alike:
                return math.fsum(alike) / len(alike)
        return median([seconds for _, seconds in past]) if past else 0.0

    def place(row: int) -> list[tuple[int, int, int]] | None:
        gpus, percent = jobs.gpus.item(row), round(100 * jobs.gpu_share.item(row))
        taken: list[tuple[int, int, int]] = []
        for node in sorted(
            range(len(sizes)), key=lambda node: (round(sum(used[node]) / len(used[node]), 9), node)
        ):
            devices = [(-busy, device) for device, busy in enumerate(used[node]) if busy + percent <= 100]
            taken += [(node, device, percent) for _, device in sorted(devices)[: gpus - len(taken)]]
            if len(taken) == gpus:
                return taken
        return None

    now = 0.0
    while len(started) < len(jobs) or ends:
        coming = [s for s in jobs.submit_s.tolist() if s > now] if len(started) < len(jobs) else []
        for row in sorted(row for row, (end, _) in ends.items() if end == now):
            for node, device, percent in ends.pop(row)[1]:
                used[node][device] -= percent
            past.append((keys(row)[0], durations[row]))
        waiting = [r for r in range(len(jobs)) if r not in started and jobs.submit_s.item(r) <= now]
        for row in sorted(waiting, key=lambda row: (expected(row), row)):
            places = place(row)
            if places is not None:
                for node, device, percent in places:
                    used[node][device] += percent
                started[row], ends[row] = now, (now + durations[row], places)
        now = min([*coming, *(end for end, _ in ends.values())], default=now)
    return [started[row] for row in range(len(jobs))]


@pytest.mark.parametrize("seed", first(4, range(12)))
@pytest.mark.parametrize(
    ("policy", "names"), [("pai", 3), ("pai:estimate=group", 2), ("pai:estimate=user", 1)]
)
def test_as_a_naive_scheduler(policy: str, names: int, seed: int) -> None:
    """Many users, groups, sizes and decimal shares, with every expectation worked out anew at each event."""
    random = np.random.default_rng(seed)
    n = 90
    gpus = random.choice([1, 1, 1, 2, 3, 8], n)
    share = np.where(random.random(n) < 0.6, random.choice([0.1, 0.25, 0.3, 0.6, 0.9], n), 1.0)
    rows = list(
        zip(
            np.sort(random.integers(0, 600, n)).astype(float).tolist(),
            random.integers(1, 200, n).astype(float).tolist(),
            gpus.tolist(),
            share.tolist(),
            strict=True,
        )
    )
    users, groups = random.integers(0, 4, n), random.integers(0, 5, n)
    columns = {"tenant": users.tolist(), "tenant_names": tuple("abcd")}
    trace = trace_of_rows(rows, group=groups.tolist(), group_names=tuple("vwxyz"), **columns)
    cluster = parse_cluster("3x4")
    found = starts(play(policy, trace, cluster))
    assert [found[name] for name in trace.jobs.ids] == naive_pai(trace, [4, 4, 4], names)
