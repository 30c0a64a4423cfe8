"""The objectives that are linear programs, or a few of them one after the other (sections 4.1 to 4.3)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rota.errors import PolicyError
from rota.model.columns import Bools, Floats
from rota.solvers.division import Answer, DemandRows, Division, Objective, Tie, best, sum_of
from rota.solvers.interior import NotInsideError
from rota.solvers.lp import SolveStatus
from rota.solvers.ratio_division import least_ratio
from rota.stages.finish_time import alone_so_far_s, finish_time_ratio, rate_for
from rota.stages.round_books import Shares
from rota.systems.gavel.problem import GavelProblem


def max_min(problem: GavelProblem) -> Shares:
    """Maximise the least share (LAS, section 4.1)."""
    division = problem.division
    demands = DemandRows(
        scaled(division, share_scale(problem)), np.zeros(len(division.counts)), division.counts
    )
    least = Objective(np.zeros(division.size), 1.0)
    try:
        fractions = _solved(problem, least, demands)
    except NotInsideError:
        if not problem.parameters.prefers_inside:
            raise
        fractions = _solved(problem, least, demands, Tie.SUM)
    if not problem.parameters.aware and problem.parameters.best_tie is Tie.SUM and not division.has_pairs:
        fractions = spread_evenly(fractions, division.able, problem.gpus, problem.capacity)
    return problem.entries.shares(fractions)


def share_scale(problem: GavelProblem) -> Floats:
    """What turns work per second into a share: GPUs over weight and what equal time on all types gives."""
    return problem.mean(problem.gpus / (problem.weights * problem.equal_share))


_ROUNDING = 1e-9
"""By how much the GPUs of a type may seem to be exceeded where sums are all it is."""


def spread_evenly(fractions: Floats, runs_on: Bools, gpus: Floats, capacity: Floats) -> Floats:
    """The time of each job divided over the types it runs on, [job, type], in proportion to their GPUs.

    To whoever takes all types for equally fast this is worth the same.  Where jobs that run on few types
    leave no room for it, the allocation stays as it is.
    """
    weights = runs_on * capacity
    spread: Floats = fractions.sum(axis=1, keepdims=True) * weights / weights.sum(axis=1, keepdims=True)
    return spread if (gpus @ spread <= capacity * (1.0 + _ROUNDING)).all() else fractions


def throughput(problem: GavelProblem) -> Shares:
    """Maximise the work per second of all jobs together."""
    return problem.entries.shares(_solved(problem, Objective(sum_of(problem.division.gains))))


def cost(problem: GavelProblem) -> Shares:
    """Maximise Σ work per dollar, with deadlines kept if all of them can be (section 4.2)."""
    dollars = np.tile(problem.prices, len(problem.division.members))
    objective = Objective(sum_of(problem.division.gains) / dollars)
    demands = _deadlines(problem)
    if demands is not None:
        solution = best(problem.division, objective, demands, problem.parameters.best_tie)
        if solution.status is SolveStatus.OPTIMAL:
            return problem.entries.shares(problem.division.fractions(solution.columns))
    return problem.entries.shares(_solved(problem, objective))


def _deadlines(problem: GavelProblem) -> DemandRows | None:
    """Work per second that the deadlines ask for; None if nobody has one that is still ahead."""
    left_s = problem.deadline_in_s
    asks = np.isfinite(left_s) & (left_s > 0.0)
    if not asks.any():
        return None
    least = problem.by_class(np.where(asks, problem.work_left / np.where(asks, left_s, 1.0), 0.0))
    rows = np.flatnonzero(least > 0.0)
    return DemandRows(problem.division.gains, least[rows], jobs=rows)


# -- bisection -------------------------------------------------------------------------------------

_ARTIFACT_RANGE = 100.0, 1e6
_ARTIFACT_TOLERANCE = 0.05
_MET = 1.0 - 1e-7
"""Part of what is needed that counts as all of it."""
_MOST_TRIES = 60


def makespan(problem: GavelProblem) -> Shares:
    """The least H in which everybody's work is done: thr >= work left / H (section 4.2)."""
    left = problem.by_class(problem.work_left)
    # In this time everybody can do the same part of what is left: the least H is the time over that part.
    span_s = float((left / problem.division.counts).max())
    least = span_s / _reach(problem.division, left / span_s).value
    if problem.is_artifact:
        least = _authors_horizon(least)
    else:
        least *= 1.0 + problem.parameters.tolerance
    return problem.entries.shares(_met(problem, least, lambda horizon: left / horizon))


def _authors_horizon(least: float) -> float:
    """The last horizon that can be kept when a fixed range is halved to 5 %."""
    low, high = _ARTIFACT_RANGE
    last = 0.0
    while not last:
        top = high
        while high > (1.0 + _ARTIFACT_TOLERANCE) * low:
            middle = (low + high) / 2.0
            if middle < least:
                low = middle
            else:
                high = last = middle
        low, high = top, 10.0 * top
    return last


