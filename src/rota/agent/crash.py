"""Named points between two durable steps, at which a test can have the process killed."""

from __future__ import annotations

import os
import signal
from collections import Counter

VARIABLE = "ROTA_CRASH_AT"
_passed: Counter[str] = Counter()


def crash_point(name: str) -> None:
    """Nothing, unless ROTA_CRASH_AT is `name` (or `name:3`, for the third time): then SIGKILL to us."""
    wanted = os.environ.get(VARIABLE)
    if not wanted:
        return
    _passed[name] += 1
    at, _, time = wanted.partition(":")
    if at == name and _passed[name] == int(time or 1):
        os.kill(os.getpid(), signal.SIGKILL)
