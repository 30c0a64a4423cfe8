"""Gandiva as Gavel's authors simulate it: everybody the same time, and pairs that are found by trial.

If GPUs do not suffice for all, jobs of the same size are paired at random; a pair whose members together keep
less than one job's rate alone is parted again.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from rota.model.columns import Floats
from rota.policies.gavel.problem import Problem
from rota.scheduler.stages.rounds import ALONE


def packing(problem: Problem) -> Floats:
    """Equal time for the entries in use, as far as there is room for it."""
    division = problem.division
    alone = division.members[:, 1] == ALONE
    used = alone.copy()
    if problem.gpus.sum() > problem.capacity.sum():
        used = _paired(problem, alone)
    share = problem.capacity / (used.sum() * division.gpus[:, None])
    share = share / np.maximum(1.0, share.sum(axis=1, keepdims=True))
    return np.where(used[:, None] & division.able, share, 0.0)


def _paired(problem: Problem, alone: Any) -> Any:
    """Which entries are in use when there are more jobs than GPUs for them."""
    division, rows = problem.division, problem.rows
    place = {
        (int(rows[a]), int(rows[b])): entry
        for entry, (a, b) in enumerate(division.members.tolist())
        if b != ALONE
    }
    kept = {tuple(pair) for pair in problem.own.get("pairs", []) if tuple(pair) in place}
    taken = {row for pair in kept for row in pair}
    free = [int(row) for row in rows if int(row) not in taken]
    dice = random.Random(f"{problem.snapshot.seed}:{problem.own.get('turn', 0)}")
    dice.shuffle(free)
    while len(free) > 1:
        one = free.pop()
        mate = next((row for row in free if (min(one, row), max(one, row)) in place), None)
        if mate is not None:
            free.remove(mate)
            kept.add((min(one, mate), max(one, mate)))
    problem.own["pairs"] = sorted(list(pair) for pair in kept)
    problem.own["turn"] = problem.own.get("turn", 0) + 1
    used = alone.copy()
    for pair in kept:
        entry = place[pair]  # type: ignore[index]
        used[entry] = True
        used[division.members[entry]] = False
    return used
