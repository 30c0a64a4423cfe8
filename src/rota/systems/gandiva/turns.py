"""Take turns: who runs next on a server that has more jobs than room.

The jobs of a server stand in a circle.  In each turn it is walked from the head; whoever fits what is
still free runs, and goes to the tail.  The head always runs, so that no gang waits for ever; and room that
a gang leaves is used by those behind it, which fixed groups would leave idle.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from rota.model.grants import Code, Constraint
from rota.stages.runners import Fits

TAKES_TURNS = Constraint(
    Code.POLICY, detail="waits for its turn on a server for jobs of its size; what is free is on others"
)
"""Why a job waits that would fit on what is free."""


def take_turn(circle: list[int], fits: Fits) -> list[int]:
    """The jobs of the next turn; they go to the tail of `circle`, in order, unless everybody runs."""
    taken = [row for row in circle if fits(row)]
    _to_tail(circle, taken)
    return taken


def join_turn(circle: list[int], running: Collection[int], fits: Fits) -> list[int]:
    """The jobs of a turn under way: those that run already, and whoever fits beside them."""
    stay = [row for row in circle if row in running and fits(row)]
    joined = [row for row in circle if row not in running and fits(row)]
    _to_tail(circle, joined)
    return stay + joined


def take_turn_by_count(circle: list[int], sizes: Sequence[int], room: int) -> tuple[list[int], list[int]]:
    """`take_turn` where counting decides: `sizes` GPUs of each job, `room` in all.

    Also who of the circle is left out.
    """
    taken: list[int] = []
    left: list[int] = []
    row: Any  # as in `Swaps.swap`
    for row in circle:
        size: int = sizes[row]
        if size <= room:
            room -= size
            taken.append(row)
        else:
            left.append(row)
    if left:
        circle[:] = left + taken
    return taken, left


def counting(sizes: Sequence[int], room: int) -> Fits:
    """Whether a job fits on `room` GPUs, of which it then takes its own."""

    def fits(row: int) -> bool:
        nonlocal room
        if sizes[row] > room:
            return False
        room -= sizes[row]
        return True

    return fits


def _to_tail(circle: list[int], rows: list[int]) -> None:
    if len(rows) < len(circle):
        gone = set(rows)
        circle[:] = [row for row in circle if row not in gone] + rows
