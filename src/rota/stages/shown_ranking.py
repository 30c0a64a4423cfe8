"""Rankings of policies inside others: what they can answer about what those policies were shown.

A wrapper shows an inner policy a view: a part of the cluster, or all of it without some of its limits.
Whatever the inner ranking can answer about a job, the wrapper's can too: every protocol of `ANSWERS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

from rota.model.reasons import Constraint
from rota.scheduler.decision import Ranking
from rota.scheduler.reasons.order import KnowsOrder
from rota.scheduler.reasons.running import KnowsSizes
from rota.scheduler.reasons.waiting import KnowsShares, KnowsTurns
from rota.scheduler.snapshot import Snapshot
from rota.scheduler.victims import RanksAlike
from rota.stages.priority import ByPriority
from rota.table.occupancy import Occupancy

_BY_SUBMISSION: Ranking = ByPriority(lambda snapshot, row: row)


class Shown(NamedTuple):
    """One inner ranking and what its policy was shown."""

    ranking: Ranking
    see: Callable[[Snapshot], Snapshot]
    """The view of a moment that it is shown."""
    ranks: Callable[[int], bool]
    """True of the rows it knows."""
    is_whole: bool = False
    """True if it sees all nodes, so that devices have the numbers there that they have here."""


class ShownRanking:
    """The rankings of several parts, or of one policy inside another, as one.

    No job is ahead of one that waits in no part, such as a job that is still to be measured.
    """

    def __init__(self, parts: Sequence[Shown]) -> None:
        self.parts = parts
        self.spreads = all(part.ranking.spreads for part in parts)

    def part_of(self, row: int) -> Shown | None:
        """The part that ranks `row`."""
        return next((part for part in self.parts if part.ranks(row)), None)

    def ahead(self, snapshot: Snapshot, row: int) -> Sequence[int]:
        part = self.part_of(row)
        return () if part is None else part.ranking.ahead(part.see(snapshot), row)

    def fits(self, snapshot: Snapshot, scratch: Occupancy, row: int) -> bool:
        part = self.part_of(row)
        if part is None or not part.is_whole:
            return _BY_SUBMISSION.fits(snapshot, scratch, row)
        return part.ranking.fits(part.see(snapshot), scratch, row)


class _Shares(ShownRanking):
    """A `ShownRanking` where a policy orders tenants by what they hold."""

    def share(self, snapshot: Snapshot, row: int) -> tuple[str, float, float] | None:
        part = self.part_of(row)
        if part is None or not isinstance(part.ranking, KnowsShares):
            return None
        return part.ranking.share(part.see(snapshot), row)


class _Turns(ShownRanking):
    """A `ShownRanking` where jobs take turns."""

    def turn(self, snapshot: Snapshot, row: int) -> Constraint | None:
        part = self.part_of(row)
        if part is None or not isinstance(part.ranking, KnowsTurns):
            return None
        return part.ranking.turn(part.see(snapshot), row)


class _Sizes(ShownRanking):
    """A `ShownRanking` where a policy decides numbers of GPUs."""

    def size(self, snapshot: Snapshot, row: int) -> Constraint | None:
        part = self.part_of(row)
        if part is None or not isinstance(part.ranking, KnowsSizes):
            return None
        return part.ranking.size(part.see(snapshot), row)


class _Alike(ShownRanking):
    """A `ShownRanking` where a policy can say that only submission decides between two jobs."""

    def equal(self, snapshot: Snapshot, one: int, other: int) -> bool:
        part = self.part_of(one)
        if part is None or not isinstance(part.ranking, RanksAlike) or not part.ranks(other):
            return False
        return part.ranking.equal(part.see(snapshot), one, other)


class _Order(ShownRanking):
    """A `ShownRanking` of policies that know their whole order: the first of each part, then the second."""

    def in_turn(self, snapshot: Snapshot) -> list[int]:
        place = dict.fromkeys(snapshot.waiting.tolist(), 0)
        for part in self.parts:
            rows = part.ranking.in_turn(part.see(snapshot)) if isinstance(part.ranking, KnowsOrder) else ()
            place.update((row, at) for at, row in enumerate(rows, 1) if row in place)
        return sorted(place, key=lambda row: (place[row], row))


ANSWERS: dict[type, type[ShownRanking]] = {
    KnowsShares: _Shares,
    KnowsTurns: _Turns,
    KnowsSizes: _Sizes,
    RanksAlike: _Alike,
    KnowsOrder: _Order,
}
"""Every protocol that a ranking may have besides `Ranking`, with the class that passes it on."""


def shown_ranking(parts: Sequence[Shown]) -> ShownRanking:
    """A ranking that answers whatever the policy of any part can answer; the whole order, if all know it."""
    return _answering(tuple(type(part.ranking) for part in parts))(parts)


@cache
def _answering(kinds: tuple[type[Ranking], ...]) -> type[ShownRanking]:
    """A ranking that answers what those of `kinds` do: protocols are methods, so a class is needed."""
    known = [
        own
        for knows, own in ANSWERS.items()
        if (all if knows is KnowsOrder else any)(issubclass(kind, knows) for kind in kinds)
    ]
    return type("ShownRanking", tuple(known) or (ShownRanking,), {})
