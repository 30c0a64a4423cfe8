"""A site's clock that was set back or forward by an hour, as it shows in an accounting dump in local time.

Without a correction the jobs of the repeated hour would overlap, as on nodes with twice as many GPUs.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import polars as pl

from rota.model.columns import Bools, Floats, Ints
from rota.model.trace import OddRows
from rota.traces.build import Oddities
from rota.traces.sacct_moments import STAMPS
from rota.traces.sacct_rows import ID
from rota.traces.table import TextTable

HOUR_S = 3600.0
_DAY_S, _WEEK_S, _FIRST_SUNDAY_S = 24 * HOUR_S, 7 * 24 * HOUR_S, 3 * 24 * HOUR_S
_CHANGES = ((HOUR_S, (2, 3, 4)), (-HOUR_S, (1, 2, 3)))
"""Seconds to add to moments after a change, and the hours of a Sunday at which clocks are changed so."""
_ROUNDING_S = 2.0


@dataclass(frozen=True)
class ClockChange:
    """The moment on the clock before a change, and the seconds to add to moments after it."""

    at_s: float
    by_s: float

    def behind(self, moments_s: Floats) -> Bools:
        """Which moments are certainly after the change."""
        return np.asarray(moments_s >= self.at_s)

    def twice(self, moments_s: Floats) -> Bools:
        """Which moments the clock has shown twice."""
        return np.asarray((moments_s >= self.at_s - max(self.by_s, 0.0)) & (moments_s < self.at_s))


def clock_changes(start_s: Floats, end_s: Floats, elapsed_s: Floats) -> list[ClockChange]:
    """The changes that follow from run times: an hour more or less elapsed than between start and end.

    Of the hours at which clocks may be changed on a Sunday, the one that fits most jobs is taken.
    """
    off_s = elapsed_s - (end_s - start_s)
    changes = []
    for by_s, hours in _CHANGES:
        off = np.abs(off_s - by_s) <= _ROUNDING_S
        plain = np.abs(off_s) <= _ROUNDING_S
        for sunday in _sundays(start_s[off], end_s[off]):
            likely = [ClockChange(float(sunday + hour * HOUR_S), by_s) for hour in hours]
            borne_out = [_borne_out(change, start_s, end_s, off, plain) for change in likely]
            best = int(np.argmax(borne_out))
            if borne_out[best] > 0:
                changes.append(likely[best])
    return sorted(changes, key=lambda change: change.at_s)


def _sundays(start_s: Floats, end_s: Floats) -> Ints:
    """Midnights of the Sundays that any of the runs overlaps."""
    first = np.floor((np.fmin(start_s, end_s) - _FIRST_SUNDAY_S - _DAY_S) / _WEEK_S).astype(np.int64) + 1
    last = np.floor((np.fmax(start_s, end_s) - _FIRST_SUNDAY_S) / _WEEK_S).astype(np.int64)
    weeks: set[int] = set()
    for low, high in {*zip(first.tolist(), last.tolist(), strict=True)}:
        weeks.update(range(low, high + 1))
    return np.array(sorted(weeks), dtype=np.int64) * int(_WEEK_S) + int(_FIRST_SUNDAY_S)


def _borne_out(change: ClockChange, start_s: Floats, end_s: Floats, off: Bools, plain: Bools) -> int:
    """Number of jobs that ran through the change and show it, less the evidence against it.

    The evidence against it is jobs that ran through it without showing it, and moments that the clock would
    have skipped.
    """
    again_s, left_out_s = max(change.by_s, 0.0), max(-change.by_s, 0.0)
    behind_s = change.at_s + left_out_s
    through = (start_s < change.at_s) & (end_s >= behind_s - again_s)
    surely = (start_s < change.at_s - again_s) & (end_s >= behind_s)
    left_out = [(moments >= change.at_s) & (moments < behind_s) for moments in (start_s, end_s)]
    return int((through & off).sum()) - int((surely & plain).sum()) - int(np.sum(left_out))


def on_one_clock(table: TextTable, elapsed_s: Floats, noted: list[OddRows]) -> TextTable:
    """`table` with all moments on the clock before the first change, if run times show that it was changed.

    Runs within an hour that was shown twice are left out, since their hour is unknown. Both are counted in
    `noted`.
    """
    stamps = {name: table.stamps(name, blank=True) for name in STAMPS if table.has(name)}
    moved_s = {name: np.zeros(len(table)) for name in stamps}
    unsure = np.zeros(len(table), dtype=np.bool_)
    start_s, end_s = stamps["Start"], stamps["End"]
    changes = clock_changes(start_s, end_s, elapsed_s)
    for change in changes:
        after, doubtful = _after(change, stamps, elapsed_s)
        for name in stamps:
            moved_s[name] += np.where(after[name], change.by_s, 0.0)
        unsure |= doubtful
    if not changes:
        return table
    odd = Oddities(table, table.text(table.first_of(*ID)).to_list(), repeats=True)
    columns = [_texts(table.text(name), stamps[name], moved_s[name]).alias(name) for name in stamps]
    moments = (datetime.fromtimestamp(change.at_s, UTC) for change in changes)
    when = ", ".join(f"{moment:%Y-%m-%d %H:%M}" for moment in moments)
    moved = np.any([moved != 0 for moved in moved_s.values()], axis=0)
    how = "kept, on the clock before; SLURM_TIME_FORMAT=%FT%T%z before sacct tells moments for certain"
    odd.note(f"after the clock was changed ({when})", how, moved)
    odd.drop("within the hour that the clock showed twice", "in which of the two it ran is not known", unsure)
    noted += odd.noted
    return TextTable(table.file, table.frame.with_columns(columns), table.row).take(~unsure)


def _after(
    change: ClockChange, stamps: dict[str, Floats], elapsed_s: Floats
) -> tuple[dict[str, Bools], Bools]:
    """Which moments of each column are after the change, and which rows ran at an unknown hour.

    A start that the clock showed twice is after the change if its run then ends at the recorded time. Moments
    before such a start are taken to be as late as possible, so that waiting times are not overestimated.
    """
    start_s, end_s = stamps["Start"], stamps["End"]
    through = np.abs(elapsed_s - (end_s - start_s) - change.by_s) <= _ROUNDING_S
    started, ended = change.behind(start_s), change.behind(end_s)
    begun, over = change.twice(start_s), change.twice(end_s)
    started |= begun & ended & ~through
    ended |= over & through
    before = {
        name: change.behind(moments) | (change.twice(moments) & started & (moments <= start_s))
        for name, moments in stamps.items()
        if name in ("Submit", "Eligible")
    }
    unsure = begun & over & ~through
    return {**before, "Start": started, "End": ended}, unsure


def _texts(cells: pl.Series, moments_s: Floats, moved_s: Floats) -> pl.Series:
    """`cells` with new texts for those that are moved."""
    at = pl.from_epoch(pl.Series(np.nan_to_num(moments_s + moved_s)).cast(pl.Int64))
    texts = at.dt.strftime("%Y-%m-%d %H:%M:%S")
    moved = pl.Series((moved_s != 0) & np.isfinite(moments_s))
    return pl.select(pl.when(moved).then(texts).otherwise(cells)).to_series()
