"""AlloX (Le et al., EuroSys 2020) as Gavel carries it out: jobs of one GPU matched to GPUs for the least mean
completion time.

A job that is the p-th from the end on a GPU delays p jobs, itself included, by its processing time there.
The cheapest matching of jobs and places (Hungarian method) is the best order; the job that comes first on a
GPU runs there until it is done.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from rota.model.columns import Bools, Floats, Ints
from rota.stages.round_books import Shares
from rota.systems.gavel.problem import GavelProblem, settled

_NEVER = 1e-10
"""Rate that stands for a type on which a job cannot run, as in the authors' simulator."""


def allox(problem: GavelProblem) -> Shares:
    """The types on which jobs run to their end; jobs of several GPUs get none."""
    return matched_to_end(problem, problem.gpus == 1.0)


def matched_to_end(problem: GavelProblem, able: Bools) -> Shares:
    """One GPU's worth of time, to its end, for each job that is matched; only the `able` ones [job] are.

    A job of one GPU is matched once, one of several again and again.
    """
    own, gpus = problem.own, problem.gpus
    here = {row: place for place, row in enumerate(problem.rows.tolist())}
    kind_of, left = settled(problem, np.where(gpus == 1.0, 1.0, 0.0))
    begun = {row for row in kind_of if gpus[here[row]] == 1.0}
    waiting = [job for row, job in here.items() if row not in begun and able[job]]
    for job, kind in _matched(problem, waiting, left):
        kind_of[int(problem.rows[job])] = kind
    own["kinds"] = kind_of
    fractions = np.zeros_like(problem.rates)
    for row, kind in kind_of.items():
        fractions[here[row], kind] = 1.0 / gpus[here[row]]
    return problem.by_job(fractions)


def _matched(problem: GavelProblem, waiting: list[int], left: Floats) -> list[tuple[int, int]]:
    """The jobs that come first on a free GPU, with its type; the longest-waiting job comes first."""
    waiting = sorted(waiting, key=lambda job: -problem.age_s[job])
    waiting = waiting[: max(int(problem.rules.alpha * len(waiting)), int(left.astype(np.int64).sum()))]
    kinds, from_ends, workers = _places(left, len(waiting))
    if not len(kinds):
        return []
    times = problem.work_left[waiting, None] / np.maximum(problem.rates[waiting], _NEVER)
    jobs, columns = linear_sum_assignment(times[:, kinds] * from_ends)
    first: dict[int, tuple[int, int]] = {}
    for job, column in zip(jobs.tolist(), columns.tolist(), strict=True):
        worker, from_end = workers.item(column), from_ends.item(column)
        if from_end >= first.get(worker, (-1, 0))[0]:
            first[worker] = (from_end, job)
    kind_of = dict(zip(workers.tolist(), kinds.tolist(), strict=True))
    return [(waiting[job], kind_of[worker]) for worker, (_, job) in sorted(first.items())]


def _places(left: Floats, jobs: int) -> tuple[Ints, Ints, Ints]:
    """Type, place from the end and number of the GPU of each place that a job may have.

    On a type no place is used further from the end than all jobs spread over it need,
    and no more GPUs than there are jobs.
    """
    free = left.astype(np.int64)
    of_workers = np.repeat(np.arange(len(left)), free)
    within = np.arange(len(of_workers)) - np.repeat(np.cumsum(free) - free, free)
    workers = np.flatnonzero(within < jobs)
    kinds = of_workers[workers]
    deepest = -(-jobs // np.maximum(free, 1))
    places = [(place, deepest[kinds] >= place) for place in range(1, int(deepest.max(initial=0)) + 1)]
    return (
        np.concatenate([kinds[used] for _, used in places] or [kinds[:0]]),
        np.concatenate([np.full(used.sum(), place) for place, used in places] or [kinds[:0]]),
        np.concatenate([workers[used] for _, used in places] or [workers[:0]]),
    )
