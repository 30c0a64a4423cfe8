"""Fragmentation: the measure, and the placement that keeps it low."""

from __future__ import annotations

import pytest

from rota.model.cluster import parse_cluster
from rota.stages.fragmentation import Expected, LeastFragmentation, fragmentation
from rota.stages.place import PLACEMENTS, Placement, consolidate
from rota.table.free import Free

HALVES = [Expected(1.0, 1, 0.5)]
MIX = [Expected(0.5, 1, 0.5), Expected(0.3, 1), Expected(0.2, 2)]


@pytest.mark.parametrize(
    ("spare", "mix", "expected", "why"),
    [
        ([1.0, 0.4], HALVES, 0.4, "0.4 is too little for half a GPU"),
        ([0.4, 0.3], HALVES, 0.7, "nothing fits: all is fragment"),
        ([0.5, 0.5], HALVES, 0.0, "both halves can be used"),
        ([1.0, 0.6], MIX, 0.3 * 0.6 + 0.2 * 1.6, "1 GPU: 0.6 is lost; 2 GPUs: all"),
        ([1.0, 1.0], MIX, 0.0, "everybody fits"),
        ([], MIX, 0.0, "nothing free"),
    ],
)
def test_measure(spare: list[float], mix: list[Expected], expected: float, why: str) -> None:
    """What the expected jobs cannot use, on average."""
    assert fragmentation(spare, mix) == pytest.approx(expected), why


@pytest.mark.parametrize(
    ("counts", "gpus", "node", "why"),
    [
        # 4-GPU jobs half of the time, 1-GPU jobs else: F(c) = c / 2 below 4, else 0.
        ([4, 5], 1, 1, "5 - 1 still holds four: +0; 4 - 1 would make 1.5 GPUs of fragment"),
        ([3, 5], 1, 0, "3 - 1 takes half a GPU of fragment away"),
        ([8, 4], 4, 1, "no fragment either way: the fuller node"),
        ([5, 5], 1, 0, "equal: the lowest id"),
    ],
)
def test_placement(counts: list[int], gpus: int, node: int, why: str) -> None:
    """The node whose fragmentation grows least."""
    free = Free.of(parse_cluster("2x8"))
    for n, count in enumerate(counts):
        free.take(n, 8 - count)
    place = LeastFragmentation((Expected(0.5, 1), Expected(0.5, 4)), consolidate)
    devices = place(free, gpus)
    assert devices is not None
    assert {free.node_of[device] for device in devices} == {node}, why


def test_gangs_beyond_a_node_use_few_nodes() -> None:
    """No single node holds 12 GPUs: the fewest nodes do; more than all is refused and nothing is taken."""
    free = Free.of(parse_cluster("3x8"))
    place = PLACEMENTS[Placement.LEAST_FRAGMENTATION]
    assert place(free, 25) is None
    assert free.total == 24
    devices = place(free, 12)
    assert devices is not None
    assert len({free.node_of[device] for device in devices}) == 2
