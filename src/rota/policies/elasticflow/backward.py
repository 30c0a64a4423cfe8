"""Plans as the ElasticFlow repository makes them: they climb backwards from the deadline.

A job gets the lowest level at which the pieces of the free curve from some moment to its deadline are enough;
before that moment it has the level below.  Moments are seconds; a job ends at a whole slot after the piece in
which its work is done began.  A plan keeps a piece without GPUs at each step of the free curve after its end,
so that GPU time counts the piece in which it ends as a whole: the authors' keys depend on that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from rota.policies.elasticflow.asks import Ask

Steps = list[tuple[float, int]]
"""GPUs from each moment on, ascending."""

_NEARLY = 1e-9
NEVER_DUE_S = 1e12
"""Deadline of a job that has none."""


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
        ends = [at_s for at_s, _ in self.steps[1:]] + [self.end_s]
        return sum(gpus * (end - at_s) for (at_s, gpus), end in zip(self.steps, ends, strict=True))


@dataclass
class Planned:
    """One job while a decision is made."""

    ask: Ask
    """With moments and rates in seconds."""
    levels: list[int]
    rates: dict[int, float]
    due_s: float
    plan: SlotPlan = field(default_factory=lambda: SlotPlan([], math.inf, math.inf))
    gpus: int = 0

    @classmethod
    def of(cls, ask: Ask) -> Planned:
        levels = ask.levels.gpus.tolist()
        rates = dict(zip(levels, ask.levels.rates.tolist(), strict=True))
        return cls(ask, levels, rates, ask.dues[-1] if ask.dues else NEVER_DUE_S)

    @property
    def next_level(self) -> int:
        """The next larger number of GPUs; its own if there is none."""
        place = self.levels.index(self.gpus) + 1
        return self.levels[place] if place < len(self.levels) else self.gpus

    def within(self, free: int, most: int) -> int:
        """The largest level up to both."""
        return max(level for level in self.levels if level <= free and level <= most)


def merged(steps: Steps) -> Steps:
    """Without the steps that change nothing."""
    return [step for i, step in enumerate(steps) if not i or steps[i - 1][1] != step[1]]


def changed(free: Steps, plan: SlotPlan, sign: int) -> Steps:
    """The free curve once `plan` is taken from it (-1), or given back (+1)."""
    moments = sorted({at_s for at_s, _ in free} | {at_s for at_s, _ in plan.steps} | {plan.end_s})
    curve: Steps = []
    here = there = -1
    for at_s in moments:
        while here + 1 < len(free) and free[here + 1][0] <= at_s:
            here += 1
        while there + 1 < len(plan.steps) and plan.steps[there + 1][0] <= at_s:
            there += 1
        used = plan.steps[there][1] if there >= 0 and at_s < plan.end_s else 0
        curve.append((at_s, free[here][1] + sign * used))
    return merged(curve)


class BackwardPlanner:
    """Plans of single jobs on a cluster of so many GPUs, from `now` on."""

    def __init__(self, gpus: int, now: float, slot_s: float) -> None:
        self.gpus, self.now, self.slot_s = gpus, now, slot_s

    def _slots(self, seconds: float) -> float:
        return math.ceil(seconds / self.slot_s - _NEARLY) * self.slot_s

    def plan(self, job: Planned, free: Steps, first: int | None = None) -> SlotPlan:
        """What `job` is given of `free`; with `first`, so many GPUs until the next step of it or the end.

        One that cannot be in time gets its largest level whenever it is free.
        """
        now, left = self.now, job.ask.work
        due_s = now + self._slots(job.due_s - now)
        steps: Steps = []
        begin = now
        if first is not None:
            until = next((at_s for at_s, _ in free if at_s > now), due_s)
            done_s = math.ceil(now + left / job.rates[first] - _NEARLY)
            end = now + self._slots(done_s - now)
            steps.append((now, first))
            if until >= end and job.due_s >= done_s:
                return SlotPlan(steps, end, done_s)
            left -= ((job.due_s if until == due_s else until) - now) * job.rates[first]
            begin = until
        pieces = self._pieces(free, due_s)
        before = [place for place, (at_s, _) in enumerate(pieces) if begin <= at_s < due_s]
        lasts = {place: self._until(pieces, place, due_s, job.due_s) - pieces[place][0] for place in before}
        chosen = self._level(job, left, pieces, before, lasts)
        if chosen is not None:
            return self._forward(job, left, pieces, before, lasts, steps, *chosen)
        top = max((level for level in job.levels if level <= self.gpus), default=0)
        for place in before:
            gpus = job.within(pieces[place][1], top)
            steps.append((pieces[place][0], gpus))
            left -= lasts[place] * job.rates[gpus]
        return self._late(job, max(left, _NEARLY), pieces, max(due_s, begin), steps, first)

    def _pieces(self, free: Steps, due_s: float) -> Steps:
        """The free curve with a step at the deadline."""
        if due_s < self.now or any(at_s == due_s for at_s, _ in free):
            return free
        place = sum(at_s < due_s for at_s, _ in free)
        return [*free[:place], (due_s, free[place - 1][1]), *free[place:]]

    def _until(self, pieces: Steps, place: int, slot_due_s: float, due_s: float) -> float:
        """The end of a piece before the deadline; the last one ends with the deadline, not with its slot."""
        end = pieces[place + 1][0]
        return due_s if end == slot_due_s else end

    def _level(
        self, job: Planned, left: float, pieces: Steps, before: list[int], lasts: dict[int, float]
    ) -> tuple[int, int, int] | None:
        """The lowest level that is in time, the level below it, and the piece from which on it is needed."""
        below = 0
        for level in job.levels[1:]:
            if level > self.gpus:
                break
            done = 0.0
            for place in reversed(before):
                gpus = job.within(pieces[place][1], level)
                done += lasts[place] * job.rates[gpus]
                if gpus and done >= left:
                    return level, below, place
            below = level
        return None

    def _forward(
        self,
        job: Planned,
        left: float,
        pieces: Steps,
        before: list[int],
        lasts: dict[int, float],
        steps: Steps,
        level: int,
        below: int,
        turn: int,
    ) -> SlotPlan:
        """From now on: the lower level, from piece `turn` on the higher one, until the work is done."""
        for place in before:
            at_s, free = pieces[place]
            gpus = job.within(free, level if place >= turn else below)
            steps.append((at_s, gpus))
            done = lasts[place] * job.rates[gpus]
            is_last = place == before[-1]
            if gpus and place >= turn and (done >= left or is_last):
                needed_s = math.ceil(max(left, _NEARLY) / job.rates[gpus] - _NEARLY)
                steps += [(pieces[other][0], 0) for other in before if other > place]
                return SlotPlan(merged(steps), at_s + self._slots(needed_s), at_s + needed_s)
            left -= done
        raise AssertionError("the level was found to be enough")

    def _late(
        self, job: Planned, left: float, pieces: Steps, since: float, steps: Steps, first: int | None
    ) -> SlotPlan:
        """From the deadline on, whatever is free of the largest level."""
        free = self._at(pieces, since)
        for at_s, coming in [piece for piece in pieces if piece[0] > since]:
            gpus = job.within(free, job.levels[-1])
            steps.append((since, gpus))
            if gpus and (at_s - since) * job.rates[gpus] >= left:
                return self._ended(since, left, job.rates[gpus], steps)
            left -= (at_s - since) * job.rates[gpus]
            since, free = at_s, coming
        gpus = first if first is not None else job.within(self.gpus, job.levels[-1])
        steps.append((since, gpus))
        return self._ended(since, left, job.rates[gpus], steps)

    def _ended(self, since: float, left: float, rate: float, steps: Steps) -> SlotPlan:
        done_s = math.ceil(since + left / rate - _NEARLY)
        return SlotPlan(merged(steps), self.now + self._slots(done_s - self.now), done_s)

    @staticmethod
    def _at(pieces: Steps, moment: float) -> int:
        return [free for at_s, free in pieces if at_s <= moment][-1]
