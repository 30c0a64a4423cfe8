"""Whose turn it is in sets of nodes, as grants: devices for jobs that come, and jobs that have to leave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rota.model.grants import Grant
from rota.published.artifacts.gandiva.node_sets import EqualNodeSets, NodeSet
from rota.scheduler.snapshot import Snapshot


def all_turns(snapshot: Snapshot, sets: EqualNodeSets) -> tuple[list[Grant], list[int]]:
    """Grants for the jobs whose turn it is on the nodes of their set; the others leave."""
    grants: list[Grant] = []
    heads: set[int] = set()
    for size, some in sets.sets.items():
        for one in some:
            rows = sets.heads(size, one)
            heads.update(rows)
            grants += _on_nodes(snapshot, one["nodes"], rows, size)
    return grants, [row for row in snapshot.running.tolist() if row not in heads]


def changed_turns(
    snapshot: Snapshot, sets: EqualNodeSets, before: Mapping[int, Sequence[NodeSet]]
) -> tuple[list[Grant], list[int]]:
    """The turns where every job holds what the last decision gave its set, when the sets were `before`.

    Only the sizes whose sets have changed are looked at.
    """
    grants: list[Grant] = []
    heads, sat = set[int](), dict[int, list[int]]()
    for size in sets.changed:
        for one in before.get(size, ()):
            nodes = one["nodes"]
            for row in sets.heads(size, one):
                sat[row] = nodes
    for size, some in sets.sets.items():
        if size in sets.changed:
            for one in some:
                nodes, rows = one["nodes"], sets.heads(size, one)
                heads.update(rows)
                if any(sat.get(row) != nodes for row in rows):
                    grants += _on_nodes(snapshot, nodes, rows, size)
    return grants, sorted([row for row in sat if row not in heads])


def _on_nodes(snapshot: Snapshot, nodes: list[int], rows: list[int], size: int) -> list[Grant]:
    """Devices of `nodes` for jobs that do not run there yet."""
    held, free = snapshot.grants, snapshot.occupancy.free
    node_of, first = free.node_of, free.first
    staying = [row for row in rows if row in held and _lie_on(held[row].devices, nodes, node_of)]
    if len(staying) == len(rows):
        return []
    devices = [device for node in nodes for device in range(first[node], first[node + 1])]
    taken = {device for row in staying for device in held[row].devices}
    left = [device for device in devices if device not in taken]
    newcomers = [row for row in rows if row not in staying]
    return [Grant(row, tuple(sorted(left[size * k : size * (k + 1)]))) for k, row in enumerate(newcomers)]


def _lie_on(devices: tuple[int, ...], nodes: list[int], node_of: list[int]) -> bool:
    """True if all `devices` lie on `nodes`."""
    return all(node_of[device] in nodes for device in devices)
