"""How long a wait was due to each reason, in C where it could be built (`waits.c`).

Interpreted in any case: compiled, an array is let go as soon as its address has been taken.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path

from rota import native
from rota.model.columns import Floats, Ints

SOURCE = Path(__file__).with_name("waits.c")

SplitWait = Callable[[Floats, Ints, int, float, float, float, float], list[float]]


@cache
def split_in_c(labels: int) -> SplitWait | None:
    """What splits a wait by so many labels, or None without the library.

    It takes moments and labels of the changes, how many of these there are, since when and until when the
    wait lasted, and timeout and period of the cycle; it returns the seconds of each label.
    """
    library = native.library(SOURCE)
    if library is None:
        return None
    split, at, real = library.split_wait, ctypes.c_void_p, ctypes.c_double
    split.argtypes = [at, at, ctypes.c_int64, *[real] * 4, at]
    split.restype = None
    new_sums = real * labels

    def split_wait(
        at_s: Floats, label: Ints, changes: int, since: float, now: float, timeout_s: float, period_s: float
    ) -> list[float]:
        sums = new_sums()
        split(at_s.ctypes.data, label.ctypes.data, changes, since, now, timeout_s, period_s, sums)
        return list(sums)

    return split_wait
