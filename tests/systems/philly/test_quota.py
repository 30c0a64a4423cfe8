"""Shares of virtual clusters, and whom they are taken from."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from play import trace_of
from rota.model.cluster import Cluster, NodeShape
from rota.model.grants import Code, Grant
from rota.model.tenants import Tenant, Tenants
from rota.scheduler.snapshot import Snapshot
from rota.systems.philly.delays import (
    BORROWED,
    FAIR_SHARE,
    FRAGMENTATION,
    LABELS,
    DelayReasons,
    Delays,
    label_of,
)
from rota.systems.philly.gang import Cycle
from rota.systems.philly.locality import Locality
from rota.systems.philly.quota import NOBODY, QuotaShares, VirtualClusterQuotas, reclaim
from rota.table.progress import Progress
from rota.table.state import State

NAMES = ("a/x", "b", "c")
CYCLE = Cycle(timeout_s=180, backoff_s=120)


def shares(held: dict[int, tuple[int, int]], tenants: Tenants) -> QuotaShares:
    """Shares on 32 GPUs when row -> (tenant, GPUs) are held."""
    text = " ".join(f"J{row} {gpus}x9" for row, (_, gpus) in held.items())
    owners = [tenant for tenant, _ in held.values()]
    trace = trace_of(text, tenant=owners, tenant_names=NAMES)
    state = State(trace.jobs, Cluster.build([NodeShape(4, 8)], tenants), Progress(len(trace)))
    first = 0
    for row, (_, gpus) in held.items():
        state.submit(row)
        state.start(Grant(row, tuple(range(first, first + gpus))))
        first += gpus
    return QuotaShares(Snapshot(state), VirtualClusterQuotas(state.cluster, state.jobs))


QUOTAS = Tenants.of(Tenant("a", 16), Tenant("a/x", 8), Tenant("b", 8), Tenant("free"))


def test_what_is_closed_counts_as_long_as_somebody_holds_it() -> None:
    """Two nodes take no grants any more: one whose jobs run on, and one that is empty."""
    trace = trace_of("A 8x9 B 8x9", tenant=[0, 1], tenant_names=("a", "nobody"))
    state = State(trace.jobs, Cluster.build([NodeShape(4, 8)], Tenants.of(Tenant("a", 16))), Progress(2))
    for row in (0, 1):
        state.submit(row)
        state.start(Grant(row, tuple(range(8 * row, 8 * row + 8))))
    for node in (1, 3):
        state.occupancy.lose(node)
    found = QuotaShares(Snapshot(state), VirtualClusterQuotas(state.cluster, state.jobs))
    assert (found.there, found.granted) == (24.0, 16.0)
    assert found.used == {"a": 8, NOBODY: 8}


def test_use_and_quota() -> None:
    """A virtual cluster is a tenant without a parent; who is not configured has no quota."""
    found = shares({0: (0, 10), 1: (1, 4), 2: (2, 2)}, QUOTAS)
    assert [found.of(row) for row in range(3)] == ["a", "b", NOBODY]
    assert found.used == {"a": 10, "b": 4, "free": 0, NOBODY: 2}
    assert (found.ratio("a"), found.ratio("b"), found.ratio("free")) == (0.625, 0.5, 0.0)
    assert found.ratio(NOBODY) == math.inf
    assert found.is_due("b", 4)
    assert not found.is_due("b", 5)
    found.grant(1, 5)
    assert found.is_above("b")
    assert found.granted == 21


def test_one_virtual_cluster_without_tenants() -> None:
    found = shares({0: (0, 10)}, Tenants.none())
    assert found.quota == {NOBODY: 32}
    assert found.ratio(NOBODY) == 10 / 32


def enough(gpus: int, sizes: dict[int, int]) -> Callable[[int], bool]:
    """A test that is passed once victims of `gpus` GPUs in all are gone."""
    gone: list[int] = []

    def fits(row: int) -> bool:
        gone.append(sizes[row])
        return sum(gone) >= gpus

    return fits


@pytest.mark.parametrize(
    ("held", "starts", "need", "victims", "why"),
    [
        ({0: (0, 16), 1: (0, 8), 2: (1, 8)}, [0, 1, 2], 8, [1], "above quota, and it stays at 16"),
        ({0: (0, 8), 1: (0, 16), 2: (1, 8)}, [0, 1, 2], 8, [0], "without the later one it would be below"),
        ({0: (0, 18), 1: (1, 4), 2: (1, 6)}, [0, 1, 2], 2, [], "b: 10 - 6 < 8; a: 18 - 18 < 16; nobody"),
        ({0: (0, 16), 1: (1, 8), 2: (1, 4)}, [2, 1, 0], 4, [2], "b is 1.5 times its quota"),
        ({0: (0, 8), 1: (0, 8), 2: (0, 8), 3: (1, 8)}, [5, 5, 5, 5], 8, [2], "equal starts: the larger row"),
        ({0: (2, 2), 1: (0, 20), 2: (0, 4)}, [0, 1, 2], 6, [0, 2], "first who has no quota, then a"),
        ({0: (0, 12), 1: (1, 8)}, [0, 1], 1, [], "nobody is above his quota"),
    ],
)
def test_reclaim(
    held: dict[int, tuple[int, int]], starts: list[float], need: int, victims: list[int], why: str
) -> None:
    """Quotas a = 16 and b = 8: from the furthest above, latest first, never below a quota."""
    found = shares(held, QUOTAS)
    before = dict(found.used)
    running = [(starts[row], row, gpus) for row, (_, gpus) in held.items()]
    taken = reclaim(found, running, enough(need, {row: gpus for row, (_, gpus) in held.items()}))
    assert (taken or []) == victims, why
    lost = sum(held[row][1] for row in victims)
    assert sum(found.used.values()) == sum(before.values()) - lost


@pytest.mark.parametrize(
    ("gpus", "free", "label", "code"),
    [
        (6, 32.0, FAIR_SHARE, Code.QUOTA),  # 4 + 6 > 8, whatever is free
        (4, 8.0, FRAGMENTATION, Code.LOCALITY),
        (4, 3.0, BORROWED, Code.RESOURCES),
    ],
)
def test_labels(gpus: int, free: float, label: str, code: Code) -> None:
    """b holds 4 of its 8 GPUs and asks for more."""
    found = shares({0: (0, 10), 1: (1, 4)}, QUOTAS)
    assert label_of(found, "b", gpus, free) == label
    delays, waits = Delays({}, CYCLE), {1: CYCLE.first(Locality.ANYWHERE, 2, now=5.0)}
    delays.label([("b", gpus)], lambda name, size: label_of(found, name, size, free), now=5.0)
    assert DelayReasons(delays, found, free, waits, lambda row: ("b", gpus), now=9.0)[1].code is code


def noted(*labels: tuple[float, str], since: float = 0.0, end: float) -> dict[str, float]:
    """Seconds by label of a job that waits from `since` to `end`, given the labels of its class."""
    memory: dict[str, Any] = {}
    delays = Delays(memory, CYCLE)
    for now, label in labels:
        delays.label([("a", 4)], lambda name, gpus, label=label: label, now)
    delays.close(("a", 4), CYCLE.first(Locality.ANYWHERE, 2, now=since), end)
    return memory["delay_s"].get("2-4", {})


@pytest.mark.parametrize(
    ("labels", "since", "end", "expected"),
    [
        ([(0, FAIR_SHARE)], 0, 30, {FAIR_SHARE: 30}),
        ([(0, FAIR_SHARE)], 30, 30, {}),
        ([(0, FAIR_SHARE), (9, BORROWED), (15, BORROWED)], 0, 30, {FAIR_SHARE: 9, BORROWED: 21}),
        ([(0, FAIR_SHARE), (10, BORROWED)], 20, 50, {BORROWED: 30}),
        ([(0, FAIR_SHARE), (200, BORROWED)], 0, 290, {FAIR_SHARE: 290}),
        ([(0, FAIR_SHARE), (180, BORROWED)], 0, 310, {FAIR_SHARE: 300, BORROWED: 10}),
        ([(0, BORROWED), (200, FAIR_SHARE), (250, BORROWED)], 0, 310, {BORROWED: 310}),
    ],
)  # fmt: skip
def test_a_pause_keeps_the_label_of_the_attempt_before(
    labels: list[tuple[float, str]], since: float, end: float, expected: dict[str, float]
) -> None:
    """Attempts are open from 0 to 180 s and from 300 s on."""
    assert noted(*labels, since=since, end=end) == expected


def test_the_history_of_a_class_ends_with_its_last_job() -> None:
    memory: dict[str, Any] = {}
    delays = Delays(memory, CYCLE)
    for now in range(100):
        delays.label([("a", 4), ("b", 1)], lambda name, gpus, now=now: LABELS[now % 3], float(now))
    assert delays.labels["a"][4]["changes"] == 100
    delays.label([("b", 1)], lambda name, gpus: FAIR_SHARE, 100.0)
    assert list(memory["labels"]) == ["b"]
