"""Parameters of Elan."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rota.errors import InputError


@dataclass(frozen=True)
class ElanParameters:
    """Parameters of `elan`."""

    backfill: bool = False
    """A job that fits at its smallest size passes earlier jobs that do not; `no` is elastic FIFO."""
    min_gain: float = 0.05
    """Part of its speed that a further GPU has to add to a job, unless it adds half of the average that the
    job's present GPUs add: large jobs that scale well may grow."""
    min_resize_s: float = 60.0
    """Seconds after a change of its GPUs before a job is grown again."""
    batch_growth: float = 1.0
    """Factor on the submitted batch up to which it may grow to feed more GPUs (weak scaling); 1
    keeps it (strong scaling).  More needs goodput; the largest batch that a job allows is never exceeded."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.min_gain < math.inf:
            raise InputError(f"policy 'elan': min_gain={self.min_gain:g} is no part; expected 0 or more")
        if not 0.0 <= self.min_resize_s < math.inf:
            raise InputError(f"policy 'elan': min_resize_s={self.min_resize_s:g}; expected 0 or more")
        if not 1.0 <= self.batch_growth < math.inf:
            raise InputError(f"policy 'elan': batch_growth={self.batch_growth:g}; expected 1 or more")
