"""Progressive filling of divisible tasks: the optimum that filling task by task approaches.

`fluid` fills all users at once, as if tasks were divisible; `nash` is the market the paper compares with.

Source: Ghodsi et al., "Dominant Resource Fairness: Fair Allocation of Multiple Resource Types", NSDI 2011.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rota.model.columns import Floats


def fluid(
    capacity: Sequence[float] | Floats,
    demands: Sequence[Sequence[float]] | Floats,
    *,
    weights: Sequence[float] | Sequence[Sequence[float]] | Floats | None = None,
    most: Sequence[float] | Floats | None = None,
    combine: Callable[..., Floats] = np.max,
) -> Floats:
    """Tasks (not whole) of each user when all weighted shares rise together until resources are full.

    `demands` is users x resources, per task; `weights` one per user or per user and resource; `most` the
    tasks a user has.  A user stops when a resource it needs is full, or it has no task left; the others go
    on.  `combine=np.sum` gives asset fairness.  Raises ValueError for a user that needs nothing.
    """
    room, need = np.array(capacity, np.float64), np.array(demands, np.float64)
    if not (need > 0).any(axis=1).all():
        raise ValueError("a user whose tasks need nothing has no share")
    weight = np.ones(len(need)) if weights is None else np.array(weights, np.float64)
    weight = weight.reshape(len(need), -1)
    full = 1e-12 * room
    rate = 1.0 / combine(need / (room * weight), axis=1)
    limit = np.full(len(need), np.inf) if most is None else np.array(most, np.float64)
    tasks = np.zeros(len(need))
    active = limit > 0
    while active.any():
        speed = np.where(active, rate, 0.0)
        drain = speed @ need
        until_full = np.divide(room, drain, out=np.full(len(room), np.inf), where=drain > 0)
        until_done = np.divide(limit - tasks, speed, out=np.full(len(need), np.inf), where=active)
        step = min(until_full.min(), until_done.min())
        tasks += speed * step
        room = room - drain * step
        active &= (until_done > step) & ~(need[:, room <= full] > 0).any(axis=1)
    return tasks


def nash(capacity: Sequence[float] | Floats, demands: Sequence[Sequence[float]] | Floats) -> Floats:
    """Tasks of each user that maximise their product: competitive equilibrium from equal incomes.

    Solved by its prices: each user spends one unit of money, and what is not scarce costs nothing.
    """
    from scipy.optimize import minimize

    need = np.array(demands, np.float64) / np.array(capacity, np.float64)  # fractions of each resource

    def cost(prices: Floats) -> tuple[float, Floats]:
        spent = need @ prices  # per task
        return float(prices.sum() - np.log(spent).sum()), 1.0 - (need / spent[:, None]).sum(axis=0)

    start = np.full(need.shape[1], len(need) / need.shape[1])
    bounds = [(1e-12, None)] * need.shape[1]
    optimum = minimize(
        cost, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-15, "gtol": 1e-12}
    )
    tasks: Floats = 1.0 / (need @ optimum.x)
    return tasks