def finish_time(problem: GavelProblem) -> Shares:
    """The least ρ with (age + left / thr) <= ρ × (isolated time so far + left / isolated thr) for everybody.

    Isolated time so far adds up, from one computation to the next, the work done over the rate that the job
    would have had with an equal part of the cluster for itself (Themis' measure, NSDI 2020).
    """
    isolated = (problem.seen * problem.isolated).sum(axis=1)
    # The authors look at what is left, which counts anew where a job's unit of work changes (Shockwave).
    done = -problem.work_to_go if problem.is_artifact else problem.work_done
    # With less than nothing left to somebody their program is not convex any more: all get equal parts, and
    # the work is taken for not counted yet.
    fails = problem.is_artifact and bool((problem.work_to_go < 0.0).any())
    so_far_s = alone_so_far_s(problem.own, problem.rows, done, isolated, notes=not fails)
    if fails:
        return problem.by_job(problem.isolated)
    still_s = problem.work_left / isolated
    alone_s = so_far_s + still_s
    # By what is left, work that was lost may count more than it did when it was done.
    alone_s = np.where(alone_s > 0.0, alone_s, still_s)
    if problem.parameters.best_tie is Tie.INTERIOR and (problem.division.counts == 1.0).all():
        inside = least_ratio(problem.division, problem.age_s / alone_s, problem.work_left / alone_s)
        if inside is not None:
            return problem.entries.shares(inside)

    def needed(rho: float) -> Floats:
        return problem.by_class(rate_for(rho, problem.age_s, problem.work_left, alone_s))

    def worst(rates: Floats) -> float:
        return float(finish_time_ratio(problem.age_s, problem.work_left / rates, alone_s).max())

    low = worst(problem.seen.max(axis=1))
    # Isolated fractions are possible: they give everybody its isolated rate from now on.
    high = max(low, worst(isolated))
    least = _least(problem, low, high, needed)
    if least > low:
        least *= 1.0 + problem.parameters.tolerance
    return problem.entries.shares(_met(problem, least, needed))


Needed = Callable[[float], Floats]
"""Work per second that each job of the division needs, less for larger values."""


def _least(problem: GavelProblem, low: float, high: float, needed: Needed) -> float:
    """The least value in [low, high] whose needs can be met, approached from below.

    If only a part of what `value` needs can be met, prices say so: whatever the fractions, what all jobs
    obtain, weighted by prices, is that part at most.  So values that need more than that cannot be met
    either, and the least that does not is tried next (Newton's method for a convex function).
    """
    value = low
    for _ in range(_MOST_TRIES):
        reach = _reach(problem.division, needed(value))
        if reach.value >= _MET or value >= high:
            return min(value, high)
        prices = reach.prices
        assert prices is not None  # of all jobs, from the inside
        prices = prices / float(prices @ needed(value))

        def worth(value: float, prices: Floats = prices) -> float:
            return float(prices @ needed(value))

        value = _first_below(worth, reach.value, value, high)
    return high


def _first_below(falling: Callable[[float], float], level: float, low: float, high: float) -> float:
    """The value in [low, high] from which on `falling` is at most `level`; `high` if there is none."""
    if falling(high) > level:
        return high
    for _ in range(_MOST_TRIES):
        middle = (low + high) / 2.0
        if falling(middle) > level:
            low = middle
        else:
            high = middle
    return high


def _reach(division: Division, needs: Floats) -> Answer:
    """The largest part of its needs that everybody's can be met by, and what prices say about it."""
    demands = DemandRows(division.gains, np.zeros(len(needs)), needs)
    answer = best(division, Objective(np.zeros(division.size), 1.0), demands, Tie.INTERIOR)
    return optimal(answer)


def _met(problem: GavelProblem, value: float, needed: Needed) -> Floats:
    """The fractions that meet the needs of `value`; of a larger one if rounding misses them."""
    while (fractions := _kept(problem, DemandRows(problem.division.gains, needed(value)))) is None:
        value *= 1.0 + problem.parameters.tolerance
    return fractions


def _kept(problem: GavelProblem, demands: DemandRows) -> Floats | None:
    """Fractions that meet the demands; None if there are none."""
    division = problem.division
    objective = Objective(np.zeros(division.size))
    if problem.parameters.best_tie is Tie.SUM:
        objective = Objective(sum_of(scaled(division, share_scale(problem))))
    solution = best(division, objective, demands, problem.parameters.best_tie)
    return division.fractions(solution.columns) if solution.status is SolveStatus.OPTIMAL else None


# -- what they have in common ----------------------------------------------------------------------


def _solved(
    problem: GavelProblem, objective: Objective, demands: DemandRows | None = None, tie: Tie | None = None
) -> Floats:
    """The fractions of a program that has an optimum: to give nobody any time is always possible."""
    solution = best(problem.division, objective, demands, tie or problem.parameters.best_tie)
    return problem.division.fractions(optimal(solution).columns)


def optimal(answer: Answer) -> Answer:
    """`answer`, which is an optimum; PolicyError if the solver says that there is none."""
    if answer.status is not SolveStatus.OPTIMAL:
        raise PolicyError(f"a division of time, which has an optimum, was found to be {answer.status}")
    return answer


def scaled(division: Division, scale: Floats) -> Floats:
    """What each member of an entry gains, [entry, 2, type], times the `scale` of its job."""
    gains: Floats = division.gains * scale[division.members][:, :, None]
    return gains
