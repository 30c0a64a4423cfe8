"""Shares of several resources, kept exactly: the arithmetic of filling task by task.

In integers, so that 2/9 and 4/18 tie.

Source: Ghodsi et al., "Dominant Resource Fairness: Fair Allocation of Multiple Resource Types", NSDI 2011.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import lcm
from typing import Any

Combine = Callable[[list[int]], int]
"""Combines a user's shares into one number: `max` is its dominant share, `sum` is asset fairness."""


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
        self._even = [self.scale // amount for amount in capacity]
        self._factors = {
            user: [
                even * weight.denominator // weight.numerator
                for even, weight in zip(self._even, row, strict=True)
            ]
            for user, row in spread.items()
        }
        self._held: dict[Any, list[int]] = {}
        self._keys: dict[Any, int] = {}
        """Keys of users whose holdings have not changed since the key was computed."""
        self._nothing = [0] * len(capacity)

    def clear(self) -> None:
        """Forget all holdings."""
        self._held.clear()
        self._keys.clear()

    def charge(self, user: Any, amounts: Sequence[int]) -> None:
        """`user` holds `amounts` more."""
        held = self._held.get(user, self._nothing)
        self._held[user] = [held[place] + more for place, more in enumerate(amounts)]
        self._keys.pop(user, None)

    def refund(self, user: Any, amounts: Sequence[int]) -> None:
        """`user` holds `amounts` less."""
        self.charge(user, [-amount for amount in amounts])

    def key(self, user: Any, extra: Sequence[int] | None = None) -> int:
        """The weighted share as an exact integer to compare; with `extra` beside what is held."""
        held = self._held.get(user, self._nothing)
        if extra is None:
            key = self._keys.get(user)
            if key is None:
                key = self._keys[user] = self._key_of(user, held)
            return key
        return self._key_of(user, [held[place] + more for place, more in enumerate(extra)])

    def _key_of(self, user: Any, held: list[int]) -> int:
        factors = self.factors(user)
        return self.combine([amount * factors[place] for place, amount in enumerate(held)])

    def factors(self, user: Any) -> list[int]:
        """Factors that turn an amount of each resource into a share of `user`'s, as in `key`."""
        return self._factors.get(user, self._even)

    def share(self, user: Any) -> Fraction:
        """The weighted share: of the most demanded resource if `combine` is `max`."""
        return Fraction(self.key(user), self.scale)


def _per_resource(weight: Fraction | Sequence[Fraction], resources: int) -> tuple[Fraction, ...]:
    row = (weight,) * resources if isinstance(weight, Fraction) else tuple(weight)
    if len(row) != resources or any(one <= 0 for one in row):
        raise ValueError(f"a weight must be above 0, one or one per resource: {row}")
    return row
