"""Tickets count more for tenants that have long received less than they are due.

Inside a server stride is exact, but gangs that find no room together, and loads that no migration evens out,
leave tenants short in the long run.  What a tenant is short of on average is made up by a factor on its
tickets; who is within a twentieth of what it is due is left alone, so that turns stay as stride has them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

_MEAN_S = 1200.0
"""Time over which what tenants receive is averaged."""
_LEEWAY = 0.05
"""Part of what it is due that a tenant may be short of, or ahead, without its tickets changing."""
_SPEED_S = 6 * _MEAN_S
"""A tenant that receives nothing has the factor multiplied by e in so many seconds: turns are slow."""
_MOST = 2.0
"""Tickets count at most so many times more, or less, than they are."""

Arrears = list[float]
"""Part of what it is due that a tenant is short of, on average; and the factor on its tickets."""


def after(
    before: Mapping[int, Sequence[float]], received: Mapping[int, Sequence[float]], elapsed_s: float
) -> dict[int, Arrears]:
    """The arrears of tenants after `elapsed_s` seconds in which they had (GPUs held, GPUs due).

    Only proportions count: what gangs leave idle everybody is short of.
    """
    held = sum(has for has, _ in received.values())
    due = sum(is_due for _, is_due in received.values())
    if not held or not due:
        return {tenant: list(arrears) for tenant, arrears in before.items()}
    return {
        tenant: _one(before.get(tenant, (0.0, 1.0)), 1.0 - (has / held) / (is_due / due), elapsed_s)
        for tenant, (has, is_due) in received.items()
        if is_due
    }


def _one(before: Sequence[float], short: float, elapsed_s: float) -> Arrears:
    """Arrears of a tenant that was `short` of such a part of what it was due."""
    mean, factor = before
    weight = min(elapsed_s / _MEAN_S, 1.0)
    mean = (1.0 - weight) * mean + weight * max(short, -1.0)
    if abs(mean) > _LEEWAY:
        factor *= math.exp(mean * min(elapsed_s, _MEAN_S) / _SPEED_S)
    return [mean, min(max(factor, 1.0 / _MOST), _MOST)]
