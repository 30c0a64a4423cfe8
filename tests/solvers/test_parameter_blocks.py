"""Optimus' worked examples 4 and 5: blocks on servers, and what a placement has to move."""

from __future__ import annotations

import pytest

from rota.solvers.parameter_blocks import deal, transfer

BLOCKS = [
    # sizes                            servers   loads                  requests
    ([100, 40, 30, 20, 9, 0.5, 0.5], 2, [101, 99], [3, 4]),
    ([60, 50, 40, 30, 20], 4, [50, 50, 50, 50], [1, 1, 2, 2]),
    ([7], 1, [7], [1]),
]


@pytest.mark.parametrize(("sizes", "servers", "loads", "requests"), BLOCKS)
def test_blocks(sizes: list[float], servers: int, loads: list[float], requests: list[int]) -> None:
    found = deal(sizes, servers)
    assert sorted(server.load for server in found) == pytest.approx(sorted(loads))
    assert sorted(server.requests for server in found) == requests
    whole = [0.0] * len(sizes)
    for server in found:
        for block, part in server.parts:
            whole[block] += part
    assert whole == pytest.approx(sizes), "nothing is lost, nothing twice"


PLACES = [
    # servers and workers on each machine   what the busiest moves
    ((2,), (4,), 0.0),
    ((1, 1), (2, 2), 1.0),
    ((1, 1), (1, 3), 1.5),
    ((2, 0), (1, 3), 3.0),
]


@pytest.mark.parametrize(("servers", "workers", "moved"), PLACES)
def test_few_machines_and_even_parts_move_least(
    servers: tuple[int, ...], workers: tuple[int, ...], moved: float
) -> None:
    assert transfer(servers, workers) == pytest.approx(moved)
