"""A plan for the rounds to come: fair finishes kept if that can be, those furthest behind first if not."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rota.model.columns import Bools, Floats, Ints
from rota.solvers.window import PlanningWindow, log_utility, solve_window
from rota.solvers.window_rounds import RoundLayout, lay_out
from rota.stages.finish_time import finish_time_ratio
from rota.systems.shockwave.outlook import Outlook
from rota.systems.shockwave.parameters import ShockwaveParameters

HEAVIEST = 1e12
"""No utility counts more than this many times another: beyond, sums would lose the others' digits."""
ALMOST_DONE = 100.0
"""Exponent of a late job that needs less than a round (the authors' code)."""
UNIT = 0.001
"""Unit in which shares of a GPU are counted."""


class WindowPlan(NamedTuple):
    """The jobs that run in each of the rounds to come."""

    runs: Bools
    """[job, round]"""
    keeps_fair: bool
    """True if all fair finishes can be kept."""
    is_cut: bool
    """True if the search for it ended at its limit."""
    missing: float
    """Most by which a better plan could exceed this one, as a part of what this one is worth over none."""


class WindowQuestion(NamedTuple):
    """The input of a plan; columns run over jobs."""

    ahead: Outlook
    target_s: Floats
    """Moments by which jobs should end."""
    submit_s: Floats
    gpus: Floats
    """GPUs of each, shares counted as parts."""
    capacity: float
    """GPUs in all."""
    share: float
    """Part of its run time that a job would get if all were treated alike."""
    clock_s: float
    """The moment at which the plan begins."""


def make_plan(question: WindowQuestion, parameters: ShockwaveParameters) -> WindowPlan:
    """The plan: with all finishes fair, or else weighted by how unfair they are about to be."""
    ones = np.ones(len(question.gpus))
    window = window_of(question, parameters, ones, fair_rounds(question, parameters))
    counts = solve_window(window, parameters.nodes)
    if counts is not None:
        layout = lay_out(window, counts.rounds)
        if (layout.counts >= window.least).all():
            return _plan(window, layout, counts.bound, counts.is_cut, keeps_fair=True)
    none = np.zeros(len(question.gpus), dtype=np.int64)
    window = window_of(question, parameters, weights(question, parameters), none)
    counts = solve_window(window, parameters.nodes)
    assert counts is not None  # no job demands anything
    layout = lay_out(window, counts.rounds)
    return _plan(window, layout, counts.bound, counts.is_cut, keeps_fair=False)


def _plan(
    window: PlanningWindow, layout: RoundLayout, bound: float, is_cut: bool, *, keeps_fair: bool
) -> WindowPlan:
    value, nothing = window.value(layout.counts), window.value(np.zeros_like(layout.counts))
    gap = (bound - value) / (bound - nothing) if bound > nothing else 0.0
    return WindowPlan(layout.runs, keeps_fair, is_cut, max(gap, 0.0))


def window_of(
    question: WindowQuestion, parameters: ShockwaveParameters, weight: Floats, least: Ints
) -> PlanningWindow:
    """The program of the window (section 6); utility is the logarithm of all progress so far, not of the
    window's."""
    ahead = question.ahead
    time_s = _times_s(parameters)
    progress = np.minimum(ahead.progress[:, None] + time_s / ahead.whole_s[:, None], 1.0)
    units, capacity = _units(question.gpus, question.capacity)
    left_s = _left_s(ahead, time_s)
    return PlanningWindow(
        units, capacity, log_utility(progress), left_s, weight, least, parameters.makespan_weight
    )


def fair_rounds(question: WindowQuestion, parameters: ShockwaveParameters) -> Ints:
    """Rounds that each job needs to keep its fair finish, more than the window has if that cannot be.

    What is left after the window is taken to be worked off at the even share.
    """
    time_s = _times_s(parameters)
    end_s = question.clock_s + parameters.round_s * parameters.window_rounds
    late = end_s + _left_s(question.ahead, time_s) / question.share
    rounds: Ints = (late > parameters.rho_max * question.target_s[:, None]).sum(axis=1)
    return rounds


def weights(question: WindowQuestion, parameters: ShockwaveParameters) -> Floats:
    """What each utility counts: 1, or a power of the projected finish over the fair one if that is too late.

    Both are times since submission.  As in the authors' code, the ratio of a job that needs less than a round
    is raised to the hundredth power.
    """
    ahead, since_s = question.ahead, 0.0 if parameters.by_moments else question.submit_s
    left_s = ahead.left_s / question.share
    rho = finish_time_ratio(question.clock_s - since_s, left_s, question.target_s - since_s)
    exponent = np.where(ahead.left_s < parameters.round_s, ALMOST_DONE, parameters.fairness_exponent)
    power = np.where(rho > parameters.rho_max, exponent * np.log(np.maximum(rho, 1e-300)), 0.0)
    weight: Floats = np.exp(np.minimum(power, np.log(HEAVIEST)))
    return weight


def _times_s(parameters: ShockwaveParameters) -> Floats:
    """Seconds in 0, 1, ... rounds of the window."""
    return parameters.round_s * np.arange(parameters.window_rounds + 1, dtype=np.float64)


def _left_s(ahead: Outlook, time_s: Floats) -> Floats:
    """Run time left after a time in the window, [job, rounds + 1]: no more is done than there is."""
    most_s = (1.0 - ahead.progress) * ahead.whole_s
    done_s = np.minimum(time_s, most_s[:, None])
    left: Floats = np.maximum(ahead.left_s[:, None] - done_s, 0.0)
    return left


def _units(gpus: Floats, capacity: float) -> tuple[Ints, int]:
    """GPUs in the largest common unit, as whole numbers."""
    parts = np.maximum(np.ceil(gpus / UNIT - 1e-6), 1.0).astype(np.int64)
    step = int(np.gcd.reduce(parts)) if len(parts) else 1
    return parts // step, int(capacity / UNIT + 1e-6) // step
