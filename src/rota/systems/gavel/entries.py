"""Jobs that may run together: the entries of a division of time, and jobs that are alike taken as one.

Two jobs may share the same GPUs if they ask for as many whole ones, both were measured beside each other,
and sharing is worth more than taking turns: what each keeps of its rate adds up to more than 1 on some type.
(Other pairs are never needed: turns do as well.)

Pairs are many, so once there are more than `MOST_APART` jobs, those of one class (the same workload, GPUs,
weight, and whatever else the objective tells apart) are one job of the program that counts for several.  Its
answer is dealt out again: every job of a class gets the same part of what the class got by itself, and beside
another class with as few partners as possible.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rota.model.columns import Floats, Ints
from rota.solvers.division import ALONE, Division, alone, single
from rota.stages.round_books import Shares
from rota.stages.round_demand import PairRates, RoundDemand

MOST_APART = 100
"""Jobs up to which each is one of its own in the program, if pairs are looked at."""


@dataclass(frozen=True)
class Entries:
    """A division, and how its jobs relate to the jobs of the demand."""

    division: Division
    classes: Ints
    """Job of the division that each job is, or is one of; if distinguished by more than their
    places, these are in another order."""

    def shares(self, fractions: Floats) -> Shares:
        """The fractions of the division, [entry, type], dealt out to jobs."""
        members, counts = self.division.members, self.division.counts
        if len(counts) == len(self.classes) and (self.classes[1:] > self.classes[:-1]).all():
            return Shares(members, fractions)
        of_class = [np.flatnonzero(self.classes == code) for code in range(len(counts))]
        own = np.zeros((len(self.classes), fractions.shape[1]))
        pairs: dict[tuple[int, int], Floats] = {}
        for (one, other), time in zip(members.tolist(), fractions, strict=True):
            if other == ALONE:
                own[of_class[one]] += time / len(of_class[one])
            elif time.any():
                for a, b, part in _dealt(of_class[one], of_class[other]):
                    key = (min(a, b), max(a, b))
                    pairs[key] = pairs.get(key, 0.0) + time * part
        together = np.array(list(pairs), dtype=np.int64).reshape(-1, 2)
        of_pairs = np.array(list(pairs.values())).reshape(-1, fractions.shape[1])
        return Shares(np.concatenate((alone(len(own)), together)), np.concatenate((own, of_pairs)))


def _dealt(ones: Ints, others: Ints) -> list[tuple[int, int, float]]:
    """Pairs of jobs of two classes, and which part of the classes' time together each gets.

    Every job of a class gets the same time; there are fewer pairs than jobs.
    """
    if np.array_equal(ones, others):
        n = len(ones)
        if n == 2:
            return [(int(ones[0]), int(ones[1]), 1.0)]
        return [(int(ones[i]), int(ones[(i + 1) % n]), 1.0 / n) for i in range(n)]
    dealt = []
    i = j = 0
    left_i, left_j = 1.0 / len(ones), 1.0 / len(others)
    while i < len(ones) and j < len(others):
        part = min(left_i, left_j)
        dealt.append((int(ones[i]), int(others[j]), part))
        left_i, left_j = left_i - part, left_j - part
        if left_i <= 1e-12:
            i, left_i = i + 1, 1.0 / len(ones)
        if left_j <= 1e-12:
            j, left_j = j + 1, 1.0 / len(others)
    return dealt


def entries(demand: RoundDemand, seen: Floats, apart_by: Floats, *, all_pairs: bool = False) -> Entries:
    """The entries of the jobs in `demand`, whose rates count as `seen` [job, type].

    `apart_by` [job, value] says what keeps two jobs from being alike besides rates and GPUs.  With
    `all_pairs` pairs that are worth nothing are entries too, as in the authors' programs: where a solver
    walks inside the constraints, they move the point at which it ends.
    """
    jobs = len(demand.rows)
    if demand.pairs is None:
        return Entries(single(demand.gpus, seen, demand.capacity), np.arange(jobs))
    of_job = demand.pairs.classes[demand.rows]
    if jobs <= MOST_APART:
        keys = np.arange(jobs)[:, None]
    else:
        keys = np.column_stack((of_job, demand.gpus, seen, apart_by))
    _, first, classes = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    classes = classes.ravel()
    counts = np.bincount(classes).astype(np.float64)
    gpus = demand.gpus[first]
    seen_alone = seen[first]
    alone_in = single(gpus, seen_alone, demand.capacity)
    true_alone = seen_alone if seen is demand.rates else demand.rates[first]
    members, rates = _pairs(
        demand.pairs, of_job[first], gpus, true_alone, seen_alone, counts, every_pair=all_pairs
    )
    division = Division(
        np.concatenate((alone_in.members, members)),
        np.concatenate((gpus, gpus[members[:, 0]])),
        np.concatenate((alone_in.rates, rates)),
        demand.capacity,
        counts,
    )
    return Entries(division, classes)


def _pairs(
    pairs: PairRates,
    of_class: Ints,
    gpus: Floats,
    rates_alone: Floats,
    seen: Floats,
    counts: Floats,
    *,
    every_pair: bool,
) -> tuple[Ints, Floats]:
    """Members and rates of the pairs worth looking at, [pair, 2] and [pair, 2, type]; `every_pair`: all.

    A job that keeps a part of its rate beside another counts as doing that part of what is `seen` of it.
    """
    whole = gpus == np.floor(gpus)
    one, other = np.nonzero(np.triu((gpus[:, None] == gpus) & whole & whole[:, None]))
    several = (one != other) | (counts[one] > 1.0)
    one, other = one[several], other[several]
    rates = pairs.both(of_class[one], of_class[other])
    rates = np.where((rates > 0.0).all(axis=1, keepdims=True), rates, 0.0)  # both run there, or neither
    alone_rates = np.stack((rates_alone[one], rates_alone[other]), axis=1)
    useful = (kept(rates, alone_rates) > 1.0).any(axis=1) | every_pair
    if seen is not rates_alone:
        parts = np.divide(rates, alone_rates, out=np.zeros_like(rates), where=alone_rates > 0.0)
        rates = parts * np.stack((seen[one], seen[other]), axis=1)
    return np.column_stack((one[useful], other[useful])), rates[useful]


def kept(rates: Floats, alone_rates: Floats) -> Floats:
    """What two keep of their rates alone, added up, [pair, type]; 0 where they cannot run together.

    `rates` and `alone_rates` are [pair, 2, type].
    """
    parts = np.divide(rates, alone_rates, out=np.zeros_like(rates), where=alone_rates > 0.0)
    together: Floats = np.where((parts > 0.0).all(axis=1), parts.sum(axis=1), 0.0)
    return together
