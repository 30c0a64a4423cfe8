"""A lower bound on the mean JCT of every schedule, clairvoyant and preemptive ones included.

Relaxation: the cluster is one machine that does `capacity` GPU-seconds of work a second and divides it
among jobs as it likes.  Job j brings W GPU-seconds at its release r and, in the real cluster, needs at
least p seconds (W spread over all GPUs it can use).  Any real schedule, its processing added up over
devices, is a schedule of this machine.  Two bounds on the sum of completions C follow.

1. *Shortest remaining first* minimises the sum of completions on one machine (Schrage, Operations
   Research 1968), so its sum is at most that of any real schedule.  It lets one job use all GPUs at once.
2. *Mean busy times* (Goemans, SODA 1997; Goemans et al., SIAM J. Discrete Math. 2002) remember that it
   cannot.  Let M be the mean moment at which work on j is done.  At most W/p GPUs work on j, so M is latest
   if they all do during the last p seconds: C >= M + p/2.  Also C >= r + p.  So for all weights w in [0, 1]

       sum C  >=  sum w (M + p/2) + (1 - w) (r + p)  >=  min over schedules of the same.

   The minimum is exact and easy: each bit of work of j costs w/W times the moment it is done, so at any
   moment the job with the largest w/W is served.  Every choice of weights gives a bound; all weights 0 give
   `all_at_once`.  A few steps raise the weight of jobs for which waiting binds (M + p/2 > r + p) and lower
   the others; the best bound met counts.

The larger of the two is returned.  Only the *mean* JCT is a bound: the finish times are the terms of the
sum, no schedule has them, and percentiles, waits and utilisation of this record bound nothing.
"""

from __future__ import annotations

from heapq import heappop, heappush, heapreplace

import numpy as np

from rota.bounds.demand import RelaxedDemand, Schedule
from rota.model.columns import Floats

STEPS = 20
"""Choices of weights that are tried; twice as many raise the bound on Philly's trace by less than 1 %."""


def schedule(demand: RelaxedDemand) -> Schedule:
    """Terms of the bound as finish times, with the latest starts that they allow."""
    finish_s = demand.release_s + demand.fastest_s
    rows = np.flatnonzero(np.isfinite(finish_s) & (demand.work_gpu_s > 0))
    if len(rows):
        release_s, work, least_s = demand.release_s[rows], demand.work_gpu_s[rows], demand.fastest_s[rows]
        first, _ = serve(release_s, work, float(demand.capacity))
        second = busy_time_terms(release_s, work, least_s, float(demand.capacity))
        finish_s[rows] = max(first, second, key=np.sum)
    with np.errstate(invalid="ignore"):  # infinite - infinite, of jobs that never end
        start_s = np.fmax(demand.release_s, finish_s - demand.fastest_s)
    return Schedule(start_s, finish_s)


def busy_time_terms(release_s: Floats, work: Floats, least_s: Floats, speed: float) -> Floats:
    """The terms w (M + p/2) + (1 - w) (r + p) for the best weights found, starting from all 0."""
    apart_s = release_s + least_s
    best, weights = apart_s, np.ones(len(work))
    for step in range(1, STEPS + 1):
        busy_s = apart_s.copy()  # any value will do where the weight is 0
        weighed = np.flatnonzero(weights > 0)
        _, means_s = serve(
            release_s[weighed], work[weighed], speed, priority=work[weighed] / weights[weighed]
        )
        busy_s[weighed] = means_s + least_s[weighed] / 2
        terms = weights * busy_s + (1 - weights) * apart_s
        if terms.sum() > best.sum():
            best = terms
        weights = weights + ((busy_s > apart_s) - weights) / (step + 1)
    return best


def serve(
    release_s: Floats, work: Floats, speed: float, priority: Floats | None = None
) -> tuple[Floats, Floats]:
    """Completion and mean busy time of each job on one preemptive machine of `speed`.

    At any moment the released job of the lowest `priority` is served; of the least remaining work if None.
    """
    order = np.argsort(release_s, kind="stable")
    arrivals = list(zip(release_s[order].tolist(), order.tolist(), strict=True))
    left: list[float] = work.tolist()
    keys: list[float] = left if priority is None else priority.tolist()
    finish, moment = [0.0] * len(left), [0.0] * len(left)  # moment: work x time, summed
    heap: list[tuple[float, int]] = []
    now = 0.0
    for (arrival, newcomer), until in zip(arrivals, [t for t, _ in arrivals[1:]] + [np.inf], strict=True):
        now = arrival
        heappush(heap, (keys[newcomer], newcomer))
        while heap and now < until:
            row = heap[0][1]
            end = now + left[row] / speed
            if end > until:
                done = (until - now) * speed
                moment[row] += done * ((now + until) / 2)
                left[row] -= done
                if priority is None:
                    heapreplace(heap, (left[row], row))
                break
            moment[row] += left[row] * ((now + end) / 2)
            finish[row] = now = end
            heappop(heap)
    return np.array(finish), np.array(moment) / work
