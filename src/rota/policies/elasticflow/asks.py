"""What each live job asks of the plan: how fast it is on how many GPUs, how much is left, until when."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from rota.knowledge.needs import Knowledge
from rota.knowledge.scaling import as_measured, curves_of, rates_on
from rota.model.columns import Ints
from rota.model.job_columns import JobKind
from rota.scheduler.snapshot import Snapshot
from rota.scheduler.stages.remaining import remaining_s
from rota.scheduler.stages.sizes import Sizes
from rota.solvers.future import NOTHING, Plan, SpeedLevels


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
    stays: int = 0
    """Slots from the present one on for which it keeps what it has, as it has just begun."""

    def pin(self) -> Plan:
        """The GPUs that it keeps in any case."""
        if not self.stays:
            return NOTHING
        return Plan(np.array([0, self.stays]), np.array([self.held, 0]), math.inf)

    def as_it_is(self) -> ShareAsk:
        """The same on the GPUs that it has and no others."""
        rate = self.levels.rates[self.levels.within(np.array([self.held]))[0]]
        return replace(self, levels=SpeedLevels(np.array([0, self.held]), np.array([0.0, float(rate)])))

    @property
    def rank(self) -> tuple[float, float, int]:
        """The earliest deadline first, then who came first."""
        return self.due, self.submit_s, self.row


def asks_of(
    snapshot: Snapshot,
    sizes: Sizes,
    origin_s: float,
    slot_s: float,
    *,
    measured: bool = False,
    min_run_s: float = 0.0,
) -> list[ShareAsk]:
    """What each job with GPUs asks, in slots from `origin_s`; `sizes` are what jobs may have now.

    Who began less than `min_run_s` ago keeps what it has.  Curves are concave, or as `measured`.
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
        until_s = _may_change_s(snapshot, row, min_run_s) if grant is not None and min_run_s else snapshot.now
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
                stays=math.ceil((until_s - origin_s) / slot_s - 1e-9) if until_s > snapshot.now else 0,
            )
        )
    return asks


def _may_change_s(snapshot: Snapshot, row: int, min_run_s: float) -> float:
    """The moment from which the GPUs of a running job may be changed; of an opportunistic one at any time."""
    if snapshot.jobs.table.kind.item(row) == JobKind.OPPORTUNISTIC:
        return snapshot.now
    return float(snapshot.jobs.since_s[row]) + min_run_s


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
