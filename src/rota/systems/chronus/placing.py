"""Where a batch of jobs starts: several orders of placing it, and a search for jobs that lose most.

Which order is best depends on how much jobs are slowed down when their GPUs lie apart.  Where that is
unknown, or no job is slowed down, the first order is as good as any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rota.knowledge.needs import Knowledge
from rota.knowledge.placement import Closeness
from rota.model.grants import Grant
from rota.scheduler.snapshot import Snapshot
from rota.stages.fit import Fitter
from rota.stages.trial import admit_placed
from rota.table.occupancy import Occupancy

_WHOLE = 8
"""Jobs of more GPUs than this come first, the largest before the others."""


class StartGroup:
    """Jobs that start together, on what others leave."""

    def __init__(self, snapshot: Snapshot, fit: Fitter, scratch: Occupancy, rows: Sequence[int]) -> None:
        """`scratch` is the cluster without `rows`."""
        self.fit, self.scratch, self.rows = fit, scratch, list(rows)
        told = snapshot.know(Knowledge.PLACEMENT)
        self._closeness = Closeness(snapshot.cluster, told.shared["rates"])
        self._class = {row: told.by_row["class"].item(row) for row in self.rows}
        self.gpus = {row: snapshot.gpus_of[row] for row in self.rows}
        self.loses = {row: 1.0 - self._closeness.worst(number) for row, number in self._class.items()}
        """Part of its speed that each loses if it lies apart."""

    def best(self, first: Sequence[Grant], trials: int) -> list[Grant]:
        """The fastest of all placements found, including `first`."""
        best, speed = list(first), self.speed(first)
        if speed >= sum(self.gpus.values()):
            return best
        for order in self._orders():
            best, speed = self._better(order, best, speed)
        return self._search(best, speed, trials)

    def speed(self, grants: Sequence[Grant]) -> float:
        """Number of busy GPUs, each weighted by the part of its speed that placement leaves."""
        return sum(len(grant.devices) * self.factor(grant) for grant in grants)

    def factor(self, grant: Grant) -> float:
        return self._closeness.factor(self._class[grant.job], grant.devices)

    def _orders(self) -> list[list[int]]:
        """Four orders: whole nodes first; then by speed lost, largest, smallest, or speed lost times GPUs."""
        keys: tuple[Callable[[int], float], ...] = (
            lambda row: -self.loses[row],
            lambda row: -self.gpus[row],
            lambda row: self.gpus[row],
            lambda row: -self.loses[row] * self.gpus[row],
        )
        return [self._in_order(key) for key in keys]

    def _in_order(self, key: Callable[[int], float]) -> list[int]:
        large = sorted((row for row in self.rows if self.gpus[row] > _WHOLE), key=lambda row: -self.gpus[row])
        return large + sorted((row for row in self.rows if self.gpus[row] <= _WHOLE), key=key)

    def _better(self, order: Sequence[int], best: list[Grant], speed: float) -> tuple[list[Grant], float]:
        """The placement in this order, if every job finds a place and it is faster than the `best`."""
        grants = admit_placed(order, self.scratch, self.fit)
        for grant in grants:
            self.scratch.release(grant)
        if len(grants) == len(self.rows) and self.speed(grants) > speed + 1e-9:
            return grants, self.speed(grants)
        return best, speed

    def _search(self, best: list[Grant], speed: float, trials: int) -> list[Grant]:
        """Place jobs that lose most by lying apart first, as long as all together gain by it."""
        first: list[int] = []
        for _ in range(trials):
            slow = [(self.factor(one) - 1.0) * len(one.devices) for one in best]
            rows = [(loss, one.job) for loss, one in zip(slow, best, strict=True) if loss < 0.0]
            tried = next((row for _, row in sorted(rows) if row not in first), None)
            if tried is None:
                break
            first.append(tried)
            order = first + [one.job for one in best if one.job not in first]
            best, speed = self._better(order, best, speed)
        return best


def placed_together(
    snapshot: Snapshot, fit: Fitter, grants: Sequence[Grant], preempt: Sequence[int], trials: int
) -> list[Grant]:
    """`grants`, with the jobs that start among them at the best places that are found."""
    batch = [grant for grant in grants if grant.job not in snapshot.grants and grant.devices]
    if not any(len(grant.devices) > 1 for grant in batch):
        return list(grants)
    others = [grant for grant in grants if grant not in batch]
    scratch = fit.scratch(snapshot)
    for row in (*preempt, *(grant.job for grant in others if grant.job in snapshot.grants)):
        scratch.release(snapshot.grants[row])
    for grant in others:
        scratch.hold(grant)
    return others + StartGroup(snapshot, fit, scratch, [grant.job for grant in batch]).best(batch, trials)
