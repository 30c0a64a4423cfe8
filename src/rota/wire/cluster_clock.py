"""The cluster's clock, as a controller reported it last; elapsed time is counted from that report.

The clock of this machine may differ, and may be set while a command runs.
"""

from __future__ import annotations

import math
import time

HEADER = "Rota-Now"
"""HTTP header of every answer of a controller: Unix seconds by the cluster's clock."""
_told: tuple[float, float] | None = None
"""The moment last reported, and the reading of this machine's monotonic clock when it arrived."""


def hear(told_s: str | None) -> None:
    """Store the moment that an answer reports; None, or text that is not a moment, changes nothing."""
    global _told
    try:
        at_s = float(told_s or "nan")
    except ValueError:
        return
    if math.isfinite(at_s):
        _told = at_s, time.monotonic()


def now_s() -> float:
    """Unix seconds by the cluster's clock, or by this machine's clock until a controller has answered."""
    if _told is None:
        return time.time()
    at_s, heard_s = _told
    return at_s + time.monotonic() - heard_s
