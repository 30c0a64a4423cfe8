"""The cluster's clock as a controller told it last: what goes on is counted from it.

The clock of this machine may differ, and be set while something is looked at.
"""

from __future__ import annotations

import math
import time

HEADER = "Rota-Now"
"""Of every answer: Unix seconds by the cluster's clock."""
_told: tuple[float, float] | None = None
"""That moment, and when it was heard by this machine's monotonic clock."""


def hear(told_s: str | None) -> None:
    """Take in what an answer says; None, or what is no moment, changes nothing."""
    global _told
    try:
        at_s = float(told_s or "nan")
    except ValueError:
        return
    if math.isfinite(at_s):
        _told = at_s, time.monotonic()


def now_s() -> float:
    """Unix seconds by the cluster's clock; by this machine's as long as no controller has answered."""
    if _told is None:
        return time.time()
    at_s, heard_s = _told
    return at_s + time.monotonic() - heard_s
