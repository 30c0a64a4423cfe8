"""GPUs handed out one by one: by the largest key, or by the tournament of AFS.

What all rules of that kind (Optimus, Elan, AFS, max-min) share is `Filling`, the shares as they grow.  A rule
that gives each job a key of its own is a heap (`fill_largest`).  AFS compares jobs in pairs, and its relation
is not transitive, so that the walk from job to job matters: `fill_apathetic` keeps the walk, and repeats of
it only what a grant has changed.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush, heapreplace

import numpy as np

from rota.solvers.shared_caps import SharedCaps
from rota.solvers.tournament import is_built, steps_to_winners

Key = Callable[[int], float]
"""What a job's next step is worth at its present share; it may depend on nobody else's share."""


class Filling:
    """Shares as they grow.  Jobs are numbered in a stable order, by submission."""

    def __init__(
        self,
        rates: Sequence[Sequence[float]],
        counts: Sequence[Sequence[int]],
        caps: SharedCaps | None = None,
    ) -> None:
        """`rates[j][k]` is the speed of job j on k GPUs; `counts[j]` the numbers it can use, ascending.

        `caps` are taken from with each step.
        """
        self.rates = rates
        self.counts = counts
        self.caps = caps
        self.share = [0] * len(rates)
        """GPUs of each job."""
        self.grants: list[int] = []
        """Jobs in the order in which they were given a step."""
        self._level = [0] * len(rates)

    def step(self, job: int) -> int:
        """GPUs that the job's next larger share takes more than its present one; 0 if there is none."""
        level = self._level[job]
        return self.counts[job][level] - self.share[job] if level < len(self.counts[job]) else 0

    def speeds(self, job: int) -> tuple[float, float]:
        """Speed on the present and on the next larger share."""
        now = self.share[job]
        return self.rates[job][now], self.rates[job][now + self.step(job)]

    def can_use(self, job: int, gpus: int) -> bool:
        """True if there is a next share, the step to it takes no more than there is, and it is faster."""
        step = self.step(job)
        if not 0 < step <= gpus or (self.caps is not None and not self.caps.admits(job, step)):
            return False
        slow, fast = self.speeds(job)
        return fast > slow

    def give_least(self, jobs: Iterable[int], gpus: int) -> int:
        """The first step for those of `jobs` that have nothing yet, in their order, while `gpus` will do.

        It is what `can_use` and `give` do one by one.  The GPUs that are left.
        """
        counts, rates, share, level, caps = self.counts, self.rates, self.share, self._level, self.caps
        for job in jobs:
            least = counts[job][0]
            if 0 < least <= gpus and rates[job][least] > rates[job][0]:
                if caps is not None:
                    if not caps.admits(job, least):
                        continue
                    caps.take(job, least)
                share[job] = least
                level[job] = 1
                self.grants.append(job)
                gpus -= least
        return gpus

    def rising(self) -> list[int]:
        """Jobs that hold something and could use more."""
        counts = self.counts
        return [job for job, share in enumerate(self.share) if share and counts[job][-1] > share]

    def give(self, job: int) -> int:
        """One step for `job`; the GPUs that it takes."""
        step = self.step(job)
        self.share[job] += step
        self._level[job] += 1
        self.grants.append(job)
        if self.caps is not None:
            self.caps.take(job, step)
        return step

    def give_all(self, jobs: Sequence[int], rising: Sequence[int]) -> bool:
        """One step for each of `jobs`, who may stand there several times, if no limit is felt by that.

        None is if each of `rising`, among whom they are, could have its next step even after them: what
        limits leave only shrinks, so that they have kept nobody out who was compared with the others.
        """
        if self.caps is not None:
            after, level = self.caps.among(range(len(self.share))), list(self._level)
            for job in jobs:
                after.take(job, self._rise(job, level[job]))
                level[job] += 1
            if not all(after.admits(job, self._rise(job, level[job])) for job in rising):
                return False
        for job in jobs:
            self.give(job)
        return True

    def _rise(self, job: int, level: int) -> int:
        """GPUs that the job's share after `level` takes more than the one before; 0 if that is no faster."""
        counts, rates = self.counts[job], self.rates[job]
        if level == len(counts) or not rates[counts[level]] > rates[counts[level - 1]]:
            return 0
        return counts[level] - counts[level - 1]


