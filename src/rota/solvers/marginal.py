"""Hands out units (workers, servers) one by one to the job that saves most time per resource taken.

Source    Peng et al., "Optimus", EuroSys 2018, section 4.1.  A unit of a kind takes several resources of the
          cluster; its size is the largest part that it takes of any of them (its dominant share).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from rota.solvers.shared_caps import SharedCaps

Demand = Mapping[str, float]
"""Amounts of resources by name; a resource that a cluster does not state is unlimited."""
SERVER, WORKER = 0, 1
"""Kinds of units; of equal savings a server goes first."""
_NOTHING = 1e-9


@dataclass(frozen=True)
class TrainingJob:
    """A job that can have more servers and workers."""

    steps: float
    """Left to do, Q."""
    speed: Callable[[int, int], float]
    """Steps per second by servers and workers."""
    server: Demand
    worker: Demand
    most: tuple[float, float] = (float("inf"), float("inf"))
    """The most servers and workers that its user allows."""
    worth: float = 1.0
    """Factor on its savings: less than 1 while they are uncertain."""
    counts: Sequence[int] = ()
    """Numbers of workers with which it can run, ascending; empty for any."""

    def least(self) -> int:
        """Workers with which it begins."""
        return self.counts[0] if self.counts else 1

    def step(self, workers: int, kind: int) -> int:
        """Units of a kind that have to be added at once; 0 if it can have no more."""
        if kind == SERVER or not self.counts:
            return 1
        place = bisect_right(self.counts, workers)
        return self.counts[place] - workers if place < len(self.counts) else 0

    def saved_s(self, servers: int, workers: int, kind: int) -> float:
        """Seconds that one more step of a kind saves."""
        more = [servers, workers]
        more[kind] += self.step(workers, kind)
        slow, fast = self.speed(servers, workers), self.speed(*more)
        return self.worth * (self.steps / slow - self.steps / fast) if slow and fast else 0.0


@dataclass
class Units:
    """What was handed out."""

    of: list[list[int]]
    """Servers and workers of each job."""
    given: list[tuple[int, int, float]] = field(default_factory=list)
    """Job, kind and saving of each unit, in order."""


def hand_out(
    jobs: Sequence[TrainingJob],
    capacity: Demand,
    *,
    by_share: bool = True,
    stops: bool = False,
    caps: SharedCaps | None = None,
) -> Units:
    """Servers and workers of each job, as many as `capacity` has for them.

    First one server and the least workers for every job that fits, in order.  Then unit by unit to the
    largest saving over the dominant share; `by_share=False` divides by the amount of that resource instead,
    as the authors' code does, `stops` ends with the first unit that does not fit.  Otherwise that unit is
    out, and others are tried.  Workers that `caps` do not admit do not fit; `caps` are reduced.
    """
    free = dict(capacity)
    units = Units([[0, 0] for _ in jobs])
    for job, (one, held) in enumerate(zip(jobs, units.of, strict=True)):
        least = one.least()
        if caps is not None and not caps.admits(job, least):
            continue
        both = {name: one.server.get(name, 0.0) + least * one.worker.get(name, 0.0) for name in free}
        if _takes(free, both):
            held[:] = 1, least
            if caps is not None:
                caps.take(job, least)
    weights = [[_weight(demand, capacity, by_share) for demand in (one.server, one.worker)] for one in jobs]

    def saving(job: int, kind: int) -> float:
        servers, workers = units.of[job]
        step = jobs[job].step(workers, kind)
        return jobs[job].saved_s(servers, workers, kind) / (weights[job][kind] * step) if step else 0.0

    out: set[tuple[int, int]] = set()
    started = [job for job, held in enumerate(units.of) if held[WORKER]]
    heap = [(-saving(job, kind), job, kind, 0) for job in started for kind in (SERVER, WORKER)]
    version = [0] * len(jobs)
    heapify(heap)
    while heap:
        negative, job, kind, at = heappop(heap)
        if at != version[job] or (job, kind) in out:
            continue
        if negative >= 0.0:
            break
        step = jobs[job].step(units.of[job][WORKER], kind)
        unit = jobs[job].worker if kind == WORKER else jobs[job].server
        demand = {name: amount * step for name, amount in unit.items() if name in free}
        is_capped = caps is not None and kind == WORKER and not caps.admits(job, step)
        if is_capped or units.of[job][kind] >= jobs[job].most[kind] or not _takes(free, demand):
            if stops:
                break
            out.add((job, kind))
            continue
        if caps is not None and kind == WORKER:
            caps.take(job, step)
        units.of[job][kind] += step
        units.given.append((job, kind, -negative))
        version[job] += 1
        for each in (SERVER, WORKER):
            heappush(heap, (-saving(job, each), job, each, version[job]))
    return units


def _takes(free: dict[str, float], demand: Demand) -> bool:
    """True if all of `demand` is free; then it is taken."""
    if any(amount > free.get(name, 0.0) + 1e-9 for name, amount in demand.items()):
        return False
    for name, amount in demand.items():
        free[name] -= amount
    return True


def _weight(demand: Demand, capacity: Demand, by_share: bool) -> float:
    """The dominant share of a unit, or its amount; almost 0 if it takes nothing limited."""
    limited = [name for name, amount in demand.items() if amount and name in capacity]
    if not limited:
        return _NOTHING
    shares = {name: demand[name] / max(capacity[name], _NOTHING) for name in limited}
    dominant = max(shares, key=lambda name: shares[name])
    return shares[dominant] if by_share else demand[dominant]
