"""What each live job asks of the plan: its speed by number of GPUs, work left, deadlines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from rota.knowledge.needs import Knowledge, Table
from rota.knowledge.scaling import as_measured, rates_on
from rota.model.columns import Array, Ints
from rota.model.job_columns import JobKind
from rota.scheduler.snapshot import Snapshot
from rota.solvers.future import NOTHING, Plan, SpeedLevels
from rota.stages.remaining import remaining_s
from rota.stages.sizes import Sizes

_MOST_KNOWN = 4096


class ShareAsk(NamedTuple):
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
    """The job would rather be late than refused: it states the value of being late."""
    bears_stops: bool = True
    """Its GPUs can be changed without losing its work."""
    due: float = math.inf
    """The deadline used for its plan; infinite if none."""
    stays: int = 0
    """Slots from the present one on for which it keeps what it has, as it has just begun."""
    is_late: bool = False
    """Its promise was broken: it comes after all promises that can be kept, until it gets a new one."""

    def pin(self) -> Plan:
        """The GPUs that it keeps in any case."""
        if not self.stays:
            return NOTHING
        return Plan(np.array([0, self.stays]), np.array([self.held, 0]), math.inf)

    def as_it_is(self) -> ShareAsk:
        """The ask on the GPUs that the job has and no others."""
        rate = self.levels.rates[self.levels.within(np.array([self.held]))[0]]
        return self._replace(levels=SpeedLevels(np.array([0, self.held]), np.array([0.0, float(rate)])))

    @property
    def rank(self) -> tuple[float, float, int]:
        """The earliest deadline first, then the earliest submission."""
        return self.due, self.submit_s, self.row


class KnownLevels:
    """The speeds of jobs on numbers of GPUs, kept as long as the curves do not change.

    Jobs with equal curves share them, from one decision to the next.
    """

    def __init__(self) -> None:
        self._rates: Array | None = None
        self._known: dict[tuple[int, float, tuple[int, ...], float], SpeedLevels] = {}

    def of(
        self, scaling: Table, rows: Ints, counts: Sequence[tuple[int, ...]], slot_s: float
    ) -> list[SpeedLevels]:
        """Work in a slot of each of `rows` on 0 and the numbers of GPUs that `counts` has for it."""
        if self._rates is not scaling.shared["rates"] or len(self._known) > _MOST_KNOWN:
            self._rates = scaling.shared["rates"]
            self._known.clear()
        codes, units = scaling.by_row["curve"][rows].tolist(), scaling.by_row["unit"][rows].tolist()
        levels_of_each = []
        for place, own in enumerate(counts):
            key = codes[place], units[place], own, slot_s
            levels = self._known.get(key)
            if levels is None:
                gpus = np.array(own, dtype=np.int64)
                levels = SpeedLevels.of(gpus, rates_on(scaling, rows[place : place + 1], gpus) * slot_s)
                self._known[key] = levels
            levels_of_each.append(levels)
        return levels_of_each


def asks_of(
    snapshot: Snapshot,
    sizes: Sizes,
    known: KnownLevels,
    origin_s: float,
    slot_s: float,
    *,
    measured: bool = False,
    min_run_s: float = 0.0,
) -> list[ShareAsk]:
    """What each job with GPUs asks, in slots from `origin_s`; `sizes` are what jobs may have now.

    A job that began less than `min_run_s` ago keeps what it has.  Curves are concave, or as `measured`.
    """
    jobs, table = snapshot.jobs, snapshot.jobs.table
    scaling = snapshot.know(Knowledge.SCALING)
    if measured:
        scaling = as_measured(scaling)
    rows, counts, fixed = _counts(snapshot, sizes)
    left = np.maximum(remaining_s(snapshot, rows), 0.0) * rates_on(scaling, rows, jobs.gpus[rows])
    every_levels = known.of(scaling, rows, counts, slot_s)
    deadline_s, now = jobs.deadline_s, snapshot.now
    asks = []
    for row, work, levels in zip(rows.tolist(), left.tolist(), every_levels, strict=True):
        grant = snapshot.grants.get(row)
        until_s = _may_change_s(snapshot, row, min_run_s) if grant is not None and min_run_s else now
        moments = jobs.deadlines(row)
        dues = [one.at_s for one in moments] or [deadline_s.item(row)]
        asks.append(
            ShareAsk(
                row,
                levels,
                # One that has outlived what was known of it is about to end: a slot on its least GPUs.
                work or levels.rates.item(1),
                tuple((at_s - origin_s) / slot_s for at_s in sorted(dues) if not math.isnan(at_s)),
                table.submit_s.item(row),
                len(grant.devices) if grant is not None else 0,
                is_soft=bool(moments),
                bears_stops=row not in fixed,
                stays=math.ceil((until_s - origin_s) / slot_s - 1e-9) if until_s > now else 0,
            )
        )
    return asks


def _may_change_s(snapshot: Snapshot, row: int, min_run_s: float) -> float:
    """The moment from which the GPUs of a running job may be changed; of an opportunistic one at any time."""
    if snapshot.jobs.table.kind.item(row) == JobKind.OPPORTUNISTIC:
        return snapshot.now
    return float(snapshot.jobs.since_s[row]) + min_run_s


def _counts(snapshot: Snapshot, sizes: Sizes) -> tuple[Ints, list[tuple[int, ...]], set[int]]:
    """Jobs with GPUs, ascending, the numbers of GPUs each may be given, and jobs that bear no stop.

    The numbers are powers of two, for which buddies can always make room; a job that can use none takes what
    it can.  A job that bears no stop keeps what it has.
    """
    among = set(sizes.rows.tolist())
    stays = {row for row, grant in snapshot.grants.items() if grant.devices and row not in among}
    counts: dict[int, tuple[int, ...]] = {row: (len(snapshot.grants[row].devices),) for row in stays}
    for row, may in zip(sizes.rows.tolist(), sizes.counts, strict=True):
        counts[row] = powers_of(may)
    rows = sorted(counts)
    return np.array(rows, dtype=np.int64), [counts[row] for row in rows], stays


def powers_of(may: Sequence[int]) -> tuple[int, ...]:
    """The numbers of `may` that are powers of two; all if none is."""
    return _powers_of(may if isinstance(may, range) else tuple(may))


@lru_cache(maxsize=1024)
def _powers_of(may: range | tuple[int, ...]) -> tuple[int, ...]:
    return tuple(count for count in may if count & (count - 1) == 0) or tuple(may)
