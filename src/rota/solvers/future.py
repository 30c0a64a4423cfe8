"""GPUs free in the slots to come, and the least shares that keep deadlines in them.

Source    Gu et al., "ElasticFlow", ASPLOS 2023, section 4.1 (minimum satisfactory share, progressive
          filling); the step function is also what lease plans and what-if questions are made of

Time is counted in slots, 0 being the present one; moments inside a slot are fractions, and so is `now`.  A
plan holds whole slots: a job that is done inside one keeps its GPUs to the end of it.  What was planned in a
slot can therefore be planned again at any moment of it.

Plans and what they leave are worked out in C where that was built (`future.c`), and with NumPy elsewhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np

from rota import native
from rota.model.columns import Floats, Ints

SOURCE: Final = Path(__file__).with_suffix(".c")
_IN_C = native.functions(SOURCE)
_CURVE_WITH: Any = _IN_C.get("curve_with")
_LOWEST: Any = _IN_C.get("lowest")
"""None where they were not built.  The C file documents arguments and results."""

_SLACK = 1e-9
"""Part of a job's work that is taken for rounding."""


@dataclass(frozen=True)
class Plan:
    """GPUs of one job over the slots to come."""

    starts: Ints
    """First slot of each piece, ascending from 0; the last piece has no GPUs and no end."""
    gpus: Ints
    """GPUs in each piece."""
    end: float
    """Moment at which the work is done; infinite if it never is."""
    made: float = 0.0
    """Moment at which it was made."""

    @property
    def now(self) -> int:
        """GPUs in the present slot."""
        return int(self.gpus[0])

    @cached_property
    def gpu_slots(self) -> float:
        """GPUs times slots from `made` until the work is done."""
        ends = np.minimum(np.append(self.starts[1:], np.inf), self.end)
        held = self.gpus > 0
        lengths = np.maximum(ends[held] - np.maximum(self.starts[held], self.made), 0.0)
        return float((self.gpus[held] * lengths).sum())

    @property
    def change(self) -> float:
        """First slot in which it has another number of GPUs than now; infinite if in none."""
        other = np.flatnonzero(self.gpus != self.gpus[0])
        return float(self.starts[other[0]]) if len(other) else math.inf


NOTHING = Plan(np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64), math.inf)
"""A plan without GPUs."""


@dataclass(frozen=True)
class FreeCurve:
    """GPUs free in each slot to come, as an immutable step function: taking from it makes another one."""

    starts: Ints
    """First slot of each piece, ascending from 0; the last piece has no end."""
    free: Ints

    @classmethod
    def of(cls, gpus: int) -> FreeCurve:
        """The curve of `gpus` GPUs in every slot."""
        return cls(np.zeros(1, dtype=np.int64), np.array([gpus], dtype=np.int64))

    def at(self, starts: Ints) -> Ints:
        """GPUs free in the pieces that begin at `starts`."""
        free: Ints = self.free[np.searchsorted(self.starts, starts, side="right") - 1]
        return free

    def since(self, slot: int) -> FreeCurve:
        """This curve counted from `slot`."""
        first = int(np.searchsorted(self.starts, slot, side="right")) - 1
        return FreeCurve(np.append(0, self.starts[first + 1 :] - slot), self.free[first:])

    def less(self, plan: Plan) -> FreeCurve:
        """What `plan` leaves."""
        return self._with(plan, -1)

    def more(self, plan: Plan) -> FreeCurve:
        """What is free once `plan` is given up."""
        return self._with(plan, 1)

    def _with(self, plan: Plan, sign: int) -> FreeCurve:
        if _CURVE_WITH is not None:
            starts, free = np.empty((2, len(self.starts) + len(plan.starts)), dtype=np.int64)
            pieces = _CURVE_WITH(self.starts, self.free, plan.starts, plan.gpus, sign, starts, free)
            return FreeCurve(starts[:pieces], free[:pieces])
        starts = np.union1d(self.starts, plan.starts)
        used = plan.gpus[np.searchsorted(plan.starts, starts, side="right") - 1]
        free = self.at(starts) + sign * used
        keep = np.append(True, free[1:] != free[:-1])
        return FreeCurve(starts[keep], free[keep])


@dataclass(frozen=True)
class SpeedLevels:
    """Numbers of GPUs on which one job gets faster, and how fast it is."""

    gpus: Ints
    """Ascending, the first is 0."""
    rates: Floats
    """Work in a slot on as many; rising strictly, the first is 0."""

    @classmethod
    def of(cls, counts: Ints, rates: Floats) -> SpeedLevels:
        """The feasible `counts` (ascending) up to where `rates` stops rising; the least in any case."""
        rises = np.append(True, np.diff(rates) > 0.0)
        top = len(rises) if rises.all() else int(np.argmin(rises))
        return cls(np.append(0, counts[:top]), np.append(0.0, rates[:top]))

    @property
    def most(self) -> int:
        return int(self.gpus[-1])

    def within(self, free: Ints) -> Ints:
        """Index of the largest level that fits into each number of free GPUs."""
        index: Ints = np.searchsorted(self.gpus, free, side="right") - 1
        return index


