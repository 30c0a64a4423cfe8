"""The tournament of AFS in C (`tournament.c`), where that could be built.

Where it could not, `one_by_one.py` walks with NumPy, many times slower, and comes to the same steps.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from rota import native

SOURCE = Path(__file__).with_suffix(".c")


def is_built() -> bool:
    """True if `steps_to_winners` is to be had."""
    return native.library(SOURCE) is not None


def steps_to_winners(
    rates: Sequence[Sequence[float]],
    counts: Sequence[Sequence[int]],
    gpus: int,
    key: Sequence[float],
    work: Sequence[float] | None,
) -> list[int]:
    """The jobs that are given a step, in order, as long as somebody can use one of `gpus`.

    Each has the first of its `counts` and runs on it; `rates[j][k]` is its speed on k GPUs, `key[j]` when it
    ends or what stands for that, `work[j]` what is left of it, by which its end is worked out instead.
    """
    library = native.library(SOURCE)
    assert library is not None, "who asks has looked whether it is there"
    jobs, known = len(counts), dict[tuple[int, Sequence[int]], int]()
    first, top, levels, speeds = list[int](), list[int](), list[int](), list[float]()
    for own, curve in zip(counts, rates, strict=True):  # jobs alike share their levels
        own = own if isinstance(own, range) else tuple(own)
        place = known.get((id(curve), own))
        if place is None:
            place = known[id(curve), own] = len(levels)
            levels += own
            speeds += [curve[count] for count in own]
        first.append(place)
        top.append(len(own))
    most = min(gpus, sum(top))
    given = array("q", [*first, *top, *levels])
    numbers = array("q", [1] * jobs + [0] * (jobs + most))
    real = array("d", [*speeds, *key, *[0.0] * (2 * jobs), *(work or ())])
    at, told, measured = (column.buffer_info()[0] for column in (given, numbers, real))
    columns = [measured + 8 * (len(speeds) + jobs * part) for part in range(4)]
    steps = _function(library)(
        *(jobs, gpus, at, at + 8 * jobs, at + 16 * jobs, measured),
        *(None if work is None else columns[3], told, *columns[:3], told + 8 * jobs, told + 16 * jobs),
    )
    return numbers[2 * jobs : 2 * jobs + steps].tolist()


@cache
def _function(library: ctypes.CDLL) -> Any:
    """`hand_out`, which is told once what it takes."""
    function, at, number = library.hand_out, ctypes.c_void_p, ctypes.c_int64
    function.argtypes, function.restype = [number, number, *[at] * 11], number
    return function