def fill_largest(filling: Filling, gpus: int, key: Key) -> list[int]:
    """Hand out `gpus`: each step goes to the job with the largest key, the first of equals.  The shares.

    A key of minus infinity: the step is not worth it, whatever is free.  O((jobs + steps) log jobs).
    """
    heap = [(-key(job), job) for job in range(len(filling.rates)) if filling.can_use(job, gpus)]
    heapify(heap)
    while heap and heap[0][0] < math.inf:
        job = heap[0][1]
        if filling.can_use(job, gpus):
            gpus -= filling.give(job)
        if filling.can_use(job, gpus):
            heapreplace(heap, (-key(job), job))
        else:
            heappop(heap)
    return filling.share


def fill_savings(
    seconds: Sequence[Sequence[float]],
    work: Sequence[float],
    counts: Sequence[Sequence[int]],
    gpus: int,
    caps: SharedCaps | None = None,
) -> list[int]:
    """Hand out `gpus` to the largest saving of time for each GPU, the first of equals.  The shares.

    `seconds[j][k]` is what a unit of the work of job j takes on k GPUs, infinite where it does not run;
    `counts[j]` the numbers it can use, ascending.  Everybody gets the least first, in order; a step that
    saves nothing ends a job's turn, and so does one that `caps`, which are taken from, do not admit.
    O((jobs + steps) log jobs).
    """
    shares, heap = [0] * len(counts), []
    for job, own in enumerate(counts):
        if own[0] <= gpus and seconds[job][own[0]] < math.inf:
            if caps is not None:
                if not caps.admits(job, own[0]):
                    continue
                caps.take(job, own[0])
            shares[job] = own[0]
            gpus -= own[0]
            if len(own) > 1:
                now, after = own[0], own[1]
                saved = (seconds[job][now] - seconds[job][after]) * work[job] / (after - now)
                if saved > 0.0:
                    heap.append((-saved, job, 1))
    heapify(heap)
    while heap and gpus:
        _, job, level = heap[0]
        own, times, now = counts[job], seconds[job], shares[job]
        after = own[level]
        if after - now > gpus or (caps is not None and not caps.admits(job, after - now)):
            heappop(heap)
            continue
        if caps is not None:
            caps.take(job, after - now)
        shares[job] = after
        gpus -= after - now
        level += 1
        if level < len(own):
            saved = (times[after] - times[own[level]]) * work[job] / (own[level] - after)
            if saved > 0.0:
                heapreplace(heap, (-saved, job, level))
                continue
        heappop(heap)
    return shares


def fill_apathetic(
    filling: Filling,
    gpus: int,
    key: Sequence[float],
    work: Sequence[float] | None = None,
    least_by: Sequence[float] | None = None,
) -> list[int]:
    """Hand out `gpus` as AFS does: of two jobs the one that ends first must gain more than the other later.

    With `work` (what is left of each job) the one that ends first is found at present shares; without, it is
    the one with the smaller `key`, and in both cases the earlier one of equals.  Gains are per GPU.  Jobs
    without GPUs come first, in order of `least_by`, which is `key` if nothing else is said: the rule itself
    says so, as long as curves are concave.  Whom the caps of `filling` keep from a step is out.

    Each step goes to the winner of a walk over the jobs in their order: whoever is better than the best so
    far takes its place.  O(jobs) comparisons for each step and each job, made at once for all that follow.

    Source: Hwang et al., "Elastic Resource Sharing for Distributed Deep Learning", NSDI 2021.
    """
    by = key if least_by is None else least_by
    first = sorted(range(len(key)), key=by.__getitem__)
    gpus = filling.give_least(first, gpus)
    rising = filling.rising()
    if not is_built():
        return _Tournament(filling, key, work).hand_out(gpus, rising)
    if rising and gpus:
        rates, counts = [filling.rates[job] for job in rising], [filling.counts[job] for job in rising]
        left = None if work is None else [work[job] for job in rising]
        winners = steps_to_winners(rates, counts, gpus, [key[job] for job in rising], left)
        if not filling.give_all([rising[winner] for winner in winners], rising):
            return _Tournament(filling, key, work).hand_out(gpus, rising)
    return filling.share


