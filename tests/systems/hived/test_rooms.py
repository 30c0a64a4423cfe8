"""Node cells by free GPUs: the same nodes in the same order as looking at all of them."""

from __future__ import annotations

import random

import pytest

from rota.model.cells import CellKind
from rota.systems.hived.cells import OPPORTUNISTIC, Cell, count, physical_cell
from rota.systems.hived.rooms import MOST_PRIORITIES, Rooms

KIND = CellKind("E", "GPU", ("device", "pair", "node"), (0, 2, 2), 3)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("priorities", [3, 2 * MOST_PRIORITIES])
def test_as_if_all_were_looked_at(seed: int, priorities: int) -> None:
    draw = random.Random(seed)
    nodes = [physical_cell(KIND, 3, [n], list(range(4 * n, 4 * n + 4)), n) for n in range(6)]
    rooms, used = Rooms(nodes), dict[Cell, int]()
    leaves = [leaf for node in nodes for leaf in node.leaves]
    for _ in range(400):
        leaf = draw.choice(leaves)
        if leaf in used:
            count(leaf, used.pop(leaf), -1)
        else:
            used[leaf] = draw.randrange(OPPORTUNISTIC, priorities)
            count(leaf, used[leaf], 1)
        priority, least = draw.randrange(OPPORTUNISTIC, priorities), draw.randint(0, 5)
        idle = sum(node.size - node.busy for node in nodes)
        if priorities < MOST_PRIORITIES:
            assert rooms.has_more(priority) == (sum(node.free_for(priority) for node in nodes) > idle)
        is_low = draw.random() < 0.5
        wanted = [node for node in nodes if node.free_for(priority) >= least]
        wanted.sort(key=lambda node: rank(node, is_low))
        assert list(rooms.in_order(priority, least, is_low=is_low)) == wanted


def rank(node: Cell, is_low: bool) -> tuple[int, int]:
    """Most in use first; for opportunists most in use by others of them, then the least by anybody else."""
    low = node.used.get(OPPORTUNISTIC, 0)
    return (-low, node.busy - low) if is_low else (-node.busy, 0)
