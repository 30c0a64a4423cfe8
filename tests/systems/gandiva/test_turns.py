"""Turns: who runs next on a crowded server."""

from __future__ import annotations

import pytest

from rota.stages.runners import Fits
from rota.systems.gandiva.turns import join_turn, take_turn


class Room:
    """Takes jobs as long as they fit."""

    def __init__(self, gpus: int, sizes: list[int]) -> None:
        self.left = gpus
        self.sizes = sizes

    def __call__(self, row: int) -> bool:
        if self.sizes[row] > self.left:
            return False
        self.left -= self.sizes[row]
        return True


def turns(gpus: int, sizes: list[int], count: int) -> list[list[int]]:
    """The running sets of `count` turns."""
    circle = list(range(len(sizes)))
    return [take_turn(circle, Room(gpus, sizes)) for _ in range(count)]


@pytest.mark.parametrize(
    ("gpus", "sizes", "expected", "why"),
    [
        (4, [2, 2, 2], [[0, 1], [2, 0], [1, 2], [0, 1]], "fixed groups would idle 2 GPUs every other turn"),
        (4, [4, 2, 1], [[0], [1, 2], [0], [1, 2]], "a gang alone, then those that fit together"),
        (1, [1, 1, 1], [[0], [1], [2], [0]], "one after the other"),
        (4, [1, 4, 1, 1, 1, 1], [[0, 2, 3, 4], [1], [5, 0, 2, 3]], "the head runs: no gang waits for ever"),
        (4, [1, 2], [[0, 1], [0, 1]], "room for all: nobody moves to the tail"),
    ],
)
def test_the_circle_is_walked_from_the_head(
    gpus: int, sizes: list[int], expected: list[list[int]], why: str
) -> None:
    """Running sets of gandiva.md, example 7, and others computed by hand."""
    assert turns(gpus, sizes, len(expected)) == expected, why


def test_everybody_gets_the_same_part_when_sizes_divide() -> None:
    """Three jobs of 2 GPUs on 4: after three turns each ran two."""
    ran = [row for running in turns(4, [2, 2, 2], 3) for row in running]
    assert [ran.count(row) for row in range(3)] == [2, 2, 2]


def test_a_newcomer_joins_a_turn_only_where_there_is_room() -> None:
    """Job 2 takes the GPU that is idle; job 3 waits at the tail, and nobody is stopped for them."""
    sizes = [2, 1, 1, 1]
    circle = [3, 0, 1, 2]
    fits: Fits = Room(4, sizes)
    assert join_turn(circle, {0, 1, 2}, fits) == [0, 1, 2]
    circle = [0, 1, 2, 3]
    assert join_turn(circle, {0, 1}, Room(4, sizes)) == [0, 1, 2]
    assert circle == [0, 1, 3, 2]