class _Tournament:
    """Walks over the jobs that hold something.

    `_best` are those that were the best so far, in the order of the walk: the last one has won.  What it is
    given makes no difference to the walk up to it, so that the next walk begins where it stood.
    """

    def __init__(self, filling: Filling, key: Sequence[float], work: Sequence[float] | None) -> None:
        self.filling = filling
        self.work = work
        self._best: list[int] = []
        self._sizes: list[tuple[int, int]] = []
        """Steps of more than one GPU, negated, with the job: a heap, in which some are void."""
        self._end = np.array(key, dtype=np.float64)
        """When each job ends, or what stands for it."""
        self._now = np.full(len(key), -math.inf)
        """What one more GPU adds, measured against the present speed; minus infinity for who is out."""
        self._later = np.full(len(key), -math.inf)
        """The same, measured against the speed that it leads to."""

    def hand_out(self, gpus: int, rising: Sequence[int]) -> list[int]:
        """Steps to the winners, as long as somebody can use one of `gpus`; the shares.

        Who is not `rising` is out: it holds nothing, or has all that it can use.
        """
        for job in rising:
            self._weigh(job, gpus)
        self._walk(0)
        while self._best and gpus:
            winner = self._best.pop()
            gpus -= self.filling.give(winner)
            self._weigh(winner, gpus)
            self._walk(min(winner, self._retire(gpus), self._retire_capped(winner, gpus)))
        return self.filling.share

    def _weigh(self, job: int, gpus: int) -> None:
        """Work out anew when `job` ends and what it gains; it is out if it can use none of `gpus`."""
        filling = self.filling
        if not filling.can_use(job, gpus):
            self._now[job] = self._later[job] = -math.inf
            return
        (slow, fast), step = filling.speeds(job), filling.step(job)
        self._now[job] = (fast - slow) / slow / step
        self._later[job] = (fast - slow) / fast / step
        if self.work is not None:
            self._end[job] = self.work[job] / slow
        if step > 1:
            heappush(self._sizes, (-step, job))

    def _retire(self, gpus: int) -> int:
        """Take those out whose step is more than `gpus`; the first job from which the walk is another."""
        first = len(self._now)
        while self._sizes and -self._sizes[0][0] > gpus:
            step, job = heappop(self._sizes)
            if self.filling.step(job) == -step:
                first = min(first, self._take_out(job))
        return first

    def _retire_capped(self, winner: int, gpus: int) -> int:
        """The same for those whom a limit that `winner` counts in keeps from their step."""
        first, caps = len(self._now), self.filling.caps
        for job in caps.beside(winner) if caps is not None else ():
            if self._now[job] > -math.inf and not self.filling.can_use(job, gpus):
                first = min(first, self._take_out(job))
        return first

    def _take_out(self, job: int) -> int:
        """`job` can use nothing more; the first job from which the walk is another for that."""
        self._now[job] = self._later[job] = -math.inf
        place = bisect_left(self._best, job)
        if place < len(self._best) and self._best[place] == job:
            del self._best[place:]
            return job
        return len(self._now)

    def _walk(self, start: int) -> None:
        """Go on from `start` with the best so far, up to the last job."""
        if not self._best:
            there = self._now[start:] > -math.inf
            job = start + int(there.argmax()) if there.any() else len(self._now)
            if job == len(self._now):
                return
            self._best.append(job)
            start = job + 1
        while start < len(self._now):
            best = self._best[-1]
            end, now, later = self._end.item(best), self._now.item(best), self._later.item(best)
            # Whoever ends first is weighed against its present speed, the other one against its next.
            ends_first, gains = self._end[start:] < end, self._now[start:] > later
            is_better = np.where(ends_first, gains, self._later[start:] >= now)
            job = int(is_better.argmax())
            if not is_better[job]:
                return
            self._best.append(start + job)
            start += job + 1
