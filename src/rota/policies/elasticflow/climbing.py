"""All jobs planned together, and what is left handed out: in C where it could be built (`climb.c`).

Where it could not, `hand_out.py` takes the same steps, twenty times slower, and ends at the same bits.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rota.policies.elasticflow.asks import ShareAsk
from rota.policies.elasticflow.backward import due_of
from rota.policies.elasticflow.hand_out import Climbed, climbed_in_steps
from rota.solvers import native

SOURCE = Path(__file__).with_name("climb.c")
_NO_MEMORY = 1


def climbed(asks: Sequence[ShareAsk], gpus: int, now: float, slot_s: float, *, gives: bool) -> Climbed:
    """What becomes of `asks`, by deadline, on so many GPUs; with `gives` what they leave is handed out."""
    library = native.library(SOURCE)
    if library is None:
        return climbed_in_steps(asks, gpus, now, slot_s, gives=gives)
    return _in_c(library, asks, gpus, now, slot_s, gives)


def _in_c(
    library: ctypes.CDLL, asks: Sequence[ShareAsk], gpus: int, now: float, slot_s: float, gives: bool
) -> Climbed:
    count = len(asks)
    first_of: dict[int, int] = {}
    tables, tops, levels, speeds = [], [], list[int](), list[float]()
    for ask in asks:  # jobs alike share their levels
        own = ask.levels
        first = first_of.get(id(own))
        if first is None:
            first = first_of[id(own)] = len(levels)
            levels += own.gpus.tolist()
            speeds += own.rates.tolist()
        tables.append(first)
        tops.append(len(own.gpus) - 1)
    due = [due_of(ask) for ask in asks]
    steps = sum(tops)  # each job is raised once a level at most
    whole = np.array([*tables, *tops, *levels], dtype=np.int64)
    real = np.array([*speeds, *[ask.work for ask in asks], *due], dtype=np.float64)
    counts, moments = np.zeros(3 * count + steps + 1, dtype=np.int64), np.zeros(5 * count + steps)
    failed = library.climb(
        ctypes.c_int64(count),
        *_parts(whole, (0, count, 2 * count)),
        *_parts(real, (0, len(speeds), len(speeds) + count)),
        ctypes.c_int64(gpus),
        ctypes.c_double(now),
        ctypes.c_double(slot_s),
        ctypes.c_int(gives),
        *_parts(counts, (0, count, 2 * count, 3 * count, 3 * count + steps)),
        *_parts(moments, tuple(count * part for part in range(6))),
    )
    if failed == _NO_MEMORY:
        raise MemoryError(f"the plans of {count} jobs found no memory")
    assert not failed, "the level was found to be enough"
    has, first_has, order = (counts[count * part : count * (part + 1)].tolist() for part in range(3))
    told = [moments[count * part : count * (part + 1)].tolist() for part in range(5)]
    taken = counts.item(-1)
    raised = counts[3 * count :][:taken].tolist(), moments[5 * count :][:taken].tolist()
    in_time = all(done_s <= due_s for done_s, due_s in zip(told[3], due, strict=True))
    ends, changes, first_ends, first_dones, begins = told
    by_step = list(zip(*raised, strict=True))
    return Climbed(
        in_time, has, ends, changes, first_has, first_ends, first_dones, begins, order, by_step
    )  # fmt: skip


def _parts(array: Any, begins: Sequence[int]) -> list[ctypes.c_void_p]:
    """Addresses of entries of `array`."""
    at = array.ctypes.data
    return [ctypes.c_void_p(at + array.itemsize * begin) for begin in begins]
