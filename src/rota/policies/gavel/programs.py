"""The objectives that are linear programs, or a few of them one after the other (sections 4.1 to 4.3)."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from rota.errors import PolicyError
from rota.model.columns import Bools, Floats
from rota.policies.gavel.problem import Problem
from rota.scheduler.stages.round_books import Shares
from rota.solvers.division import Demands, Objective, Tie, best
from rota.solvers.lp import Solution, SolveStatus


def max_min(problem: Problem) -> Shares:
    """Maximise the least share (LAS, section 4.1)."""
    division = problem.division
    demands = Demands(_scaled(problem, share_scale(problem)), np.zeros(_jobs(problem)), division.counts)
    fractions = _solved(problem, Objective(np.zeros(division.size), 1.0), demands)
    if not problem.parameters.aware and problem.parameters.best_tie is Tie.SUM and not division.has_pairs:
        fractions = spread_evenly(fractions, division.able, problem.gpus, problem.capacity)
    return problem.entries.shares(fractions)


def share_scale(problem: Problem) -> Floats:
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


def throughput(problem: Problem) -> Shares:
    """Maximise the work per second of all jobs together."""
    return problem.entries.shares(_solved(problem, Objective(_sum(problem.division.gains()))))


def cost(problem: Problem) -> Shares:
    """Maximise Σ work per dollar, with deadlines kept if all of them can be (section 4.2)."""
    dollars = np.tile(problem.prices, len(problem.division.members))
    objective = Objective(_sum(problem.division.gains()) / dollars)
    demands = _deadlines(problem)
    if demands is not None:
        solution = best(problem.division, objective, demands, problem.parameters.best_tie)
        if solution.status is SolveStatus.OPTIMAL:
            return problem.entries.shares(problem.division.fractions(solution.columns))
    return problem.entries.shares(_solved(problem, objective))


def _deadlines(problem: Problem) -> Demands | None:
    """Work per second that the deadlines ask for; None if nobody has one that is still ahead."""
    left_s = problem.deadline_in_s
    asks = np.isfinite(left_s) & (left_s > 0.0)
    if not asks.any():
        return None
    least = problem.by_class(np.where(asks, problem.work_left / np.where(asks, left_s, 1.0), 0.0))
    rows = np.flatnonzero(least > 0.0)
    return Demands(problem.division.gains()[rows], least[rows])


# -- bisection -------------------------------------------------------------------------------------

_ARTIFACT_RANGE = 100.0, 1e6
_ARTIFACT_TOLERANCE = 0.05


def makespan(problem: Problem) -> Shares:
    """The least H in which everybody's work is done: thr >= work left / H (section 4.2)."""
    gains, left = problem.division.gains(), problem.by_class(problem.work_left)
    if problem.is_artifact:
        return problem.entries.shares(_authors_makespan(problem, gains, left))
    # Nobody is faster than on its fastest type all the time, nor all together than on all GPUs.
    alone_s = problem.work_left / problem.seen.max(axis=1)
    low = float(alone_s.max())
    high = float((alone_s * problem.gpus).sum() / problem.capacity[problem.capacity > 0].min() + low)
    return problem.entries.shares(_bisected(problem, low, high, lambda horizon: left / horizon))


def _authors_makespan(problem: Problem, gains: Any, left: Floats) -> Floats:
    """Halving of a fixed range to 5 %; the answer of the last horizon that could be kept."""
    low, high = _ARTIFACT_RANGE
    last: Floats | None = None
    while last is None:
        top = high
        while high > (1.0 + _ARTIFACT_TOLERANCE) * low:
            middle = (low + high) / 2.0
            fractions = _kept(problem, Demands(gains, left / middle))
            if fractions is None:
                low = middle
            else:
                high, last = middle, fractions
        low, high = top, 10.0 * top
    return last


