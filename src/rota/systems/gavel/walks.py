"""The objectives that are found by walking along the jobs: fifo, shortest; and those that split equally.

Whom a hard quota keeps from all types is passed by: none of the room that others leave would help it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from rota.model.columns import Floats
from rota.solvers.division import ALONE
from rota.stages.round_books import Shares
from rota.stages.round_quotas import RoundQuotas
from rota.systems.gavel.packing import beside_the_first, generator_of
from rota.systems.gavel.problem import GavelProblem
from rota.systems.gavel.settled import settled
from rota.table.occupancy import EPSILON


def isolated(problem: GavelProblem) -> Shares:
    """Everybody spends the time that it would have with an equal part of the cluster for itself."""
    return problem.by_job(problem.isolated)


def proportional(problem: GavelProblem) -> Shares:
    """Everybody spends as much time on each type as there are GPUs of it for each job, whatever it asks for.

    What stands in for Gandiva_fair in Shockwave's comparison, where no tickets are kept.
    """
    part = problem.capacity / len(problem.rows)
    part = part / max(1.0, float(part.sum()))
    return problem.by_job(np.tile(part, (len(problem.rows), 1)))


def fifo(problem: GavelProblem) -> Shares:
    """By arrival, everybody the fastest type that still has room; the first without room ends it.

    Who takes all types for equally fast draws one, and stays there as long as there are such GPUs.  With
    pairs, who waits may run beside who has a type.
    """
    if not problem.parameters.aware:
        drawn = _drawn_by_the_authors if problem.is_artifact else _drawn
        return problem.by_job(drawn(problem))
    quotas = RoundQuotas.of(problem.snapshot)
    fractions = _fastest(problem, range(len(problem.rows)), quotas, stop=True)
    if problem.parameters.pairs:
        return beside_the_first(problem, fractions, quotas)
    return problem.by_job(fractions)


def shortest(problem: GavelProblem) -> Shares:
    """By the time that the work left takes on the fastest type, everybody the fastest that still has room."""
    left_s = problem.work_left / problem.seen.max(axis=1)
    order = np.argsort(left_s, kind="stable").tolist()
    return problem.by_job(_fastest(problem, order, RoundQuotas.of(problem.snapshot), stop=False))


def _fastest(
    problem: GavelProblem, order: Sequence[int], quotas: RoundQuotas | None, *, stop: bool
) -> Floats:
    left = problem.capacity.copy()
    fractions = np.zeros_like(problem.rates)
    for job in order:
        room = left >= problem.gpus[job] - EPSILON
        if not problem.is_artifact:  # where a job may be given a type on which it does not run
            room &= problem.seen[job] > 0.0
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
    """A type drawn by each job, where it stays, in order of arrival; the first who finds no room ends it."""
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
    return _only(problem, kind_of)


def _only(problem: GavelProblem, kind_of: dict[int, int]) -> Floats:
    """All the time of each row of `kind_of` on the type that it has there."""
    fractions = np.zeros_like(problem.rates)
    for job, row in enumerate(problem.rows.tolist()):
        if row in kind_of:
            fractions[job, kind_of[row]] = 1.0
    return fractions


def _drawn_by_the_authors(problem: GavelProblem) -> Floats:
    """The same as their code does it.

    Who has ended leaves its type to the first who waits, if that has as much room at this point of their
    count.  The others all get the last type by name that any GPU was free of;
    what is drawn is only which type leaves the list when that one is full, so that it may stay, and be given
    to more jobs than it has GPUs for.
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
    with generator_of(problem) as drawing:
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
    return _only(problem, kind_of)
