"""The tournament of AFS: each step goes to the winner of a walk that compares jobs in pairs.

The relation is not transitive, so the order of the walk matters.  `fill_apathetic` keeps that order and
repeats only the part of a walk that a grant has changed.

Source: Hwang et al., "Elastic Resource Sharing for Distributed Deep Learning", NSDI 2021.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from heapq import heappop, heappush

from rota.solvers.one_by_one import Filling
from rota.solvers.shared_caps import SharedCaps


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
    without GPUs come first, in order of `least_by`, or of `key` if it is not given: the rule itself
    says so, as long as curves are concave.  A job that the caps of `filling` keep from its step is out.

    Returns the GPUs of each job.  O(jobs) comparisons for each step.
    """
    by = key if least_by is None else least_by
    first = sorted(range(len(key)), key=by.__getitem__)
    gpus = filling.give_least(first, gpus)
    return _Tournament(filling, key, work).hand_out(gpus, filling.rising())


class _Tournament:
    """Walks over the jobs that hold GPUs and can use more.

    `_best` are the jobs that were the best so far, in the order of the walk: the last one has won.  What the
    winner receives does not change the walk up to it, so the next walk begins at its place.
    """

    def __init__(self, filling: Filling, key: Sequence[float], work: Sequence[float] | None) -> None:
        self.filling = filling
        self.work = work
        self._best: list[int] = []
        self._sizes: list[tuple[int, int]] = []
        """Steps of more than one GPU, negated, with the job: a heap, in which some entries are outdated."""
        self._end: list[float] = list(key)
        """When each job ends, or a key in place of that."""
        self._now: list[float] = [-math.inf] * len(key)
        """What one more GPU adds, as a part of the present speed; minus infinity for a job that is out."""
        self._later: list[float] = [-math.inf] * len(key)
        """What one more GPU adds, as a part of the speed that it leads to."""
        self._members: list[list[int]] = []
        """Jobs that count in each cap."""
        self._largest: list[float] = []
        """What the largest step of any of them takes from each cap: a cap with that much left admits all."""
        if filling.caps is not None:
            self._note_members(filling.caps)

    def _note_members(self, caps: SharedCaps) -> None:
        self._members = [[] for _ in caps.left]
        self._largest = [0.0] * len(caps.left)
        for job, counts in enumerate(self.filling.counts):
            most = counts[-1] * caps.each[job]
            for limit in caps.of[job]:
                self._members[limit].append(job)
                self._largest[limit] = max(self._largest[limit], most)

    def hand_out(self, gpus: int, rising: list[int]) -> list[int]:
        """Give steps to the winners until no job can use one of `gpus`; the GPUs of each job.

        A job that is not `rising` is out: it holds nothing, or has all that it can use.
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
        """Compute again when `job` ends and what it gains; it is out if it can use none of `gpus`."""
        filling = self.filling
        if not filling.can_use(job, gpus):
            self._now[job] = self._later[job] = -math.inf
            return
        slow, fast = filling.speeds(job)
        step = filling.step(job)
        self._now[job] = (fast - slow) / slow / step
        self._later[job] = (fast - slow) / fast / step
        if self.work is not None:
            self._end[job] = self.work[job] / slow
        if step > 1:
            heappush(self._sizes, (-step, job))

    def _retire(self, gpus: int) -> int:
        """Take out the jobs whose step is more than `gpus`; the first job from which the walk changes."""
        first = len(self._now)
        while self._sizes and -self._sizes[0][0] > gpus:
            step, job = heappop(self._sizes)
            if self.filling.step(job) == -step:
                first = min(first, self._take_out(job))
        return first

    def _retire_capped(self, winner: int, gpus: int) -> int:
        """Take out the jobs that share a cap with `winner` and may have no step now; as `_retire`."""
        first, caps = len(self._now), self.filling.caps
        if caps is None:
            return first
        for limit in caps.of[winner]:
            if caps.left[limit] >= self._largest[limit]:
                continue
            for job in self._members[limit]:
                if self._now[job] > -math.inf and not self.filling.can_use(job, gpus):
                    first = min(first, self._take_out(job))
        return first

    def _take_out(self, job: int) -> int:
        """Take out `job`, which can use nothing more; returns the first job from which the walk changes."""
        self._now[job] = self._later[job] = -math.inf
        place = bisect_left(self._best, job)
        if place < len(self._best) and self._best[place] == job:
            del self._best[place:]
            return job
        return len(self._now)

    def _walk(self, start: int) -> None:
        """Go on from `start` with the best so far, up to the last job."""
        ends, nows, laters, best = self._end, self._now, self._later, self._best
        jobs, job = len(nows), start
        if not best:
            while job < jobs and nows[job] == -math.inf:
                job += 1
            if job == jobs:
                return
            best.append(job)
            job += 1
        last = best[-1]
        end, now, later = ends[last], nows[last], laters[last]
        while job < jobs:
            # The job that ends first is compared by its present speed, the other one by its next.
            if (nows[job] > later) if ends[job] < end else (laters[job] >= now):
                best.append(job)
                end, now, later = ends[job], nows[job], laters[job]
            job += 1