def finish_time(problem: Problem) -> Shares:
    """The least ρ with (age + left / thr) <= ρ × (isolated time so far + left / isolated thr) for everybody.

    Isolated time so far adds up, from one computation to the next, the work done over the rate that the job
    would have had with an equal part of the cluster for itself (Themis' measure, NSDI 2020).
    """
    isolated = (problem.seen * problem.isolated).sum(axis=1)
    alone_s = _isolated_s(problem, isolated) + problem.work_left / isolated

    def needed(rho: float) -> Floats:
        return problem.by_class(problem.work_left / np.maximum(rho * alone_s - problem.age_s, 1e-9))

    fastest = problem.work_left / problem.seen.max(axis=1)
    low = float(((problem.age_s + fastest) / alone_s).max())
    # Isolated fractions are possible: they give everybody its isolated rate from now on.
    high = max(low, float(((problem.age_s + problem.work_left / isolated) / alone_s).max()))
    return problem.entries.shares(_bisected(problem, low, high, needed))


def _isolated_s(problem: Problem, isolated: Floats) -> Floats:
    """Seconds that the work done so far would have taken in isolation; notes what the next call needs."""
    done = problem.work_done
    noted = problem.own.get("isolated")
    so_far = np.zeros(len(problem.rows))
    if noted is not None:
        place = np.minimum(np.searchsorted(noted["rows"], problem.rows), len(noted["rows"]) - 1)
        known = noted["rows"][place] == problem.rows
        place = place[known]
        so_far[known] = noted["so_far_s"][place] + (done[known] - noted["done"][place]) / noted["rate"][place]
    problem.own["isolated"] = {"rows": problem.rows, "so_far_s": so_far, "done": done, "rate": isolated}
    return so_far


def _bisected(problem: Problem, low: float, high: float, needed: Any) -> Floats:
    """The fractions at the least value in [low, high], within the tolerance, whose needs can be met.

    `needed(value)` is the work per second of each job of the division; `high` can be met.
    """
    gains = problem.division.gains()
    answer = _kept(problem, Demands(gains, needed(low)))
    if answer is not None:
        return answer
    while (answer := _kept(problem, Demands(gains, needed(high)))) is None:
        low, high = high, 2.0 * high  # what could be met but for rounding
    while high > low * (1.0 + problem.parameters.tolerance):
        middle = (low + high) / 2.0
        fractions = _kept(problem, Demands(gains, needed(middle)))
        if fractions is None:
            low = middle
        else:
            high, answer = middle, fractions
    return answer


def _kept(problem: Problem, demands: Demands) -> Floats | None:
    """Fractions that meet the demands; None if there are none."""
    division = problem.division
    objective = Objective(np.zeros(division.size))
    if problem.parameters.best_tie is Tie.SUM:
        objective = Objective(_sum(_scaled(problem, share_scale(problem))))
    solution = best(division, objective, demands, problem.parameters.best_tie)
    return division.fractions(solution.columns) if solution.status is SolveStatus.OPTIMAL else None


# -- what they have in common ----------------------------------------------------------------------


def _solved(problem: Problem, objective: Objective, demands: Demands | None = None) -> Floats:
    """The fractions of a program that has an optimum: to give nobody any time is always possible."""
    solution = best(problem.division, objective, demands, problem.parameters.best_tie)
    return problem.division.fractions(optimal(solution).columns)


def optimal(solution: Solution) -> Solution:
    """`solution`, which has an optimum; PolicyError if the solver says that it has none."""
    if solution.status is not SolveStatus.OPTIMAL:
        raise PolicyError(f"a division of time, which has an optimum, was found to be {solution.status}")
    return solution


def _jobs(problem: Problem) -> int:
    return len(problem.division.counts)


def _scaled(problem: Problem, scale: Floats) -> Any:
    """What each job gains, sparse [job, fraction], times `scale`."""
    return sparse.diags(scale) @ problem.division.gains()


def _sum(gains: Any) -> Floats:
    total: Floats = np.asarray(gains.sum(axis=0)).ravel()
    return total
