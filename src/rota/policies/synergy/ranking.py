"""Who is before whom, and who would fit, as the inner policy sees it: by GPUs alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rota.scheduler.decision import Ranking
from rota.scheduler.reasons.waiting import KnowsShares
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


class GpuShares(GpuRanking):
    """The same where tenants are ordered by what they hold."""

    def share(self, snapshot: Snapshot, row: int) -> tuple[str, float, float]:
        assert isinstance(self.inner, KnowsShares)
        return self.inner.share(self.see(snapshot), row)


def as_gpus(inner: Ranking, see: See) -> GpuRanking:
    """`inner` as it ranks what `see` shows."""
    return GpuShares(inner, see) if isinstance(inner, KnowsShares) else GpuRanking(inner, see)
