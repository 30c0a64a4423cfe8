"""The index of free devices against a plain set of devices."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rota.model.cluster import Cluster, parse_cluster
from rota.stages.place import PLACEMENTS, Placement
from rota.table.free import Free, mask_of, nodes_in
from strategies import clusters
from tiers import examples


class AgainstASet(RuleBasedStateMachine):
    """Everything `Free` does, done to a set as well."""

    @initialize(cluster=clusters())
    def begin(self, cluster: Cluster) -> None:
        self.free = Free.of(cluster)
        self.node_of = self.free.node_of
        self.nodes = range(len(self.free.size))
        self.model = set(range(len(self.node_of)))

    def count(self, node: int) -> int:
        return sum(self.node_of[device] == node for device in self.model)

    def within(self, mask: int) -> list[int]:
        return [node for node in self.nodes if mask >> node & 1]

    @rule(pick=st.integers(0, 99), gpus=st.integers(1, 8))
    def take(self, pick: int, gpus: int) -> None:
        node = pick % len(self.nodes)
        own = sorted(device for device in self.model if self.node_of[device] == node)
        gpus = min(gpus, len(own))
        assert self.free.take(node, gpus) == tuple(own[:gpus])
        self.model -= set(own[:gpus])

    @precondition(lambda self: self.model)
    @rule(picks=st.sets(st.integers(0, 99), min_size=1, max_size=5))
    def remove(self, picks: set[int]) -> None:
        devices = sorted({sorted(self.model)[pick % len(self.model)] for pick in picks})
        self.free.remove_all(tuple(devices))
        self.model -= set(devices)

    @precondition(lambda self: len(self.model) < len(self.node_of))
    @rule(picks=st.sets(st.integers(0, 99), min_size=1, max_size=5))
    def put(self, picks: set[int]) -> None:
        taken = sorted(set(range(len(self.node_of))) - self.model)
        devices = sorted({taken[pick % len(taken)] for pick in picks})
        self.free.put_all(tuple(devices))
        self.model |= set(devices)

    @rule(gpus=st.integers(1, 9), mask=st.just(-1) | st.integers(0, 31))
    def best_fit(self, gpus: int, mask: int) -> None:
        fits = [(self.count(node), node) for node in self.within(mask) if self.count(node) >= gpus]
        assert self.free.best_fit(gpus, mask) == (min(fits)[1] if fits else -1)

    @rule(mask=st.just(-1) | st.integers(0, 31))
    def emptiest(self, mask: int) -> None:
        fits = [(-self.count(node), node) for node in self.within(mask) if self.count(node)]
        assert self.free.emptiest(mask) == (min(fits)[1] if fits else -1)

    @rule()
    def go_on_with_a_copy(self) -> None:
        old, self.free = self.free, self.free.copy()
        for device in sorted(self.model)[:3]:
            old.remove(device)

    @rule(
        placement=st.sampled_from(list(Placement)),
        gpus=st.integers(1, 20),
        mask=st.just(-1) | st.integers(0, 31),
    )
    def place(self, placement: Placement, gpus: int, mask: int) -> None:
        """A placement takes as many free devices as asked, of nodes within the mask, or changes nothing."""
        before = set(self.model)
        mask = mask if mask < 0 else mask & mask_of(list(self.nodes))
        devices = PLACEMENTS[placement](self.free, gpus, mask)
        room = sum(self.count(node) for node in self.within(mask))
        if devices is None:
            assert room < gpus or placement in (Placement.ONE_NODE, Placement.PACKED)
            return
        assert len(set(devices)) == gpus
        assert list(devices) == sorted(devices)
        assert set(devices) <= before
        assert all(mask >> self.node_of[device] & 1 for device in devices)
        self.model -= set(devices)

    @invariant()
    def indexes_agree(self) -> None:
        if not hasattr(self, "free"):
            return
        counts = [self.count(node) for node in self.nodes]
        assert self.free.count == counts
        assert self.free.total == len(self.model)
        assert {device for device in range(len(self.node_of)) if self.free.is_free(device)} == self.model
        for n, nodes in enumerate(self.free.buckets):
            assert nodes_in(nodes) == [node for node in self.nodes if counts[node] == n]
            assert bool(self.free.nonempty >> n & 1) == (n in counts)


TestFree = AgainstASet.TestCase
TestFree.settings = settings(examples(60), stateful_step_count=30)


@pytest.mark.parametrize("nodes", [[], [0], [5], [0, 3, 64, 200]])
def test_masks_and_lists_of_nodes(nodes: list[int]) -> None:
    assert nodes_in(mask_of(nodes)) == nodes


# taken beforehand leaves free: node 0 has 1, node 1 has 2, node 2 has 4, node 3 has 4
PLACES = [
    # rule                  gpus  devices               why
    (Placement.CONSOLIDATE, 1, (3,), "best fit: the fullest node that has room"),
    (Placement.CONSOLIDATE, 3, (8, 9, 10), "on one node"),
    (Placement.CONSOLIDATE, 5, (3, 8, 9, 10, 11), "a whole node and the best fit for the rest"),
    (Placement.CONSOLIDATE, 11, (3, 6, 7, *range(8, 16)), "everything"),
    (Placement.CONSOLIDATE, 12, None, "more than there is"),
    (Placement.ONE_NODE, 4, (8, 9, 10, 11), "a whole node"),
    (Placement.ONE_NODE, 5, None, "no node has five"),
    (Placement.PACKED, 6, (6, 7, 8, 9, 10, 11), "two nodes, as few as an empty cluster needs"),
    (Placement.PACKED, 9, (3, *range(8, 16)), "three nodes"),
    (Placement.SPREAD, 3, (8, 9, 12), "one at a time from the emptiest"),
    (Placement.FRAGMENTS, 3, (3, 6, 7), "leftovers first, whole nodes stay free"),
    (Placement.FRAGMENTS, 4, (8, 9, 10, 11), "a node with exactly as many has no leftovers"),
]


@pytest.mark.parametrize(("rule", "gpus", "devices", "why"), PLACES, ids=[row[3] for row in PLACES])
def test_where_each_rule_places(rule: Placement, gpus: int, devices: object, why: str) -> None:
    free = Free.of(parse_cluster("4x4"))
    free.remove_all((0, 1, 2, 4, 5))
    assert PLACEMENTS[rule](free, gpus) == devices, why
