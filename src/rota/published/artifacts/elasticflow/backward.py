"""Plans as the ElasticFlow repository makes them: they climb backwards from the deadline.

A job gets the lowest level at which the pieces of the free curve from some moment to its deadline are enough;
before that moment it has the level below.  Moments are seconds; a job ends at a whole slot after the piece in
which its work is done began.  A plan keeps a piece without GPUs at each step of the free curve after its end,
so that GPU time counts the piece in which it ends as a whole: the authors' keys depend on that.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from functools import lru_cache
from typing import Final, NamedTuple

from rota.systems.elasticflow.asks import ShareAsk

Steps = list[tuple[float, int]]
"""GPUs from each moment on, ascending."""

_NEARLY: Final = 1e-9
NEVER_DUE_S = 1e12
"""Deadline of a job that has none."""


def due_of(ask: ShareAsk) -> float:
    """The last deadline of `ask`, which it is planned for."""
    return ask.dues[-1] if ask.dues else NEVER_DUE_S


class SlotPlan(NamedTuple):
    """GPUs of one job from now on."""

    steps: Steps
    end_s: float
    """When its GPUs are free again: a whole slot."""
    done_s: float
    """When its work is done, in whole seconds."""

    @property
    def change_s(self) -> float:
        """The next moment at which something is planned; infinite if nothing is."""
        return self.steps[1][0] if len(self.steps) > 1 else math.inf

    @property
    def gpu_s(self) -> float:
        """GPUs times seconds."""
        total, count = 0.0, len(self.steps)
        for place in range(count):  # not `sum`, which rounds otherwise in later Pythons
            at_s, gpus = self.steps[place]
            total += gpus * ((self.steps[place + 1][0] if place + 1 < count else self.end_s) - at_s)
        return total


NOT_PLANNED: Final = SlotPlan([], math.inf, math.inf)


class Planned:
    """One job while a decision is made."""

    def __init__(self, ask: ShareAsk, levels: list[int], speeds: list[float], due_s: float) -> None:
        """`ask` has moments and rates in seconds; `speeds` are those of `levels`, the first of which is 0."""
        self.ask, self.levels, self.speeds, self.due_s = ask, levels, speeds, due_s
        self.work: float = ask.work
        self.plan: SlotPlan = NOT_PLANNED
        self.gpus: int = 0

    @classmethod
    def of(cls, ask: ShareAsk) -> Planned:
        levels: list[int] = ask.levels.gpus.tolist()
        speeds: list[float] = ask.levels.rates.tolist()
        return cls(ask, levels, speeds, due_of(ask))

    @property
    def next_level(self) -> int:
        """The next larger number of GPUs; its own if there is none."""
        place = bisect_right(self.levels, self.gpus)
        return self.levels[place] if place < len(self.levels) else self.gpus

    def index(self, gpus: int) -> int:
        """Place of the largest level up to `gpus`."""
        return bisect_right(self.levels, gpus) - 1

    @property
    def places(self) -> list[int]:
        """`index` of each number of GPUs up to the largest level."""
        return _places(tuple(self.levels))


@lru_cache(maxsize=1024)
def _places(levels: tuple[int, ...]) -> list[int]:
    return [bisect_right(levels, gpus) - 1 for gpus in range(levels[-1] + 1)]


def changed(free: Steps, plan: SlotPlan, sign: int, until_s: float = math.inf) -> Steps:
    """The free curve, to its first step from `until_s` on, once `plan` is taken from it (-1), or given back.

    Moments of both ascend; a moment at which nothing changes is none of the curve.
    """
    steps, end_s = plan.steps, plan.end_s
    count, planned = len(free), len(steps)
    curve: Steps = []
    here, there, last = 0, 0, -1
    left, used = free[count - 1][1], 0
    holds = True
    while True:
        at_s = math.inf
        if here < count:
            at_s = free[here][0]
        if there < planned and steps[there][0] < at_s:
            at_s = steps[there][0]
        if holds and end_s < at_s:
            at_s = end_s
        if at_s == math.inf:
            return curve
        while here < count and free[here][0] <= at_s:
            left = free[here][1]
            here += 1
        while there < planned and steps[there][0] <= at_s:
            used = steps[there][1]
            there += 1
        if end_s <= at_s:
            holds, used, there = False, 0, planned
        now = left + sign * used
        if not curve or now != last:
            curve.append((at_s, now))
            last = now
            if at_s >= until_s:
                return curve


class Pieces:
    """The pieces of the free curve from some moment to a deadline, as one job sees them."""

    def __init__(self, job: Planned, free: Steps, begin: float, due_s: float) -> None:
        """`due_s` is the end of the slot of the deadline; the last piece ends with the deadline itself."""
        self.starts: list[float] = []
        self.lasts: list[float] = []
        self.fits: list[int] = []
        """Place of the largest level that is free in each."""
        count, places = len(free), job.places
        most = len(places) - 1
        for place in range(count):
            at_s, gpus = free[place]
            if at_s < begin:
                continue
            if at_s >= due_s:
                break
            end = free[place + 1][0] if place + 1 < count else due_s
            self.starts.append(at_s)
            self.lasts.append((end if end < due_s else job.due_s) - at_s)
            self.fits.append(places[gpus if gpus < most else most])

    def turn(self, level: int, speeds: list[float], left: float) -> int:
        """The last piece from which on `level` is enough for what is `left`; -1 if it is not."""
        done = 0.0
        for place in range(len(self.starts) - 1, -1, -1):
            fits = self.fits[place]
            own = fits if fits < level else level
            done += self.lasts[place] * speeds[own]
            if own and done >= left:
                return place
        return -1


class BackwardPlanner:
    """Plans of single jobs on a cluster of a given number of GPUs, from `now` on."""

    def __init__(self, gpus: int, now: float, slot_s: float) -> None:
        self.gpus, self.now, self.slot_s = gpus, now, slot_s

    def _slots(self, seconds: float) -> float:
        return math.ceil(seconds / self.slot_s - _NEARLY) * self.slot_s

    def slot_of(self, moment: float) -> float:
        """The end of the slot, counted from now, in which `moment` lies."""
        return self.now + self._slots(moment - self.now)

    def plan(self, job: Planned, free: Steps, first: int | None = None) -> SlotPlan:
        """What `job` is given of `free`; with `first`, that many GPUs until the next step of it or the end.

        One that cannot be in time gets its largest level whenever it is free.
        """
        now, left = self.now, job.work
        due_s = self.slot_of(job.due_s)
        steps: Steps = []
        begin = now
        if first is not None:
            speed = job.speeds[job.index(first)]
            until = due_s
            for at_s, _ in free:
                if at_s > now:
                    until = at_s
                    break
            done_s = math.ceil(now + left / speed - _NEARLY)
            end = now + self._slots(done_s - now)
            steps.append((now, first))
            if until >= end and job.due_s >= done_s:
                return SlotPlan(steps, end, done_s)
            left -= ((job.due_s if until == due_s else until) - now) * speed
            begin = until
        pieces = Pieces(job, free, begin, due_s)
        top = job.index(self.gpus)
        for level in range(1, top + 1):
            turn = pieces.turn(level, job.speeds, left)
            if turn >= 0:
                return self._forward(job, left, pieces, steps, level, turn)
        for place in range(len(pieces.starts)):
            own = min(pieces.fits[place], top)
            steps.append((pieces.starts[place], job.levels[own]))
            left -= pieces.lasts[place] * job.speeds[own]
        return self._late(job, max(left, _NEARLY), free, max(due_s, begin), steps, first)

    def _forward(
        self, job: Planned, left: float, pieces: Pieces, steps: Steps, level: int, turn: int
    ) -> SlotPlan:
        """The plan from now on: the lower level, from piece `turn` the higher one, until the work is done."""
        levels, speeds, starts = job.levels, job.speeds, pieces.starts
        last = len(starts) - 1
        for place in range(last + 1):
            at_s, fits = starts[place], pieces.fits[place]
            most = level if place >= turn else level - 1
            own = fits if fits < most else most
            if not steps or steps[-1][1] != levels[own]:
                steps.append((at_s, levels[own]))
            done = pieces.lasts[place] * speeds[own]
            if own and place >= turn and (done >= left or place == last):
                needed_s = math.ceil(max(left, _NEARLY) / speeds[own] - _NEARLY)
                if place < last:
                    steps.append((starts[place + 1], 0))
                return SlotPlan(steps, at_s + self._slots(needed_s), at_s + needed_s)
            left -= done
        raise AssertionError("the level was found to be enough")

    def _late(
        self, job: Planned, left: float, free: Steps, since: float, steps: Steps, first: int | None
    ) -> SlotPlan:
        """The plan from the deadline on: the largest level that is free in each step."""
        top = len(job.levels) - 1
        gpus_free = 0
        for at_s, gpus in free:
            if at_s <= since:
                gpus_free = gpus
                continue
            own = min(job.index(gpus_free), top)
            steps.append((since, job.levels[own]))
            if own and (at_s - since) * job.speeds[own] >= left:
                return self._ended(since, left, job.speeds[own], steps)
            left -= (at_s - since) * job.speeds[own]
            since, gpus_free = at_s, gpus
        gpus = first if first is not None else job.levels[min(job.index(self.gpus), top)]
        steps.append((since, gpus))
        return self._ended(since, left, job.speeds[job.index(gpus)], steps)

    def _ended(self, since: float, left: float, rate: float, steps: Steps) -> SlotPlan:
        done_s = math.ceil(since + left / rate - _NEARLY)
        return SlotPlan(_merged(steps), self.now + self._slots(done_s - self.now), done_s)


def _merged(steps: Steps) -> Steps:
    """The steps without steps that change nothing."""
    return [step for i, step in enumerate(steps) if not i or steps[i - 1][1] != step[1]]
