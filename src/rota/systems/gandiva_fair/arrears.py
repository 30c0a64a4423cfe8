"""Tickets count more for tenants that have long received less than they are due.

Inside a server stride is exact, but loads that no migration evens out, and gangs that find no room together,
leave tenants short in the long run.  What a tenant is short of adds up, and is made up by a factor on its
tickets: soon where its jobs are due too little on their servers, slowly where turns have given it less than
that, for a job that waits for its next turn is short of one without being treated unfairly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

_SPEED_S = 600.0
"""Seconds of unserved share after which a tenant's tickets count e-fold, ..."""
_TURNS = 10.0
"""... or, where turns are to blame, the number of turns of its largest job after which they do."""
_LEEWAY = 1.0
"""Turns of its largest job by which a tenant may be short or ahead without its tickets changing."""
_MOST = 2.0
"""Largest factor by which tickets count more, or less, than they are."""


class Standing(NamedTuple):
    """What a tenant has at one moment, in GPUs."""

    due: float
    """What it is due by its tickets."""
    placed: float
    """The sum of what its jobs are due on the servers they belong to."""
    held: float
    turn_s: float
    """Seconds of all that it is due that one turn of its largest job takes."""


Arrears = list[float]
"""A tenant's arrears, as the logarithm of a factor, and the factor for the part beyond turns."""


def after(
    before: Mapping[int, Arrears], stood: Mapping[int, Standing], elapsed_s: float
) -> dict[int, Arrears]:
    """The arrears of tenants after `elapsed_s` seconds in which they stood as given.

    Only proportions count: what gangs leave idle all tenants are short of.
    """
    due, placed, held = (sum(one[at] for one in stood.values()) for at in range(3))
    if not due or not placed or not held:
        return {tenant: list(arrears) for tenant, arrears in before.items()}
    arrears = {}
    for tenant, one in stood.items():
        if one.due:
            part, place, has = one.due / due, one.placed / placed, one.held / held
            by_places, by_turns = max(1.0 - place / part, -1.0), max((place - has) / part, -1.0)
            slow_s = max(_SPEED_S, _TURNS * one.turn_s)
            owed = before.get(tenant, [0.0, 1.0])[0]
            owed += elapsed_s * (by_places / _SPEED_S + by_turns / slow_s)
            leeway = _LEEWAY * one.turn_s / slow_s
            most = leeway + math.log(_MOST)  # nothing is owed that could not be made up
            owed = min(max(owed, -most), most)
            arrears[tenant] = [owed, math.exp(math.copysign(max(abs(owed) - leeway, 0.0), owed))]
    return arrears
