"""What each live job asks of the plan: how fast it is on how many GPUs, how much is left, until when."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from rota.knowledge.needs import Knowledge
from rota.knowledge.scaling import as_measured, curves_of, rates_on
from rota.model.columns import Ints
from rota.scheduler.snapshot import Snapshot
from rota.scheduler.stages.remaining import remaining_s
from rota.scheduler.stages.sizes import Sizes
from rota.solvers.future import SpeedLevels


@dataclass(frozen=True)
class ShareAsk:
    """One live job."""

    row: int
    levels: SpeedLevels
    """Rates are work in a slot."""
    work: float
    dues: tuple[float, ...]
    """Deadlines in slots from the beginning of the present one, ascending; none for a job without promise."""
    submit_s: float
    held: int
    """GPUs that it has now."""
    is_soft: bool
    """It would rather be late than refused: it says what it is worth later."""
    bears_stops: bool = True
    """Its GPUs can be changed without losing its work."""
    due: float = field(default=math.inf)
    """The deadline that it is planned for; infinite if none."""

    @property
    def rank(self) -> tuple[float, float, int]:
        """The earliest deadline first, then who came first."""
        return self.due, self.submit_s, self.row


def asks_of(
    snapshot: Snapshot, sizes: Sizes, origin_s: float, slot_s: float, *, measured: bool = False
) -> list[ShareAsk]:
    """What each job with GPUs asks, in slots from `origin_s`; `sizes` are what jobs may have now.

    Curves are concave, or go through what was `measured`.
    """
    jobs, table = snapshot.jobs, snapshot.jobs.table
    scaling = snapshot.know(Knowledge.SCALING)
    if measured:
        scaling = as_measured(scaling)
    rows, counts, fixed = _counts(snapshot, sizes)
    left = np.maximum(remaining_s(snapshot, rows), 0.0) * rates_on(scaling, rows, jobs.gpus[rows])
    curves = curves_of(scaling, rows, max((count[-1] for count in counts), default=0)) * slot_s
    asks = []
    for place, row in enumerate(rows.tolist()):
        grant = snapshot.grants.get(row)
        own = np.array(counts[place], dtype=np.int64)
        levels = _levels(tuple(own.tolist()), tuple(curves[place, own].tolist()))
        moments = jobs.deadlines(row)
        dues = [one.at_s for one in moments] or [jobs.deadline_s.item(row)]
        asks.append(
            ShareAsk(
                row,
                levels,
                # One that has outlived what was known of it is about to end: a slot on its least GPUs.
                float(left[place]) or float(levels.rates[1]),
                tuple((at_s - origin_s) / slot_s for at_s in sorted(dues) if not math.isnan(at_s)),
                table.submit_s.item(row),
                len(grant.devices) if grant is not None else 0,
                is_soft=bool(moments),
                bears_stops=row not in fixed,
            )
        )
    return asks


@lru_cache(maxsize=4096)
def _levels(counts: tuple[int, ...], rates: tuple[float, ...]) -> SpeedLevels:
    """Jobs alike share theirs, from one decision to the next."""
    return SpeedLevels.of(np.array(counts, dtype=np.int64), np.array(rates))


def _counts(snapshot: Snapshot, sizes: Sizes) -> tuple[Ints, list[Sequence[int]], set[int]]:
    """Jobs with GPUs, ascending, the numbers of GPUs each may be given, and those that bear no stop.

    The numbers are powers of two, for which buddies can always make room; one that cannot use any takes what
    it can.  Who bears no stop keeps what it has.
    """
    among = set(sizes.rows.tolist())
    stays = {row for row, grant in snapshot.grants.items() if grant.devices and row not in among}
    counts: dict[int, Sequence[int]] = {row: (len(snapshot.grants[row].devices),) for row in stays}
    for row, may in zip(sizes.rows.tolist(), sizes.counts, strict=True):
        counts[row] = [count for count in may if count & (count - 1) == 0] or list(may)
    rows = np.array(sorted(counts), dtype=np.int64)
    return rows, [counts[row] for row in rows.tolist()], stays
