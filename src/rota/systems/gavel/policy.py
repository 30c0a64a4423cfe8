"""The objectives of Gavel in the paper's order (section 4): the time that each job spends on each type.

Hierarchies, AlloX and pairs found by trial have files of their own.  `rota.stages.rounds` carries the
fractions out in rounds (section 5).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np

from rota.errors import PolicyError
from rota.model.columns import Bools, Floats
from rota.solvers.division import ALONE, Answer, DemandRows, Division, Objective, Tie, best, sum_of
from rota.solvers.interior import NotInsideError
from rota.solvers.lp import SolveStatus
from rota.solvers.ratio_division import least_ratio
from rota.stages.finish_time import alone_so_far_s, finish_time_ratio, rate_for
from rota.stages.round_books import Shares
from rota.stages.round_quotas import RoundQuotas
from rota.systems.gavel.packing import beside_the_first
from rota.systems.gavel.problem import GavelProblem, settled
from rota.table.occupancy import EPSILON

_ROUNDING = 1e-9
"""Relative excess over the GPUs of a type that counts as rounding."""
_MET = 1.0 - 1e-7
"""Part of a need that counts as all of it."""
_MOST_TRIES = 60


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
        if not problem.rules.falls_back:
            raise
        fractions = _solved(problem, least, demands, Tie.SUM)
    if not problem.rules.aware and problem.rules.tie is Tie.SUM and not division.has_pairs:
        fractions = spread_evenly(fractions, division.able, problem.gpus, problem.capacity)
    return problem.entries.shares(fractions)


def share_scale(problem: GavelProblem) -> Floats:
    """Factor from work per second to share: GPUs over weight and over the rate of equal time on all types."""
    return problem.mean(problem.gpus / (problem.weights * problem.equal_share))


def spread_evenly(fractions: Floats, runs_on: Bools, gpus: Floats, capacity: Floats) -> Floats:
    """The time of each job divided over the types it runs on, [job, type], in proportion to their GPUs.

    Where all types count as equally fast this is worth the same.  Where jobs that run on few types leave no
    room for it, the allocation stays as it is.
    """
    weights = runs_on * capacity
    spread: Floats = fractions.sum(axis=1, keepdims=True) * weights / weights.sum(axis=1, keepdims=True)
    return spread if (gpus @ spread <= capacity * (1.0 + _ROUNDING)).all() else fractions


def fifo(problem: GavelProblem) -> Shares:
    """In order of arrival, each job has the fastest type with room left; the first without ends it (4.2).

    A job that takes all types for equally fast draws one, and stays there as long as there are such GPUs.
    With pairs, a waiting job may run beside one that has a type.
    """
    if not problem.rules.aware:
        return problem.by_job(_drawn(problem))
    quotas = RoundQuotas.of(problem.snapshot)
    fractions = fastest(problem, range(len(problem.rows)), quotas, problem.seen > 0.0, stop=True)
    if not problem.rules.pairs:
        return problem.by_job(fractions)
    waiting = np.flatnonzero(~fractions.any(axis=1)).tolist()
    return beside_the_first(problem, fractions, quotas, waiting)


def shortest(problem: GavelProblem) -> Shares:
    """In order of the time of the work left on the fastest type; each job has the fastest type with room."""
    quotas = RoundQuotas.of(problem.snapshot)
    return problem.by_job(fastest(problem, by_work_left(problem), quotas, problem.seen > 0.0, stop=False))


def by_work_left(problem: GavelProblem) -> list[int]:
    """The jobs in order of the time that their work left takes on their fastest type."""
    left_s = problem.work_left / problem.seen.max(axis=1)
    order: list[int] = np.argsort(left_s, kind="stable").tolist()
    return order


def fastest(
    problem: GavelProblem, order: Sequence[int], quotas: RoundQuotas | None, able: Bools, *, stop: bool
) -> Floats:
    """All the time of each job, in this order, on the fastest of its `able` types [job, type] with room.

    A job without room ends the walk (`stop`) or is passed by; so is one that hard quotas keep from all types,
    since no room that others leave would help it.
    """
    left = problem.capacity.copy()
    fractions = np.zeros_like(problem.rates)
    for job in order:
        room = (left >= problem.gpus[job] - EPSILON) & able[job]
        if not room.any():
            if stop:
                break
            continue
        by_speed = np.argsort(np.where(room, -problem.seen[job], np.inf), kind="stable")
        allowed = _allowed(problem, quotas, job, by_speed[: room.sum()].tolist())
        if allowed:
            left[allowed[0]] -= problem.gpus[job]
            fractions[job, allowed[0]] = 1.0
    return fractions


def _allowed(
    problem: GavelProblem, quotas: RoundQuotas | None, job: int, kinds: Sequence[int]
) -> Sequence[int]:
    """The first of `kinds` for which the job finds room in its quotas, which is counted in."""
    if quotas is None:
        return kinds[:1]
    row, gpus = int(problem.rows[job]), float(problem.gpus[job])
    return [kind for kind in kinds if quotas.takes(row, ALONE, gpus, kind)][:1]


def _drawn(problem: GavelProblem) -> Floats:
    """Each job draws a type, where it stays, in order of arrival; the first without room ends it."""
    kind_of, left = settled(problem, problem.gpus)
    quotas = RoundQuotas.of(problem.snapshot)
    rows = problem.rows.tolist()
    for job, row in enumerate(rows):
        if row in kind_of:
            _allowed(problem, quotas, job, [kind_of[row]])
    for job, row in enumerate(rows):
        if row in kind_of:
            continue
        room = np.flatnonzero((left >= problem.gpus[job] - EPSILON) & (problem.rates[job] > 0.0)).tolist()
        if not room:
            break
        drawing = random.Random(f"{problem.snapshot.seed}:{row}")
        while room:
            kind = drawing.choice(room)
            if _allowed(problem, quotas, job, [kind]):
                kind_of[row] = kind
                left[kind] -= problem.gpus[job]
                break
            room.remove(kind)
    problem.own["kinds"] = kind_of
    return settled_fractions(problem, kind_of)


def settled_fractions(problem: GavelProblem, kind_of: dict[int, int]) -> Floats:
    """All the time of each row of `kind_of` on the type that it has there."""
    fractions = np.zeros_like(problem.rates)
    for job, row in enumerate(problem.rows.tolist()):
        if row in kind_of:
            fractions[job, kind_of[row]] = 1.0
    return fractions


def throughput(problem: GavelProblem) -> Shares:
    """Maximise the work per second of all jobs together."""
    return problem.entries.shares(_solved(problem, Objective(sum_of(problem.division.gains))))


def makespan(problem: GavelProblem) -> Shares:
    """The least H in which all work is done: thr >= work left / H (section 4.2)."""
    return done_within(problem, least_horizon_s(problem) * (1.0 + problem.rules.tolerance))


def least_horizon_s(problem: GavelProblem) -> float:
    """The least time in which all jobs can be done."""
    left = problem.by_class(problem.work_left)
    # In this time all jobs can do an equal part of their work left: the least time is this over that part.
    span_s = float((left / problem.division.counts).max())
    return span_s / _reach(problem.division, left / span_s).value


def done_within(problem: GavelProblem, horizon_s: float) -> Shares:
    """Fractions by which all jobs are done in this time, or in a longer one if rounding misses it."""
    left = problem.by_class(problem.work_left)
    return problem.entries.shares(_met(problem, horizon_s, lambda horizon: left / horizon))


def finish_time(problem: GavelProblem) -> Shares:
    """The least ρ with (age + left / thr) <= ρ × (isolated time so far + left / isolated thr) for all jobs.

    Isolated time so far adds up, from one computation to the next, the work done over the rate that the job
    would have had with an equal part of the cluster for itself (Themis' measure, NSDI 2020).
    """
    so_far_s = alone_so_far_s(problem.own, problem.rows, problem.work_done, problem.isolated_rate)
    return least_worst_finish(problem, so_far_s)


def least_worst_finish(problem: GavelProblem, so_far_s: Floats) -> Shares:
    """The least ρ, given the isolated time so far of each job."""
    isolated = problem.isolated_rate
    still_s = problem.work_left / isolated
    alone_s = so_far_s + still_s
    # Measured by work left, lost work may count more than it did when it was done.
    alone_s = np.where(alone_s > 0.0, alone_s, still_s)
    if problem.rules.tie is Tie.INTERIOR and (problem.division.counts == 1.0).all():
        inside = least_ratio(problem.division, problem.age_s / alone_s, problem.work_left / alone_s)
        if inside is not None:
            return problem.entries.shares(inside)

    def needed(rho: float) -> Floats:
        return problem.by_class(rate_for(rho, problem.age_s, problem.work_left, alone_s))

    def worst(rates: Floats) -> float:
        return float(finish_time_ratio(problem.age_s, problem.work_left / rates, alone_s).max())

    low = worst(problem.seen.max(axis=1))
    # Isolated fractions are possible: they give each job its isolated rate from now on.
    high = max(low, worst(isolated))
    least = _least(problem, low, high, needed)
    if least > low:
        least *= 1.0 + problem.rules.tolerance
    return problem.entries.shares(_met(problem, least, needed))


def cost(problem: GavelProblem) -> Shares:
    """Maximise Σ work per dollar, with deadlines kept if all of them can be (section 4.2)."""
    dollars = np.tile(problem.prices, len(problem.division.members))
    objective = Objective(sum_of(problem.division.gains) / dollars)
    demands = _deadlines(problem)
    if demands is not None:
        solution = best(problem.division, objective, demands, problem.rules.tie)
        if solution.status is SolveStatus.OPTIMAL:
            return problem.entries.shares(problem.division.fractions(solution.columns))
    return problem.entries.shares(_solved(problem, objective))


def _deadlines(problem: GavelProblem) -> DemandRows | None:
    """Work per second that the deadlines ask for; None if no job has one that is still ahead."""
    left_s = problem.deadline_in_s
    asks = np.isfinite(left_s) & (left_s > 0.0)
    if not asks.any():
        return None
    least = problem.by_class(np.where(asks, problem.work_left / np.where(asks, left_s, 1.0), 0.0))
    rows = np.flatnonzero(least > 0.0)
    return DemandRows(problem.division.gains, least[rows], jobs=rows)


def isolated(problem: GavelProblem) -> Shares:
    """Each job spends the time that it would have with an equal part of the cluster for itself."""
    return problem.by_job(problem.isolated)


def proportional(problem: GavelProblem) -> Shares:
    """Each job spends as much time on each type as there are GPUs of it per job, whatever the job asks for.

    Shockwave's comparison has this in place of Gandiva_fair, without tickets.
    """
    part = problem.capacity / len(problem.rows)
    part = part / max(1.0, float(part.sum()))
    return problem.by_job(np.tile(part, (len(problem.rows), 1)))


# -- bisection -------------------------------------------------------------------------------------

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
    """The largest part of their needs that all jobs can obtain, and what prices say about it."""
    demands = DemandRows(division.gains, np.zeros(len(needs)), needs)
    answer = best(division, Objective(np.zeros(division.size), 1.0), demands, Tie.INTERIOR)
    return optimal(answer)


def _met(problem: GavelProblem, value: float, needed: Needed) -> Floats:
    """The fractions that meet the needs of `value`; of a larger one if rounding misses them."""
    while (fractions := _kept(problem, DemandRows(problem.division.gains, needed(value)))) is None:
        value *= 1.0 + problem.rules.tolerance
    return fractions


def _kept(problem: GavelProblem, demands: DemandRows) -> Floats | None:
    """Fractions that meet the demands; None if there are none."""
    division = problem.division
    objective = Objective(np.zeros(division.size))
    if problem.rules.tie is Tie.SUM:
        objective = Objective(sum_of(scaled(division, share_scale(problem))))
    solution = best(division, objective, demands, problem.rules.tie)
    return division.fractions(solution.columns) if solution.status is SolveStatus.OPTIMAL else None


# -- the linear programs ----------------------------------------------------------------------------


def _solved(
    problem: GavelProblem, objective: Objective, demands: DemandRows | None = None, tie: Tie | None = None
) -> Floats:
    """The fractions of a program that has an optimum: giving no job any time is always possible."""
    solution = best(problem.division, objective, demands, tie or problem.rules.tie)
    return problem.division.fractions(optimal(solution).columns)


def optimal(answer: Answer) -> Answer:
    """`answer`, which is an optimum; PolicyError if the solver says that there is none."""
    if answer.status is not SolveStatus.OPTIMAL:
        raise PolicyError(f"a division of time, which has an optimum, was found to be {answer.status}")
    return answer


def scaled(division: Division, scale: Floats) -> Floats:
    """Gain of each member of an entry, [entry, 2, type], times the `scale` of its job."""
    gains: Floats = division.gains * scale[division.members][:, :, None]
    return gains
