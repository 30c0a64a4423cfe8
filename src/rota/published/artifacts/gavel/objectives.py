"""Gavel's objectives as the authors' simulator computes them, where that differs from the paper.

From      stanford-futuredata/gavel, `scheduler/policies/*.py`; its fork in Shockwave
Differs   1. Programs see pairs that are worth nothing, and jobs on types on which they cannot run.
          2. `fifo` and `shortest` may give a job a type on which it does not run.  With `aware=no`, what
             `fifo` draws is which type leaves the list, not which one a job gets.
          3. Bisection for the makespan halves a fixed range to 5 %.
          4. `finish_time` counts the work done by what is left, and falls back to equal parts.
          5. `allox` matches jobs of several GPUs too, for one GPU's worth of time (Shockwave's fork).
          6. `packing` tries pairs whatever they are worth, and parts them at the next computation.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from rota.model.columns import Bools, Floats
from rota.stages.finish_time import alone_so_far_s
from rota.stages.round_books import Shares
from rota.stages.round_quotas import RoundQuotas
from rota.systems.gavel.allox import matched_to_end
from rota.systems.gavel.packing import Pair, beside_the_first, equal_time, is_crowded, worth_of
from rota.systems.gavel.policy import (
    by_work_left,
    done_within,
    fastest,
    least_horizon_s,
    least_worst_finish,
    settled_fractions,
)
from rota.systems.gavel.problem import GavelProblem, Objective, ObjectiveRules, blind_rates
from rota.systems.gavel.system import OBJECTIVES, GavelObjective

_RANGE_S = 100.0, 1e6
_TOLERANCE = 0.05


class ProblemOfAuthors(GavelProblem):
    """Counts pairs without any worth as entries too: they move the point at which the solver ends."""

    all_pairs = True


def seen_by_authors(rates: Floats, rules: ObjectiveRules) -> Floats:
    """Rates as an objective sees them, [job, type]; without `aware`, equal on types without a rate too."""
    if rules.aware:
        return rates
    return np.repeat(blind_rates(rates, rules), rates.shape[1], axis=1)


def _fifo(problem: GavelProblem) -> Shares:
    """In order of arrival, each job has the fastest type with room, whether it runs there or not.

    With pairs, the first job without room has left the line already when partners are looked for.
    """
    if not problem.rules.aware:
        return problem.by_job(_drawn(problem))
    quotas = RoundQuotas.of(problem.snapshot)
    fractions = fastest(problem, range(len(problem.rows)), quotas, _all_types(problem), stop=True)
    if not problem.rules.pairs:
        return problem.by_job(fractions)
    waiting = np.flatnonzero(~fractions.any(axis=1)).tolist()
    return beside_the_first(problem, fractions, quotas, waiting[1:])


def _drawn(problem: GavelProblem) -> Floats:
    """A type for each job in order of arrival, where it stays.

    A job that has ended leaves its type to the first one that waits, if that type has as much room at this
    point of the count.  The others all get the last type by name that any GPU was free of; what is drawn is
    only which type leaves the list when that one is full, so that it may stay, and be given to more jobs
    than it has GPUs for.
    """
    rows, gpus = problem.rows.tolist(), dict(zip(problem.rows.tolist(), problem.gpus.tolist(), strict=True))
    runs = dict(zip(rows, (problem.rates > 0.0).tolist(), strict=True))
    names, left = problem.snapshot.cluster.type_names, problem.capacity.tolist()
    before: dict[int, int] = dict(problem.own.get("kinds", {}))
    kind_of = dict(before)
    line = [row for row in rows if row not in before]
    for row in sorted(before):
        kind = before[row]
        if row in gpus:
            left[kind] -= gpus[row]
            continue
        if line and gpus[line[0]] <= left[kind] and runs[line[0]][kind]:
            heir = line.pop(0)
            kind_of[heir] = kind
            left[kind] -= gpus[heir]
        del kind_of[row]
    kinds = sorted((kind for kind in range(len(left)) if left[kind] > 0.0), key=lambda kind: names[kind])
    with _generator_of(problem) as drawing:
        while line and kinds:
            row = line.pop(0)
            fits = [place for place, kind in enumerate(kinds) if left[kind] >= gpus[row]]
            if not fits:
                break
            leaves, kind = fits[drawing.randrange(len(fits))], kinds[-1]
            if not runs[row][kind]:
                continue
            kind_of[row] = kind
            left[kind] -= gpus[row]
            if left[kind] == 0.0:
                kinds.pop(leaves)
    problem.own["kinds"] = kind_of
    return settled_fractions(problem, kind_of)


def _shortest(problem: GavelProblem) -> Shares:
    """In order of the time left, each job has the fastest type with room, whether it runs there or not."""
    quotas = RoundQuotas.of(problem.snapshot)
    return problem.by_job(fastest(problem, by_work_left(problem), quotas, _all_types(problem), stop=False))


def _all_types(problem: GavelProblem) -> Bools:
    return np.ones_like(problem.rates, dtype=bool)


def _makespan(problem: GavelProblem) -> Shares:
    """The last horizon that can be kept when a fixed range is halved to 5 %."""
    least = least_horizon_s(problem)
    low, high = _RANGE_S
    last = 0.0
    while not last:
        top = high
        while high > (1.0 + _TOLERANCE) * low:
            middle = (low + high) / 2.0
            if middle < least:
                low = middle
            else:
                high = last = middle
        low, high = top, 10.0 * top
    return done_within(problem, last)


def _finish_time(problem: GavelProblem) -> Shares:
    """The worst finish, with the work done counted by what is left.

    That counts again where a job's unit of work changes (Shockwave).  While a job has less than nothing left
    their program is not convex: all jobs get equal parts, and the work is not counted yet.
    """
    fails = bool((problem.work_to_go < 0.0).any())
    done, rate = -problem.work_to_go, problem.isolated_rate
    so_far_s = alone_so_far_s(problem.own, problem.rows, done, rate, notes=not fails)
    return problem.by_job(problem.isolated) if fails else least_worst_finish(problem, so_far_s)


def _allox(problem: GavelProblem) -> Shares:
    """Jobs of several GPUs are matched like all others, as often as there is room."""
    return matched_to_end(problem, np.ones(len(problem.rows), dtype=bool))


def _packing(problem: GavelProblem) -> Shares:
    """Equal time for jobs alone and, where GPUs do not suffice for all, for the pairs drawn."""
    crowded = is_crowded(problem)
    pairs = _drawn_pairs(problem, crowded=crowded)
    return equal_time(problem, pairs if crowded else [])


def _drawn_pairs(problem: GavelProblem, *, crowded: bool) -> list[Pair]:
    """The pairs that are kept, and where GPUs do not suffice new ones, whatever they are worth."""
    rows = problem.rows.tolist()
    place_of = {row: place for place, row in enumerate(rows)}
    pairs = [
        (place_of[a], place_of[b])
        for a, b in problem.own.get("pairs", [])
        if a in place_of and b in place_of and _is_kept(problem, place_of[a], place_of[b])
    ]
    if crowded:
        taken = {place for pair in pairs for place in pair}
        free = [place for place in range(len(rows)) if place not in taken]
        with _generator_of(problem) as drawing:
            for _ in range(len(free)):
                if len(free) < 2:
                    break
                one, other = drawing.sample(free, 2)
                if problem.gpus[one] == problem.gpus[other]:
                    free.remove(one)
                    free.remove(other)
                    pairs.append((min(one, other), max(one, other)))
    problem.own["pairs"] = sorted([rows[a], rows[b]] for a, b in pairs)
    return sorted(pairs)


def _is_kept(problem: GavelProblem, one: int, other: int) -> bool:
    """False if on some type one of both does nothing, or if what they keep over all types is less than 1."""
    worth = worth_of(problem, one, other)
    return min(worth) > 0.0 and sum(worth) >= 1.0


@contextmanager
def _generator_of(problem: GavelProblem) -> Iterator[random.Random]:
    """Python's generator, begun with the seed of the run as in the authors' simulator, where it was left."""
    drawing = random.Random(problem.snapshot.seed)
    version, _, gauss = drawing.getstate()
    now = problem.own.get("drawn")
    if now is not None:
        drawing.setstate((version, tuple(now.tolist()), gauss))
    yield drawing
    problem.own["drawn"] = np.array(drawing.getstate()[1], dtype=np.int64)


OBJECTIVES_OF_AUTHORS: Mapping[GavelObjective, Objective] = {
    **OBJECTIVES,
    GavelObjective.FIFO: _fifo,
    GavelObjective.SHORTEST: _shortest,
    GavelObjective.MAKESPAN: _makespan,
    GavelObjective.FINISH_TIME: _finish_time,
    GavelObjective.ALLOX: _allox,
    GavelObjective.PACKING: _packing,
}
