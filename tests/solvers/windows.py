"""Windows to plan: made up from a seed, or given job by job."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rota.solvers.window import PlanningWindow, log_utility

SIZES = (1, 2, 4, 8)


def window_of(
    jobs: Sequence[tuple[int, float, float, float]],
    capacity: int,
    rounds: int,
    *,
    round_s: float = 100.0,
    weight: float = 1e-3,
    weights: Sequence[float] = (),
    least: Sequence[int] = (),
) -> PlanningWindow:
    """Jobs as (GPUs, progress, seconds that all of it takes, seconds left)."""
    sizes, progress, whole_s, left_s = (np.array(column) for column in zip(*jobs, strict=True))
    time_s = round_s * np.arange(rounds + 1)
    done_s = np.minimum(time_s, ((1.0 - progress) * whole_s)[:, None])
    return PlanningWindow(
        sizes.astype(np.int64),
        capacity,
        log_utility(np.minimum(progress[:, None] + time_s / whole_s[:, None], 1.0)),
        np.maximum(left_s[:, None] - done_s, 0.0),
        np.array(weights or np.ones(len(jobs)), dtype=np.float64),
        np.array(least or np.zeros(len(jobs)), dtype=np.int64),
        weight,
    )


def made_up(
    seed: int, jobs: int, capacity: int, rounds: int, *, round_s: float = 120.0, weight: float = 1e-3
) -> PlanningWindow:
    """Jobs of 1 to 8 GPUs as far as these are there, a third of them late, most of them begun."""
    rng = np.random.default_rng(seed)
    sizes = [size for size in SIZES if size <= capacity]
    late = rng.random(jobs) < 0.3
    weights = np.where(late, rng.uniform(1.0, 2.0, jobs) ** 12, 1.0)
    progress = rng.random(jobs) * (rng.random(jobs) < 0.7)
    whole_s = rng.lognormal(8.5, 1.0, jobs)
    own = zip(rng.choice(sizes, jobs), progress, whole_s, whole_s * (1.0 - progress), strict=True)
    return window_of(list(own), capacity, rounds, round_s=round_s, weight=weight, weights=weights.tolist())
