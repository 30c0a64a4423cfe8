"""The clock of an engine's moments: the wall clock at the start of this process, continued steadily.

Setting the machine's wall clock changes none of an engine's earlier or later moments. The controller uses the
time between two moments.
"""

from __future__ import annotations

import time

AGREE_S = 0.05
_BEGAN_S = time.time() - time.monotonic()


def unix_s() -> float:
    """Unix seconds by this process's own clock, which cannot be set."""
    return time.monotonic() + _BEGAN_S


def as_told_here(at_s: float, steady_s: float) -> float:
    """Seconds to add to moments from another process of this boot; 0 if its clock agreed with ours.

    Its wall clock was at `at_s` when the monotonic clock, which all processes share, was at `steady_s`.
    """
    by_s = _BEGAN_S - (at_s - steady_s)
    return by_s if abs(by_s) > AGREE_S else 0.0
