"""Progressive filling: shares of several resources, kept exactly, and the divisible optimum they approach.

`DominantShare` does the arithmetic of task-by-task filling in integers, so that 2/9 and 4/18 tie.
`fluid` fills all users at once, as if tasks were divisible; `nash` is the market the paper compares with.

Source: Ghodsi et al., "Dominant Resource Fairness: Fair Allocation of Multiple Resource Types", NSDI 2011.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from copy import copy
from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np

from rota.model.columns import Floats

Combine = Callable[[Iterable[int]], int]
"""What one number stands for a user's shares: `max` is its dominant share, `sum` is asset fairness."""


class DominantShare:
    """What users hold of each resource, and the share by which they are compared.

    `capacity` and all amounts are whole numbers in a unit of the caller's (thousandths of a core, say).  A
    weight is one number per user or one per resource; users without one have weight 1.
    """

    def __init__(
        self,
        capacity: Sequence[int],
        weights: Mapping[Any, Fraction | Sequence[Fraction]] | None = None,
        combine: Combine = max,
    ) -> None:
        if not all(amount > 0 for amount in capacity):
            raise ValueError(f"capacities must be above 0: {list(capacity)}")
        self.combine = combine
        spread = {user: _per_resource(weight, len(capacity)) for user, weight in (weights or {}).items()}
        common = lcm(*(weight.numerator for row in spread.values() for weight in row))
        self.scale = lcm(*capacity) * common
        """Keys are shares times this."""
        self._even = tuple(self.scale // amount for amount in capacity)
        self._factors = {
            user: tuple(
                even * weight.denominator // weight.numerator
                for even, weight in zip(self._even, row, strict=True)
            )
            for user, row in spread.items()
        }
        self._held: dict[Hashable, tuple[int, ...]] = {}
        self._nothing = (0,) * len(capacity)

    def emptied(self) -> DominantShare:
        """The same capacity and weights, and nobody holds anything."""
        twin = copy(self)
        twin._held = {}
        return twin

    def charge(self, user: Hashable, amounts: Sequence[int]) -> None:
        """`user` holds so much more."""
        held = self._held.get(user, self._nothing)
        self._held[user] = tuple(a + b for a, b in zip(held, amounts, strict=True))

    def refund(self, user: Hashable, amounts: Sequence[int]) -> None:
        """`user` holds so much less."""
        self.charge(user, [-amount for amount in amounts])

    def key(self, user: Hashable, extra: Sequence[int] | None = None) -> int:
        """The weighted share as an exact integer to compare; with `extra` beside what is held."""
        held = self._held.get(user, self._nothing)
        if extra is not None:
            held = tuple(a + b for a, b in zip(held, extra, strict=True))
        factors = self._factors.get(user, self._even)
        return self.combine(amount * factor for amount, factor in zip(held, factors, strict=True))

    def share(self, user: Hashable) -> Fraction:
        """The weighted share: of the most demanded resource if `combine` is `max`."""
        return Fraction(self.key(user), self.scale)


def _per_resource(weight: Fraction | Sequence[Fraction], resources: int) -> tuple[Fraction, ...]:
    row = (weight,) * resources if isinstance(weight, Fraction) else tuple(weight)
    if len(row) != resources or any(one <= 0 for one in row):
        raise ValueError(f"a weight must be above 0, one or one per resource: {row}")
    return row


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
