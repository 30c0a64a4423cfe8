"""Tickets count more for tenants that have long received less than they are due.

Inside a server stride is exact, but gangs that find no room together, and loads that no migration evens out,
leave tenants short in the long run.  What a tenant is short of adds up, and is made up by a factor on its
tickets; who is short of two turns or less is left alone, so that turns stay as stride has them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

_LEEWAY_S = 120.0
"""So many seconds of all that it is due a tenant may be short of, or ahead, without its tickets changing:
turns of gangs take that."""
_SPEED_S = 600.0
"""For so many seconds beyond that its tickets count e times as much."""
_MOST = 2.0
"""Tickets count at most so many times more, or less, than they are."""

Arrears = list[float]
"""What a tenant is short of, in seconds of all that it is due; and the factor on its tickets."""


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
    most_s = _LEEWAY_S + _SPEED_S * math.log(_MOST)  # nothing is owed that could not be made up
    owed_s = min(max(before[0] + max(short, -1.0) * elapsed_s, -most_s), most_s)
    beyond_s = math.copysign(max(abs(owed_s) - _LEEWAY_S, 0.0), owed_s)
    return [owed_s, math.exp(beyond_s / _SPEED_S)]
