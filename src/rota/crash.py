"""Named points between two durable steps, at which a test can kill the process.

`ROTA_CRASH_AT=store-commit` kills it there, `store-commit:3` the third time it passes.  Without that
variable a point costs one dictionary lookup.  The shim, which loads no other part of Rota, reads the
same variable by itself.
"""

from __future__ import annotations

import os
import signal
from collections import Counter

VARIABLE = "ROTA_CRASH_AT"
_passed: Counter[str] = Counter()


def crash_point(name: str) -> None:
    """Die here, as by `kill -9`, if the environment asks for it."""
    if not (wanted := os.environ.get(VARIABLE)):
        return
    _passed[name] += 1
    at, _, time = wanted.partition(":")
    if at == name and _passed[name] == int(time or 1):
        os.kill(os.getpid(), signal.SIGKILL)
