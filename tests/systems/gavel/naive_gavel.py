"""Gavel's allocations once more, from its card alone, as plainly as can be: what ours are compared with.

Entries are tuples of one or two jobs; `rate[entry][k][j]` is what member k obtains on type j.  Programs go to
SciPy's `linprog`, ratios to bisection.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment, linprog


class Scene:
    """Jobs with rates by type, GPUs, weights; GPUs of each type; what two obtain beside each other."""

    def __init__(self, rates, gpus, capacity, weights=None, beside=None):
        self.rates, self.gpus, self.capacity = rates, gpus, capacity
        self.weights = weights or [1.0] * len(rates)
        self.jobs, self.types = range(len(rates)), range(len(capacity))
        self.rate = {(m,): [rates[m]] for m in self.jobs}
        for (a, b), both in (beside or {}).items():
            if gpus[a] == gpus[b]:
                able = [both[0][j] > 0 and both[1][j] > 0 for j in self.types]
                self.rate[a, b] = [[r if ok else 0.0 for r, ok in zip(rs, able, strict=True)] for rs in both]
        self.entries = list(self.rate)

    def equal(self, m):
        """Obtained from time divided over the types in proportion to their GPUs."""
        return sum(r * n for r, n in zip(self.rates[m], self.capacity, strict=True)) / sum(self.capacity)

    def isolated(self, m):
        """Fractions with an equal part of the cluster."""
        part = [n / (len(self.rates) * self.gpus[m]) for n in self.capacity]
        return [p / max(1.0, sum(part)) for p in part]

    def obtained(self, x, m):
        return sum(self.rate[c][c.index(m)][j] * x[c][j] for c in self.entries if m in c for j in self.types)

    def solve(self, costs, at_least=(), with_t=None):
        """Maximise costs · x (+ t); `at_least` are (job, amount); `with_t` has the factor of t of each.

        Value and x, or None.
        """
        place = {(c, j): i for i, (c, j) in enumerate((c, j) for c in self.entries for j in self.types)}
        rows, limits = [], []
        for m in self.jobs:
            rows.append([1.0 if m in c else 0.0 for c, _ in place] + [0.0])
            limits.append(1.0)
        for k in self.types:
            rows.append([self.gpus[c[0]] * (j == k) for c, j in place] + [0.0])
            limits.append(self.capacity[k])
        wanted = [(m, least, 0.0) for m, least in at_least]
        wanted += [(m, 0.0, factor) for m, factor in enumerate(with_t or [])]
        for m, least, factor in wanted:
            got = [self.rate[c][c.index(m)][j] if m in c else 0.0 for c, j in place]
            size = max(max(got), factor, least, 1e-30)
            rows.append([-g / size for g in got] + [factor / size])
            limits.append(-least / size)
        bounds = [(0.0, None if any(r[j] > 0 for r in self.rate[c]) else 0.0) for c, j in place]
        objective = [-costs.get(key, 0.0) for key in place] + [-1.0 if with_t else 0.0]
        out = linprog(objective, rows, limits, bounds=[*bounds, (0, None if with_t else 0)])
        if out.status != 0:
            return None
        return -out.fun, {c: [out.x[place[c, j]] for j in self.types] for c in self.entries}


def max_min(scene):
    """The largest least share."""
    with_t = [scene.weights[m] * scene.equal(m) / scene.gpus[m] for m in scene.jobs]
    return scene.solve({}, with_t=with_t)[0]


def throughput(scene, prices=None, at_least=()):
    """The largest sum, over prices if there are any; requirements that cannot all be met bind nobody."""
    prices = prices or [1.0] * len(scene.capacity)
    costs = {(c, j): sum(r[j] for r in scene.rate[c]) / prices[j] for c in scene.entries for j in scene.types}
    found = scene.solve(costs, at_least)
    return (found or scene.solve(costs))[0]


def makespan(scene, steps):
    """The least time in which everybody can be done."""
    return 1.0 / scene.solve({}, with_t=steps)[0]


def finish_time(scene, steps, age, so_far):
    """The least worst ratio, to 1e-6."""
    alone = [
        so_far[m] + steps[m] / sum(r * x for r, x in zip(scene.rates[m], scene.isolated(m), strict=True))
        for m in scene.jobs
    ]

    def part(rho):
        needs = [steps[m] / max(rho * alone[m] - age[m], 1e-300) for m in scene.jobs]
        return scene.solve({}, with_t=needs)[0]

    low = max(age[m] / alone[m] for m in scene.jobs)
    high = max((age[m] + alone[m] - so_far[m]) / alone[m] for m in scene.jobs)
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if part(middle) >= 1.0 else (middle, high)
    return high


def fifo(scene, pairs=False):
    """Entry and type of everybody who has one; others have none."""
    return _walk(scene, scene.jobs, stop=True, pairs=pairs)


def shortest(scene, steps):
    return _walk(scene, sorted(scene.jobs, key=lambda m: steps[m] / max(scene.rates[m])), stop=False)


def worth(scene, a, b):
    """The most that two keep of their rates on any type, added up; 0 if they cannot share."""
    if (a, b) not in scene.rate:
        return 0.0
    one, other = scene.rate[a, b]
    kept = [one[j] / scene.rates[a][j] + other[j] / scene.rates[b][j] for j in scene.types if one[j] > 0]
    return max(kept, default=0.0)


def _walk(scene, order, *, stop, pairs=False):
    left, kind = list(scene.capacity), {}
    for m in order:
        room = [j for j in scene.types if left[j] >= scene.gpus[m] and scene.rates[m][j] > 0]
        if room:
            kind[m] = max(room, key=lambda j: scene.rates[m][j])
            left[kind[m]] -= scene.gpus[m]
        elif stop:
            break
    runs = {(m,): j for m, j in kind.items()}
    for m in [m for m in order if m not in kind] if pairs else []:
        worth = {}
        for host in [c[0] for c in runs if len(c) == 1 and c[0] in kind]:
            both = scene.rate.get((min(host, m), max(host, m)))
            if both:
                one, other = both if host < m else both[::-1]
                j, slow = kind[host], scene.rates[m][kind[host]]
                worth[host] = one[j] / scene.rates[host][j] + (other[j] / slow if slow else 0.0)
        best = max(worth, key=worth.get, default=None)
        if best is None or worth[best] <= 1.5:
            break
        runs[min(best, m), max(best, m)] = runs.pop((best,))
    return runs


def allox(scene, steps, first=None):
    """The least sum of completion times of jobs of one GPU, all of the cluster free.

    With `first`, {job: type}, of the orders in which these jobs run first, one on each GPU in use.
    """
    waiting = [m for m in scene.jobs if scene.gpus[m] == 1]
    time = {(m, j): steps[m] / max(scene.rates[m][j], 1e-10) for m in waiting for j in scene.types}
    if first is None:
        workers = [(j, 0.0) for j in scene.types for _ in range(int(scene.capacity[j]))]
    else:
        workers = [(j, time[m, j]) for m, j in first.items()]
    begun = sum(pushed for _, pushed in workers)
    rest = [m for m in waiting if m not in (first or {})]
    if not rest or not workers:
        return begun
    places = [(j, pushed, p) for j, pushed in workers for p in range(1, len(rest) + 1)]
    cost = np.array([[p * time[m, j] + pushed for j, pushed, p in places] for m in rest])
    return begun + cost[linear_sum_assignment(cost)].sum()
