"""Levels of water filling: the same division again and again, with demands that rise.

    maximise t   subject to   gains[job] >= least[job] + slope[job] × t   and the constraints of the division

From level to level only `least` and `slope` change.  Building a program of a dozen jobs takes as long as
solving it, so it is built once, and those two columns are overwritten as long as the groups of equal jobs
stay the same.  Answers equal `division.best` with `Tie.INTERIOR` to the bit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rota.model.columns import Floats, Ints
from rota.solvers.division import (
    Answer,
    DemandRows,
    Division,
    Objective,
    Tie,
    answer_of,
    best,
    features_of,
    kinds_of,
    of_all,
    program_alone,
)
from rota.solvers.inner_walk import Laid, can_walk, whole
from rota.solvers.interior import solution_at
from rota.solvers.interior_system import InnerProgram
from rota.solvers.lp import SolveStatus


class _Written(NamedTuple):
    """A program laid out for C, and the jobs it is about."""

    leaders: list[int]
    """For each job, the first job equal to it."""
    kinds: Ints
    first: Ints
    program: InnerProgram
    laid: Laid


class WaterLevels:
    """The levels of one division; `gains` are what counts of it, [entry, 2, type]."""

    def __init__(self, division: Division, gains: Floats) -> None:
        self._division, self._gains = division, gains
        self._objective = Objective(np.zeros(division.size), 1.0)
        self._written: _Written | None = None
        self._like: list[int] | None = None
        """The kind of each job by all that does not change; None where programs are not kept."""
        if not division.has_pairs:
            stay = DemandRows(gains, np.zeros(len(division.counts)))
            self._like = kinds_of(features_of(division, self._objective, stay))[0].tolist()

    def best(self, least: Floats, slope: Floats) -> Answer:
        """Where the interior-point method ends; PolicyError if that is nowhere near an optimum."""
        written = self._like and self._for(self._like, least, slope)
        if not written:
            demands = DemandRows(self._gains, least, slope)
            return best(self._division, self._objective, demands, Tie.INTERIOR)
        first, laid, types = written.first, written.laid, len(self._division.capacity)
        np.negative(least[first], out=laid.limits[-len(first) :])
        laid.free[-len(first) :] = slope[first]
        answer = answer_of(solution_at(written.program, laid.walked()), types + len(first))
        if len(first) == len(least) or answer.status is not SolveStatus.OPTIMAL:
            return answer
        return of_all(answer, written.kinds, (len(first), types))

    def _for(self, like: list[int], least: Floats, slope: Floats) -> _Written | None:
        """The built program for jobs grouped by all three; None if that is too large for C."""
        seen: dict[tuple[int, float, float], int] = {}
        keys = zip(like, least.tolist(), slope.tolist(), strict=True)
        leaders = [seen.setdefault(key, job) for job, key in enumerate(keys)]
        if self._written is None or self._written.leaders != leaders:
            self._written = self._write(leaders, list(seen.values()))
        return self._written

    def _write(self, leaders: list[int], first: list[int]) -> _Written | None:
        rank = {job: kind for kind, job in enumerate(first)}
        kinds, at = np.array([rank[job] for job in leaders]), np.array(first)
        nothing = np.zeros(len(first))
        demands = DemandRows(self._gains[at], nothing, nothing)
        program = program_alone(self._division, self._objective, demands, kinds, at)
        if not can_walk(program.rows):
            return None
        return _Written(leaders, kinds, at, program, Laid(whole(program)))
