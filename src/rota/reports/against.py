"""Two policies job by job: which jobs wait less under the second, which more, and which change most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from rota.model.columns import Floats, Ints
from rota.model.record import Record
from rota.reports.metrics import waiting_s
from rota.reports.sample import Sample
from rota.reports.window import Window

EQUAL_S = 1.0
"""Waits that differ by less count as equal."""
EXTREMES = 10
"""Jobs named at either end."""
PAIRED_MAX = 8
"""Of more policies than this, only pairs with the first are compared."""


@dataclass(frozen=True)
class Mover:
    """A job with a changed wait."""

    row: int
    first_s: float
    second_s: float


@dataclass(frozen=True)
class Pair:
    """The jobs that finished under both policies of a pair, by the second one's effect on their waits."""

    first: int
    second: int
    """Numbers of the two runs."""
    shorter: int
    same: int
    longer: int
    gained_s: float
    """Mean seconds saved by the jobs that wait less; 0 if none does."""
    lost_s: float
    """Mean seconds lost by the jobs that wait more; 0 if none does."""
    gains: tuple[Mover, ...]
    """The jobs that gain most, the most first."""
    losses: tuple[Mover, ...]

    @property
    def jobs(self) -> int:
        return self.shorter + self.same + self.longer

    def turned(self) -> Pair:
        """This pair with its sides exchanged."""

        def swapped(movers: tuple[Mover, ...]) -> tuple[Mover, ...]:
            return tuple(Mover(of.row, of.second_s, of.first_s) for of in movers)

        return Pair(
            self.second,
            self.first,
            shorter=self.longer,
            same=self.same,
            longer=self.shorter,
            gained_s=self.lost_s,
            lost_s=self.gained_s,
            gains=swapped(self.losses),
            losses=swapped(self.gains),
        )


def pairs(records: Sequence[Record], window: Window | None = None) -> list[Pair]:
    """Every pair of `records`; the earlier one is the first."""
    samples = [Sample.of(record, window) for record in records]
    waits = [waiting_s(sample) for sample in samples]
    numbers = range(len(records))
    chosen = combinations(numbers, 2) if len(records) <= PAIRED_MAX else [(0, n) for n in numbers[1:]]
    return [_pair(first, second, waits, samples[0].rows) for first, second in chosen]


def _pair(first: int, second: int, waits: Sequence[Floats], rows: Ints) -> Pair:
    change = waits[second] - waits[first]
    known = np.flatnonzero(~np.isnan(change))
    change = change[known]
    less, more = change <= -EQUAL_S, change >= EQUAL_S
    order = known[np.argsort(change, kind="stable")]
    gains, losses = order[: min(EXTREMES, int(less.sum()))], order[::-1][: min(EXTREMES, int(more.sum()))]

    def movers(places: Ints) -> tuple[Mover, ...]:
        return tuple(Mover(int(rows[i]), float(waits[first][i]), float(waits[second][i])) for i in places)

    return Pair(
        first,
        second,
        shorter=int(less.sum()),
        same=int(len(known) - less.sum() - more.sum()),
        longer=int(more.sum()),
        gained_s=float(-change[less].mean()) if less.any() else 0.0,
        lost_s=float(change[more].mean()) if more.any() else 0.0,
        gains=movers(gains),
        losses=movers(losses),
    )