def least_share(
    curve: FreeCurve,
    levels: SpeedLevels,
    work: float,
    due: float,
    *,
    now: float = 0.0,
    first: int | None = None,
    pause: float = 0.0,
    held: int = 0,
) -> Plan | None:
    """The plan with the lowest level that does `work` by `due`; None if none does.

    At a level, a job has in each slot the largest number of GPUs up to it that is free.  `first` fixes the
    present slot to a level by its index, free or not.  Each change of its number of GPUs stops it for `pause`
    slots, the first one from the `held` that it has now.
    """
    return _lowest(curve, levels, work, due, range(1, len(levels.gpus)), now, first, pause, held)


def soonest(
    curve: FreeCurve, levels: SpeedLevels, work: float, *, now: float = 0.0, pause: float = 0.0, held: int = 0
) -> Plan:
    """The plan that has all it can use from now on; its `end` is infinite if nothing ever comes free."""
    top = range(len(levels.gpus) - 1, len(levels.gpus))
    plan = _lowest(curve, levels, work, math.inf, top, now, None, pause, held)
    return plan if plan is not None else NOTHING


def _lowest(
    curve: FreeCurve,
    levels: SpeedLevels,
    work: float,
    due: float,
    limits: range,
    now: float,
    first: int | None,
    pause: float,
    held: int,
) -> Plan | None:
    """The plan of the first of `limits` (levels by index) that is done by `due`."""
    if _LOWEST is not None:
        starts, gpus = np.empty((2, len(curve.starts) + 2), dtype=np.int64)
        columns = (curve.starts, curve.free, levels.gpus, levels.rates, starts, gpus)
        level = -1 if first is None else first
        came = _LOWEST(*columns, work, due, limits.start, limits.stop, level, now, pause, held)
        if came is None:
            return None
        if came:
            pieces, until = came
            return Plan(starts[:pieces], gpus[:pieces], until, now)
    starts, free = curve.starts, curve.free
    if first is not None and (len(starts) == 1 or starts[1] > 1):
        starts, free = np.insert(starts, 1, 1), np.insert(free, 1, free[0])
    index = np.minimum(levels.within(free)[None, :], np.array(limits)[:, None])
    if first is not None:
        index[:, 0] = first
    rates = levels.rates[index]
    begins = np.maximum(starts, now)
    lengths = np.append(np.diff(begins), np.inf)
    lost = _lost(levels.gpus[index], rates, pause, held) if pause else np.zeros(rates.shape)
    with np.errstate(invalid="ignore"):
        done = (np.where(rates > 0.0, rates * lengths, 0.0) - lost).cumsum(axis=1)
    end = _ends(begins, done, rates, lost, work)
    good = np.flatnonzero(end <= due * (1.0 + _SLACK) + _SLACK)
    if not len(good) or end[good[0]] == math.inf:
        return None
    chosen = int(good[0])
    return _cut(starts, levels.gpus[index[chosen]], float(end[chosen]), now)


def _lost(gpus: Ints, rates: Floats, pause: float, held: int) -> Floats:
    """Work that is not done in each piece because the job stops when it begins, [level, piece]."""
    before = np.concatenate((np.full((len(gpus), 1), held), gpus[:, :-1]), axis=1)
    lost: Floats = np.where(gpus != before, rates * pause, 0.0)
    return lost


def _ends(begins: Floats, done: Floats, rates: Floats, lost: Floats, work: float) -> Floats:
    """When `work` is done on each row of `done` (work at the end of each piece); infinite if never."""
    is_done = done >= work * (1.0 - _SLACK)
    piece, rows = is_done.argmax(axis=1), np.arange(len(done))
    before = np.where(piece > 0, done[rows, np.maximum(piece - 1, 0)], 0.0)
    left = np.maximum(work - before, 0.0) + lost[rows, piece]
    with np.errstate(divide="ignore", invalid="ignore"):
        ends: Floats = np.where(is_done[:, -1], begins[piece] + left / rates[rows, piece], np.inf)
    return ends


def _cut(starts: Ints, gpus: Ints, end: float, now: float) -> Plan:
    """A plan that gives up its GPUs with the slot in which its work is done."""
    last = math.ceil(end - 1e-6)
    inside = starts < last
    starts, gpus = np.append(starts[inside], last), np.append(gpus[inside], 0)
    keep = np.append(True, gpus[1:] != gpus[:-1])
    return Plan(starts[keep], gpus[keep], end, now)
