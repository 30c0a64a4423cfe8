"""One GPU after the other as a plain tournament of pairs, and rules of other systems to compare AFS with."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from rota.solvers.one_by_one import Filling, Key, fill_largest

Better = Callable[[int, int], bool]
"""True if the second job deserves the next step more than the first, which came before it."""
Fill = Callable[[Filling, int, Sequence[float]], list[int]]
"""Hands out so many GPUs to jobs with so much work."""


def fill_slowly(filling: Filling, gpus: int, better: Better) -> list[int]:
    """Each step goes to the winner of a tournament in the order of the jobs, walked as a whole each time."""
    while candidates := [job for job in range(len(filling.rates)) if filling.can_use(job, gpus)]:
        winner = candidates[0]
        for job in candidates[1:]:
            if better(winner, job):
                winner = job
        gpus -= filling.give(winner)
    return filling.share


def apathetic(filling: Filling, key: Sequence[float], work: Sequence[float] | None = None) -> Better:
    """The rule of AFS as its card states it."""

    def end(job: int) -> float:
        return work[job] / filling.rates[job][filling.share[job]] if work is not None else key[job]

    def better(first: int, second: int) -> bool:
        shares = filling.share
        if not shares[first] or not shares[second]:
            return not shares[second] and (shares[first] > 0 or key[second] < key[first])
        a, b = (second, first) if end(second) < end(first) else (first, second)
        (slow_a, fast_a), (slow_b, fast_b) = filling.speeds(a), filling.speeds(b)
        gain_a = (fast_a - slow_a) / slow_a / filling.step(a)
        gain_b = (fast_b - slow_b) / fast_b / filling.step(b)
        return (a if gain_a > gain_b else b) == second

    return better


def by_key(key_of: Callable[[Filling, Sequence[float]], Key]) -> Fill:
    """The filler of a rule with a key for each job."""
    return lambda filling, gpus, work: fill_largest(filling, gpus, key_of(filling, work))


def _saving(filling: Filling, work: Sequence[float]) -> Key:
    def saving(job: int) -> float:
        slow, fast = filling.speeds(job)
        return (work[job] / slow - work[job] / fast) / filling.step(job) if slow > 0.0 else math.inf

    return saving


fewest_first = by_key(lambda filling, work: lambda job: -float(filling.share[job]))
"""Max-min: the job with fewer GPUs."""
shortest_first = by_key(lambda filling, work: lambda job: -work[job])
"""SRTF: the job with less work, until it cannot use more."""
largest_saving = by_key(_saving)
"""Optimus: one step each, then the largest reduction of the remaining time, per GPU."""
