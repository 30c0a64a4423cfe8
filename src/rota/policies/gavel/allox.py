"""AlloX (Le et al., EuroSys 2020) as Gavel carries it out: jobs of one GPU matched to GPUs for the least mean
completion time.

A job that is the p-th from the end on a GPU delays p jobs, itself included, by its processing time there.
The cheapest matching of jobs and places (Hungarian method) is the best order; whoever comes first on its GPU
runs there until it is done.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from rota.model.columns import Floats
from rota.policies.gavel.problem import Problem
from rota.scheduler.stages.round_books import Shares

_NEVER = 1e-10
"""Rate that stands for a type on which a job cannot run, as in the authors' simulator."""


def allox(problem: Problem) -> Shares:
    """The types on which jobs run to their end; jobs of several GPUs get none."""
    own = problem.own
    here = {row: place for place, row in enumerate(problem.rows.tolist())}
    kind_of = {row: kind for row, kind in own.get("kinds", {}).items() if row in here}
    fractions = np.zeros_like(problem.rates)
    left = problem.capacity.copy()
    for row, kind in kind_of.items():
        left[kind] -= 1.0
        fractions[here[row], kind] = 1.0
    waiting = [job for row, job in here.items() if row not in kind_of and problem.gpus[job] == 1.0]
    for job, kind in _matched(problem, waiting, left):
        fractions[job, kind] = 1.0
        kind_of[int(problem.rows[job])] = kind
    own["kinds"] = kind_of
    return problem.by_job(fractions)


def _matched(problem: Problem, waiting: list[int], left: Floats) -> list[tuple[int, int]]:
    """The jobs that come first on a free GPU, with its type; who has waited longest is asked first."""
    workers = np.repeat(np.arange(len(left)), left.astype(np.int64))
    if not waiting or not len(workers):
        return []
    waiting = sorted(waiting, key=lambda job: -problem.age_s[job])
    times = problem.work_left[waiting, None] / np.maximum(problem.rates[waiting], _NEVER)
    places = np.arange(1, len(waiting) + 1)
    costs = (places[None, :, None] * times[:, None, workers]).reshape(len(waiting), -1)
    jobs, columns = linear_sum_assignment(costs)
    first: dict[int, tuple[int, int]] = {}
    for job, column in zip(jobs.tolist(), columns.tolist(), strict=True):
        from_end, worker = divmod(column, len(workers))
        if from_end >= first.get(worker, (-1, 0))[0]:
            first[worker] = (from_end, job)
    return [(waiting[job], int(workers[worker])) for worker, (_, job) in sorted(first.items())]
