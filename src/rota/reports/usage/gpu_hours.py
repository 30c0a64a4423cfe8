"""GPU-hours by tenant, user, GPU type, size, month, outcome: held, summed up, and priced."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import numpy as np

from rota.errors import InputError
from rota.model.calendar import moment_of
from rota.model.columns import Array, Floats
from rota.model.gpu_slices import gpu_part
from rota.model.whole_gpus import slice_hours
from rota.reports.usage.prices import Prices
from rota.wire.usage import BY, UsageLine, UsageView

HOUR_S = 3600.0


@dataclass(frozen=True)
class Held:
    """Stretches of time in which jobs held GPUs: arrays of one length, several stretches of a job allowed."""

    source: str
    epoch: datetime | None
    """Moment 0 (UTC); None where seconds count from nowhere in particular."""
    job: Array
    """Number of the job of each stretch."""
    start_s: Floats
    end_s: Floats
    """Not before `start_s`; equal to it for a job that held nothing."""
    gpus: Floats
    """Devices times the share of each; a MIG slice is one device."""
    failed: Floats
    """Part of the stretch, 0 to 1, in attempts that failed."""
    cancelled: Floats
    """1 if its user ended the job, else 0."""
    lost_gpu_s: Floats | None
    """Device-seconds of work that was lost at its end by preemption; None if that is not recorded."""
    busy: Floats
    """Part of the GPUs that was busy, 0 to 1; NaN where not measured."""
    wait_s: Floats
    """From submission to the first start of the job; NaN where not recorded."""
    is_known: Array
    """False where it is unknown how long the job ran."""
    has_starts: bool
    """False if no starts are recorded, so that stretches begin at submission."""
    names: Mapping[str, Sequence[str]]
    """What each stretch has of all in `rota.wire.usage.BY` but the month."""
    remarks: tuple[str, ...] = ()
    """What to know of all figures, as sentences."""

    def __len__(self) -> int:
        return len(self.job)

    def cut(self, low_s: float, high_s: float) -> tuple[Array, Floats, Floats]:
        """Places of the stretches in [low_s, high_s), and between which moments of it.

        One that holds nothing stands where it begins.
        """
        begins_inside = (self.start_s >= low_s) & (self.start_s < high_s)
        reaches_in = (self.start_s < low_s) & (self.end_s > low_s)
        places = np.flatnonzero(begins_inside | reaches_in)
        return places, np.maximum(self.start_s[places], low_s), np.minimum(self.end_s[places], high_s)


def usage_of(
    held: Held,
    by: Sequence[str] = ("tenant",),
    *,
    prices: Prices | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> UsageView:
    """What jobs have used between two moments, on the clock of `held`, if they are given.

    Raises InputError for an unknown `by`, and where dates are asked for and there are none.
    """
    check_asked(by, since, until)
    if held.epoch is None and ("month" in by or since or until):
        raise InputError(f"{held.source} has no dates: it counts its seconds from nowhere in particular")
    pieces = _pieces(held, _cuts(held, "month" in by, since, until))
    return _summed(held, tuple(by), pieces, _names(held, pieces, by), prices)


def check_asked(by: Sequence[str], since: datetime | None = None, until: datetime | None = None) -> None:
    """Raises InputError for an unknown `by`, and for a time that ends before it begins."""
    wrong = [name for name in by if name not in BY]
    if wrong or not by:
        problem = f"{wrong[0][:80]!r} is nothing to count by" if wrong else "names nothing to count by"
        raise InputError.at(problem, field="--by", expected=", ".join(BY))
    if since is not None and until is not None and until <= since:
        problem = f"{until:%Y-%m-%d} is not after {since:%Y-%m-%d}"
        raise InputError.at(problem, field="--until", expected="a later day than that of --since")


# -- pieces of stretches, cut at months and moments ----------------------------------------------------


@dataclass(frozen=True)
class _Pieces:
    """Parts of stretches; arrays of one length."""

    of: Array
    """Place of the stretch."""
    start_s: Floats
    end_s: Floats
    is_last: Array
    """True if the stretch ends in this part of it, so that work lost then counts here."""


def _cuts(held: Held, by_month: bool, since: datetime | None, until: datetime | None) -> list[float]:
    """Moments that cut stretches; time before the first and after the last does not count."""
    epoch = held.epoch
    first = -math.inf if since is None or epoch is None else (since - epoch).total_seconds()
    last = math.inf if until is None or epoch is None else (until - epoch).total_seconds()
    inside: list[float] = []
    if by_month and epoch is not None and len(held):
        begins, ends = max(float(held.start_s.min()), first), min(float(held.end_s.max()), last)
        inside = months_between(epoch, begins, ends)
    return [first, *(at_s for at_s in inside if first < at_s < last), last]


def months_between(epoch: datetime, begins_s: float, ends_s: float) -> list[float]:
    """When the months begin that have a part in this time, in seconds since `epoch`."""
    began = moment_of(epoch, begins_s)
    month = datetime(began.year, began.month, 1, tzinfo=UTC)
    starts: list[float] = []
    ended = moment_of(epoch, ends_s)
    while month <= ended:
        starts.append((month - epoch).total_seconds())
        month = (month + timedelta(days=32)).replace(day=1)
    return starts


def _pieces(held: Held, cuts: Sequence[float]) -> _Pieces:
    parts = []
    for low_s, high_s in pairwise(cuts):
        places, start_s, end_s = held.cut(low_s, high_s)
        parts.append((places, start_s, end_s, held.end_s[places] <= high_s))
    return _Pieces(*(np.concatenate([part[i] for part in parts]) for i in range(4)))


def _names(held: Held, pieces: _Pieces, by: Sequence[str]) -> list[list[str]]:
    """For each word of `by`, the name of each piece."""
    places = pieces.of.tolist()
    return [_months(held, pieces) if word == "month" else _picked(held.names[word], places) for word in by]


def _picked(names: Sequence[str], places: Sequence[int]) -> list[str]:
    return [names[place] for place in places]


def _months(held: Held, pieces: _Pieces) -> list[str]:
    assert held.epoch is not None
    return [f"{moment_of(held.epoch, at_s):%Y-%m}" for at_s in pieces.start_s.tolist()]


# -- sums ----------------------------------------------------------------------------------------------


def _summed(
    held: Held, by: tuple[str, ...], pieces: _Pieces, names: list[list[str]], prices: Prices | None
) -> UsageView:
    device_hours = (pieces.end_s - pieces.start_s) / HOUR_S * held.gpus[pieces.of]
    types = _picked(held.names["type"], pieces.of.tolist())
    parts = np.array([gpu_part(name) for name in types], dtype=np.float64)
    hours = device_hours * parts
    cost = None if prices is None else _costs(types, device_hours, prices)
    of: dict[tuple[str, ...], list[int]] = {}
    for place, key in enumerate(zip(*names, strict=True)):
        of.setdefault(key, []).append(place)
    whole = float(hours.sum())

    def line(key: tuple[str, ...], places: Array) -> UsageLine:
        return _line(held, key, pieces, places, hours, parts, cost, whole)

    lines = [line(key, np.array(places)) for key, places in of.items()]
    if by[0] == "month":
        lines.sort(key=lambda one: (one.names[0], -one.gpu_hours, one.names))
    else:
        lines.sort(key=lambda one: (-one.gpu_hours, one.names))
    return UsageView(
        source=held.source,
        by=by,
        lines=lines,
        total=line(("all",), np.arange(len(pieces.of))),
        without_duration=len(np.unique(held.job[pieces.of[~held.is_known[pieces.of]]])),
        from_submission=not held.has_starts,
        remarks=list(held.remarks),
        without_price=[] if prices is None else sorted(prices.missing),
        slice_hours=slice_hours(types, device_hours),
    )


def _line(
    held: Held,
    key: tuple[str, ...],
    pieces: _Pieces,
    places: Array,
    hours: Floats,
    parts: Floats,
    cost: Floats | None,
    whole: float,
) -> UsageLine:
    """The sum over the pieces at `places`; `hours`, `parts` of a GPU and `cost` are given for all pieces."""
    of, mine = pieces.of[places], hours[places]
    total = float(mine.sum())
    measured = np.isfinite(held.busy[of])
    idle = mine[measured] * (1.0 - held.busy[of][measured])
    lost_s = None
    if held.lost_gpu_s is not None:
        lost_s = (held.lost_gpu_s[of] * parts[places])[pieces.is_last[places]].sum()
    jobs, firsts = np.unique(held.job[of], return_index=True)
    waits_s = held.wait_s[of[firsts]]
    waits_s = waits_s[np.isfinite(waits_s)]
    return UsageLine(
        names=key,
        jobs=len(jobs),
        gpu_hours=total,
        share=total / whole if whole else None,
        failed_gpu_hours=float((mine * held.failed[of]).sum()),
        cancelled_gpu_hours=float((mine * held.cancelled[of]).sum()),
        preempted_gpu_hours=None if lost_s is None else float(lost_s) / HOUR_S,
        measured_gpu_hours=float(mine[measured].sum()),
        idle_gpu_hours=float(idle.sum()) if measured.any() else None,
        wait_hours=float(waits_s.mean()) / HOUR_S if len(waits_s) else None,
        cost=None if cost is None else float(cost[places].sum()),
    )


def _costs(types: Sequence[str], device_hours: Floats, prices: Prices) -> Floats:
    """Of each piece; one without GPU-hours needs no price."""
    used = zip(types, device_hours.tolist(), strict=True)
    return np.array([prices.of(name) * of if of else 0.0 for name, of in used], dtype=np.float64)
