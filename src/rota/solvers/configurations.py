"""At most one configuration for each job, so that the sum of their costs is least within some capacities.

The integer program of Sia (SOSP 2023, section 3.4) for HiGHS: a binary for each job and configuration, a row
for each job, one for each capacity and one for each further limit that some configurations share.  It is
solved in four steps; each gives an answer if the next is not wanted:

1. Its linear relaxation.  A basic solution has at most one fractional job for each capacity.
2. Rounding: fractional jobs take their best configuration that still fits, then the jobs that gain most from
   the rest take more.  What is missing is at most the cost of one job for each capacity, however many jobs.
3. Fixing: a configuration whose reduced cost exceeds the difference between the two is in no better answer.
4. Branch and bound over the few configurations that are left, with a limit of nodes.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import highspy
import numpy as np

from rota.errors import PolicyError
from rota.model.columns import Bools, Floats, Ints

NOTHING = -1
"""In place of an option: the job has none."""

_EPSILON = 1e-9
_MOST_MENDS = 10_000
_FIXED: dict[str, Any] = {"output_flag": False, "threads": 1, "random_seed": 0, "parallel": "off"}


class ConfigurationOptions(NamedTuple):
    """Configurations, one a place; jobs and capacities are numbered from 0."""

    job: Ints
    """Whose it is, ascending."""
    kind: Ints
    """Which capacity it draws upon, ..."""
    units: Floats
    """... and how much of it."""
    cost: Floats
    """What it costs, where nothing costs 0."""
    counts_in: Bools | None = None
    """Further limits in which its units count, [option, limit]; None if there are none."""


class SearchLimits(NamedTuple):
    """How far the search goes."""

    gap: float = 0.0
    """The search ends at an answer that is known to cost at most this much more than the best."""
    max_nodes: int = 1_000
    """Nodes of the search tree."""
    max_columns: int = 20_000
    """Branch and bound is tried if fixing leaves no more configurations than this."""
    wall_s: float = math.inf
    """Seconds for the branch and bound: a safety net, and nothing that another run would repeat."""


class Assignment(NamedTuple):
    """Which option each job has."""

    option: Ints
    """By job, a place in the options or `NOTHING`."""
    cost: float
    """Sum of the costs."""
    bound: float
    """No assignment costs less."""
    is_cut: bool
    """True if the search ended at a limit, so that the cost may be more than the gap above the bound."""


def assign(
    options: ConfigurationOptions, jobs: int, capacities: Floats, limits: SearchLimits | None = None
) -> Assignment:
    """The cheapest assignment for a number of `jobs`, as far as the limits let the search go.

    `capacities` are those of the kinds, followed by what the further limits of `options` allow.  Among equal
    costs the answer is the one that the search meets first; let costs break ties.
    """
    limits = limits or SearchLimits()
    most = np.where(_draws(options, capacities), capacities, math.inf).min(axis=1, initial=math.inf)
    useful = np.flatnonzero((options.cost < 0.0) & (options.units <= most + _EPSILON))
    if not len(useful):
        return Assignment(np.full(jobs, NOTHING), 0.0, 0.0, False)
    few = _take(options, useful)
    part, reduced, bound = _relaxation(few, jobs, capacities)
    chosen = _rounded(few, jobs, capacities, part)
    cost, is_cut = _cost(few, chosen), False
    if cost - bound > limits.gap + _EPSILON:
        kept = np.flatnonzero(reduced <= cost - bound + _EPSILON)
        if len(kept) > limits.max_columns:
            is_cut = True
        else:
            chosen_options, bound, is_cut = _branch_and_bound(
                _take(few, kept), jobs, capacities, limits, cost, bound
            )
            better = np.where(chosen_options >= 0, kept[chosen_options], NOTHING)
            if _cost(few, better) < cost:
                chosen, cost = better, _cost(few, better)
    return Assignment(np.where(chosen >= 0, useful[chosen], NOTHING), cost, min(bound, cost), is_cut)


def _take(options: ConfigurationOptions, places: Ints) -> ConfigurationOptions:
    job, kind, units, cost, counts_in = options
    counts_in = None if counts_in is None else counts_in[places]
    return ConfigurationOptions(job[places], kind[places], units[places], cost[places], counts_in)


def _draws(options: ConfigurationOptions, capacities: Floats) -> Bools:
    """Which capacities, and which further limits behind them, each option draws upon."""
    counts_in = options.counts_in
    if counts_in is None:
        counts_in = np.zeros((len(options.kind), 0), dtype=bool)
    kinds: Bools = options.kind[:, None] == np.arange(len(capacities) - counts_in.shape[1])
    return np.hstack((kinds, counts_in))


def _cost(options: ConfigurationOptions, chosen: Ints) -> float:
    return float(options.cost[chosen[chosen >= 0]].sum())


# -- the program -----------------------------------------------------------------------------------


def _program(options: ConfigurationOptions, jobs: int, capacities: Floats, *, whole: bool) -> Any:
    """The program in HiGHS, its columns in the order of the options."""
    columns = len(options.job)
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = columns, jobs + len(capacities)
    program.col_cost_ = options.cost
    program.col_lower_, program.col_upper_ = np.zeros(columns), np.ones(columns)
    program.row_lower_ = np.full(program.num_row_, -highspy.kHighsInf)
    program.row_upper_ = np.concatenate((np.ones(jobs), capacities))
    matrix = program.a_matrix_
    matrix.format_ = highspy.MatrixFormat.kColwise
    draws = _draws(options, capacities)
    column, drawn = np.nonzero(draws)
    at = np.concatenate(([0], np.cumsum(1 + draws.sum(axis=1))))
    index, value = np.zeros(at[-1], dtype=np.int64), np.ones(at[-1])
    index[at[:-1]] = options.job
    among = np.delete(np.arange(at[-1]), at[:-1])
    index[among], value[among] = jobs + drawn, options.units[column]
    matrix.start_, matrix.index_, matrix.value_ = at, index, value
    if whole:
        program.integrality_ = [highspy.HighsVarType.kInteger] * columns
    highs = highspy.Highs()  # type: ignore[no-untyped-call]
    for name, value in _FIXED.items():
        highs.setOptionValue(name, value)
    highs.passModel(program)
    return highs


def _relaxation(options: ConfigurationOptions, jobs: int, capacities: Floats) -> tuple[Floats, Floats, float]:
    """Which part of each option the linear relaxation takes, reduced costs, and its value."""
    highs = _program(options, jobs, capacities, whole=False)
    highs.setOptionValue("solver", "simplex")
    highs.run()
    if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        raise PolicyError(
            f"a program of {jobs} jobs and {len(options.job)} configurations could not be solved: "
            f"HiGHS ended with {highs.modelStatusToString(highs.getModelStatus())!r}"
        )
    solution = highs.getSolution()
    value = float(highs.getInfo().objective_function_value)
    return np.array(solution.col_value), np.array(solution.col_dual), value


def _branch_and_bound(
    options: ConfigurationOptions,
    jobs: int,
    capacities: Floats,
    limits: SearchLimits,
    worst: float,
    bound: float,
) -> tuple[Ints, float, bool]:
    """The best that is found, with a bound, and whether it ended at a limit."""
    highs = _program(options, jobs, capacities, whole=True)
    highs.setOptionValue("mip_rel_gap", 0.0)
    highs.setOptionValue("mip_abs_gap", max(limits.gap, _EPSILON))
    highs.setOptionValue("mip_max_nodes", limits.max_nodes)
    highs.setOptionValue("objective_bound", worst + 1.0)
    if limits.wall_s < math.inf:
        highs.setOptionValue("time_limit", limits.wall_s)
    highs.run()
    is_cut = highs.getModelStatus() != highspy.HighsModelStatus.kOptimal
    values = np.array(highs.getSolution().col_value)
    chosen = np.full(jobs, NOTHING)
    if len(values) == len(options.job):
        taken = np.flatnonzero(values > 0.5)
        chosen[options.job[taken]] = taken
        if not _fits(options, chosen, capacities):
            return np.full(jobs, NOTHING), bound, True
    return chosen, max(bound, float(highs.getInfo().mip_dual_bound)), is_cut


def _fits(options: ConfigurationOptions, chosen: Ints, capacities: Floats) -> bool:
    taken = chosen[chosen >= 0]
    return bool((_used(options, taken, capacities) <= capacities + 1e-6).all())


def _used(options: ConfigurationOptions, taken: Ints, capacities: Floats) -> Floats:
    """What these options draw upon each capacity together."""
    used: Floats = options.units[taken] @ _draws(_take(options, taken), capacities)
    return used


# -- rounding --------------------------------------------------------------------------------------


def _rounded(options: ConfigurationOptions, jobs: int, capacities: Floats, part: Floats) -> Ints:
    """What the relaxation takes as a whole, and the best that fits of the rest."""
    chosen = np.full(jobs, NOTHING)
    taken = np.flatnonzero(part > 1.0 - 1e-6)
    chosen[options.job[taken]] = taken
    left, draws = capacities - _used(options, taken, capacities), _draws(options, capacities)
    for _ in range(_MOST_MENDS):
        place = _best_gain(options, chosen, left, draws)
        if place < 0:
            break
        job = options.job.item(place)
        old = chosen.item(job)
        if old >= 0:
            left[draws[old]] += options.units[old]
        left[draws[place]] -= options.units[place]
        chosen[job] = place
    return chosen


def _best_gain(options: ConfigurationOptions, chosen: Ints, left: Floats, draws: Bools) -> int:
    """The option that costs least instead of what its job has, of those that fit; -1 if none costs less."""
    held = chosen[options.job]
    has = held >= 0
    now = np.where(has, options.cost[held], 0.0)
    gain = now - options.cost
    gives = np.where(has[:, None] & draws[held], options.units[held][:, None], 0.0)
    fits = ~draws | (options.units[:, None] <= left + gives + _EPSILON)
    gain = np.where(fits.all(axis=1), gain, 0.0)
    best = int(gain.argmax())
    return best if gain[best] > _EPSILON else -1
