"""Pack by trial: put two jobs on the same devices, measure, and part them if that did not pay.

Nothing is predicted.  Two jobs that share a device are worth it if they do more together than they would
in turns, that is if their rates, each relative to the job's own rate alone, sum to more than 1.  That the
device is busier proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations

Pair = tuple[int, int]


def gain(rates: Iterable[float], alone: Iterable[float]) -> float:
    """What jobs do together, relative to what they do in turns: 1.0 is no gain."""
    return sum(rate / solo for rate, solo in zip(rates, alone, strict=True))


def next_pair(
    rows: Iterable[int], utilisation: Callable[[int], float], may_share: Callable[[Pair], bool]
) -> Pair | None:
    """The pair to try next: least utilised first, then the least utilised partner; ties by row."""
    order: Sequence[int] = sorted(rows, key=lambda row: (utilisation(row), row))
    return next((pair for pair in combinations(order, 2) if may_share(pair)), None)
