"""Who is before whom, and who would fit, as the inner policy sees it: by GPUs alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from rota.model.reasons import Constraint
from rota.scheduler.decision import Ranking
from rota.scheduler.reasons.running import KnowsSizes
from rota.scheduler.reasons.waiting import KnowsShares, KnowsTurns
from rota.scheduler.snapshot import Snapshot
from rota.table.occupancy import Occupancy

See = Callable[[Snapshot], Snapshot]


class GpuRanking:
    """The ranking `inner` of what `see` shows of a moment."""

    def __init__(self, inner: Ranking, see: See) -> None:
        self.inner = inner
        self.see = see
        self.spreads = inner.spreads

    def ahead(self, snapshot: Snapshot, row: int) -> Sequence[int]:
        return self.inner.ahead(self.see(snapshot), row)

    def fits(self, snapshot: Snapshot, scratch: Occupancy, row: int) -> bool:
        return self.inner.fits(self.see(snapshot), scratch, row)


class _Shares(GpuRanking):
    """The same where tenants are ordered by what they hold."""

    def share(self, snapshot: Snapshot, row: int) -> tuple[str, float, float]:
        assert isinstance(self.inner, KnowsShares)
        return self.inner.share(self.see(snapshot), row)


class _Turns(GpuRanking):
    """The same where jobs take turns."""

    def turn(self, snapshot: Snapshot, row: int) -> Constraint | None:
        assert isinstance(self.inner, KnowsTurns)
        return self.inner.turn(self.see(snapshot), row)


class _Sizes(GpuRanking):
    """The same where the policy decides numbers of GPUs."""

    def size(self, snapshot: Snapshot, row: int) -> Constraint | None:
        assert isinstance(self.inner, KnowsSizes)
        return self.inner.size(self.see(snapshot), row)


_KNOWS: tuple[tuple[type, type[GpuRanking]], ...] = (
    (KnowsShares, _Shares),
    (KnowsTurns, _Turns),
    (KnowsSizes, _Sizes),
)


@cache
def _kind(known: tuple[type[GpuRanking], ...]) -> type[GpuRanking]:
    """A ranking that answers all of this."""
    return type("GpuRanking", known or (GpuRanking,), {})


def as_gpus(inner: Ranking, see: See) -> GpuRanking:
    """`inner` as it ranks what `see` shows; it answers what `inner` can answer."""
    answers = [own for knows, own in _KNOWS if isinstance(inner, knows)]
    return _kind(tuple(answers))(inner, see)
