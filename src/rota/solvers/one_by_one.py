"""GPUs handed out one by one, to the job with the largest key or the largest saving.

All rules of that kind (Optimus, Elan, AFS, max-min) share `Filling`, the shares as they grow.  A rule that
gives each job a key of its own needs a heap (`fill_largest`); AFS compares jobs in pairs (`tournament.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heapreplace

from rota.solvers.shared_caps import SharedCaps

Key = Callable[[int], float]
"""What a job's next step is worth at its present share; it depends on no other job's share."""


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
        """The first step for the jobs in `jobs` that have nothing yet, in order, while `gpus` are enough.

        Equals `can_use` and `give` one by one.  Returns the GPUs that are left.
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
    `counts[j]` the numbers it can use, ascending.  Every job gets the least first, in order; a step that
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
