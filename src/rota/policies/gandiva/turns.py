"""Take turns: who runs next on a server that has more jobs than room.

The jobs of a server stand in a circle.  In each turn it is walked from the head; whoever fits what is
still free runs, and goes to the tail.  The head always runs, so that no gang waits for ever; and room that
a gang leaves is used by those behind it, which fixed groups would leave idle.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from rota.model.grants import Code, Constraint

Fits = Callable[[int], bool]
"""Whether a job fits what is still free; if it does, that room is taken."""

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


def _to_tail(circle: list[int], rows: list[int]) -> None:
    if len(rows) < len(circle):
        gone = set(rows)
        circle[:] = [row for row in circle if row not in gone] + rows
