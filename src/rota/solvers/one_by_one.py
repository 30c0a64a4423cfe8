"""GPUs handed out one by one: who gets the next one is decided by a tournament between jobs.

The filler is shared by all rules of that kind (Optimus, AFS, max-min); a rule is a function that says which
of two jobs deserves the next GPU more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

Better = Callable[[int, int], bool]
"""True if the second job deserves the next step more than the first, which came before it."""


class Filling:
    """Shares as they grow.  Jobs are numbered in a stable order, by submission."""

    def __init__(self, rates: Sequence[Sequence[float]], counts: Sequence[Sequence[int]]) -> None:
        """`rates[j][k]` is the speed of job j on k GPUs; `counts[j]` the numbers it can use, ascending."""
        self.rates = rates
        self.counts = counts
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

    def fill(self, gpus: int, better: Better) -> list[int]:
        """Hand out `gpus`: each step goes to the winner of a tournament in the order of the jobs."""
        candidates = [job for job in range(len(self.rates)) if self._can_use(job, gpus)]
        while candidates:
            winner = candidates[0]
            for job in candidates[1:]:
                if better(winner, job):
                    winner = job
            gpus -= self.step(winner)
            self.share[winner] += self.step(winner)
            self._level[winner] += 1
            self.grants.append(winner)
            candidates = [job for job in candidates if self._can_use(job, gpus)]
        return self.share

    def _can_use(self, job: int, gpus: int) -> bool:
        """True if there is a next share, it fits, and it is faster."""
        if not 0 < self.step(job) <= gpus:
            return False
        slow, fast = self.speeds(job)
        return fast > slow


def afs(filling: Filling, key: Sequence[float], work: Sequence[float] | None = None) -> Better:
    """The rule of AFS: of two jobs the one that ends first must gain more by it than the other would later.

    With `work` (what is left of each job) the one that ends first is found at present shares; without, it is
    the one with the smaller `key`.  Gains are per GPU.  Jobs without GPUs come first, in order of `key`: the
    rule itself says so, as long as curves are concave.
    """

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
