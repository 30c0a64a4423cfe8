"""The clock by which an engine tells moments: the wall clock as it stood when this process began.

It goes on steadily: whoever sets the machine's wall clock moves none of what an engine has said or will say.
The controller counts what lies between two moments.
"""

from __future__ import annotations

import time

AGREE_S = 0.05
_BEGAN_S = time.time() - time.monotonic()


def unix_s() -> float:
    """Unix seconds by this process's own clock, which nobody sets."""
    return time.monotonic() + _BEGAN_S


def as_told_here(at_s: float, steady_s: float) -> float:
    """By how much to move what another process of this boot has told; 0 if its clock agreed with ours.

    Its wall clock was at `at_s` when the monotonic clock, which all of them share, was at `steady_s`.
    """
    by_s = _BEGAN_S - (at_s - steady_s)
    return by_s if abs(by_s) > AGREE_S else 0.0
