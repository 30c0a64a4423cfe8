"""A rate and what ends it: the answers of speed models, and their arguments."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple


class Pace(NamedTuple):
    """Work per second, and what ends it, whichever comes first; infinite for what does not."""

    rate: float
    until_work: float = math.inf
    """The work done at which the rate changes."""
    until_s: float = math.inf
    """The moment at which it changes, after now; a job at rate 0 works again only then."""


class At(NamedTuple):
    """The state of a job when its rate is read."""

    done: float
    """Work it has done."""
    now: float
    company_s: float
    """Moment since which these neighbours, or none, have been beside it on these devices."""


Rebase = Callable[[int, float, float], tuple[float, float] | None]
"""What a speed model may say of a row at the end of a round, given the work done and the work in all: new
values of both, for models whose unit of work changes with progress (Shockwave); None leaves them."""
