"""Pairs found by trial instead of by a program: beside the jobs that came first, and at random.

The first is what the authors call FIFO with packing.  The second is how they simulate Gandiva: all jobs get
the same time, and if GPUs do not suffice for all, jobs of the same size are paired at random; a pair whose
members together keep less than one job's rate alone is parted again.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from rota.model.columns import Floats
from rota.solvers.division import ALONE, alone
from rota.stages.round_books import Shares
from rota.stages.round_demand import PairRates
from rota.stages.round_quotas import RoundQuotas
from rota.systems.gavel.problem import GavelProblem

WORTHWHILE = 1.5
"""Sum of kept rates from which two jobs are worth putting side by side, one running and one waiting."""
Pair = tuple[int, int]
"""Places of two jobs, the smaller first."""


def beside_the_first(
    problem: GavelProblem, fractions: Floats, quotas: RoundQuotas | None, waiting: Sequence[int]
) -> Shares:
    """The `waiting` jobs, in order of arrival, each beside the one with which it keeps most.

    `fractions` is the answer of the walk, [job, type], 1 or 0.  The first job that finds no partner ends
    it.  A job that `quotas`, as the answer leaves them, keep from the type of its host is passed by.
    """
    hosts = np.flatnonzero(fractions.any(axis=1)).tolist()
    kind = fractions.argmax(axis=1)
    pairs: dict[Pair, int] = {}
    for job in waiting:
        alike = [host for host in hosts if problem.gpus[host] == problem.gpus[job]]
        worth = [worth_of(problem, host, job)[kind[host]] for host in alike]
        if not worth or max(worth) <= WORTHWHILE:
            break
        host = alike[worth.index(max(worth))]
        row, gpus = int(problem.rows[job]), float(problem.gpus[job])
        if quotas is not None and not quotas.takes(row, ALONE, gpus, int(kind[host])):
            continue
        hosts.remove(host)
        pairs[min(host, job), max(host, job)] = int(kind[host])
    fractions = fractions.copy()
    fractions[[place for pair in pairs for place in pair]] = 0.0
    of_pairs = np.zeros((len(pairs), fractions.shape[1]))
    of_pairs[np.arange(len(pairs)), list(pairs.values())] = 1.0
    return _with_pairs(fractions, list(pairs), of_pairs)


def at_random(problem: GavelProblem) -> Shares:
    """Equal time for jobs alone and, where GPUs do not suffice for all, for pairs drawn at random."""
    return equal_time(problem, _drawn_pairs(problem) if is_crowded(problem) else [])


def is_crowded(problem: GavelProblem) -> bool:
    """True if the jobs ask for more GPUs than there are."""
    return bool(problem.gpus.sum() > problem.capacity.sum())


def equal_time(problem: GavelProblem, pairs: list[Pair]) -> Shares:
    """Equal time for these pairs and for each other job alone, as far as there is room for it."""
    paired = {place for pair in pairs for place in pair}
    entries = len(problem.rows) - len(pairs)

    # Divided and added up in the authors' order: which of equal jobs comes first is rounding.
    by_name = np.argsort(problem.snapshot.cluster.type_names)

    def of_each(jobs: list[int]) -> Floats:
        share = problem.capacity / entries / problem.gpus[jobs][:, None]
        fractions: Floats = share / np.maximum(1.0, share[:, by_name].sum(axis=1, keepdims=True))
        return fractions

    own = np.where(problem.seen > 0.0, of_each(list(range(len(problem.rows)))), 0.0)
    own[sorted(paired)] = 0.0
    of_pairs = of_each([pair[0] for pair in pairs]).reshape(-1, own.shape[1])
    for place, pair in enumerate(pairs):
        of_pairs[place] *= np.array(worth_of(problem, *pair)) != 0.0
    return _with_pairs(own, pairs, of_pairs)


def _drawn_pairs(problem: GavelProblem) -> list[Pair]:
    """The pairs of the last time that are still worthwhile, and new ones among the other jobs."""
    place_of = {row: place for place, row in enumerate(problem.rows.tolist())}
    pairs = [
        (place_of[a], place_of[b])
        for a, b in problem.own.get("pairs", [])
        if a in place_of and b in place_of and max(worth_of(problem, place_of[a], place_of[b])) >= 1.0
    ]
    taken = {place for pair in pairs for place in pair}
    free = [place for place in range(len(problem.rows)) if place not in taken]
    turn = problem.own.get("turn", 0)
    random.Random(f"{problem.snapshot.seed}:{turn}").shuffle(free)
    while len(free) > 1:
        one = free.pop()
        for mate in free:
            alike = problem.gpus[mate] == problem.gpus[one]
            if alike and max(worth_of(problem, one, mate)) >= 1.0:
                free.remove(mate)
                pairs.append((min(one, mate), max(one, mate)))
                break
    rows = problem.rows.tolist()
    problem.own.update(pairs=sorted([rows[a], rows[b]] for a, b in pairs), turn=turn + 1)
    return sorted(pairs)


def worth_of(problem: GavelProblem, one: int, other: int) -> list[float]:
    """What two jobs keep of their rates together, [type]; 0 where they cannot run together."""
    pairs: PairRates | None = problem.pairs
    assert pairs is not None  # a policy that asks for pairs has their rates
    beside = zip(*pairs.beside(problem.rows.item(one), problem.rows.item(other)), strict=True)
    alone_rates = zip(problem.rates[one].tolist(), problem.rates[other].tolist(), strict=True)
    return [
        a / own_a + b / own_b if a > 0.0 and b > 0.0 and own_a > 0.0 and own_b > 0.0 else 0.0
        for (a, b), (own_a, own_b) in zip(beside, alone_rates, strict=True)
    ]


def _with_pairs(own: Floats, pairs: list[Pair], of_pairs: Floats) -> Shares:
    together = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return Shares(np.concatenate((alone(len(own)), together)), np.concatenate((own, of_pairs)))
