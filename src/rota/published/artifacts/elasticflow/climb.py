"""All jobs planned together, and what is left handed out: in C where it could be built (`climb.c`).

Without C, `hand_out.py` takes the same steps, twenty times slower, with the same result to the bit.

This module is interpreted in any case: if compiled, an array is freed as soon as its address has been taken.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from rota import native
from rota.published.artifacts.elasticflow.backward import due_of
from rota.published.artifacts.elasticflow.hand_out import Climbed, climbed_in_steps
from rota.systems.elasticflow.asks import ShareAsk

SOURCE = Path(__file__).with_name("climb.c")
_NO_MEMORY = 1


def climbed(asks: Sequence[ShareAsk], gpus: int, now: float, slot_s: float, *, gives: bool) -> Climbed:
    """What becomes of `asks`, by deadline, on `gpus` GPUs; with `gives` what they leave is handed out."""
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
    whole = array("q", [*tables, *tops, *levels])
    real = array("d", [*speeds, *[ask.work for ask in asks], *due])
    counts, moments = (
        array("q", bytes(8 * (3 * count + steps + 1))),
        array("d", bytes(8 * (6 * count + steps))),
    )
    failed = _climb_of(library)(
        count,
        *_parts(whole, (0, count, 2 * count)),
        *_parts(real, (0, len(speeds), len(speeds) + count)),
        gpus,
        now,
        slot_s,
        gives,
        *_parts(counts, (0, count, 2 * count, 3 * count, 3 * count + steps)),
        *_parts(moments, [count * part for part in range(7)]),
    )
    if failed == _NO_MEMORY:
        raise MemoryError(f"the plans of {count} jobs found no memory")
    assert not failed, "the level was found to be enough"
    has, first_has, order = (counts[count * part : count * (part + 1)].tolist() for part in (0, 1, 2))
    told = [moments[count * part : count * (part + 1)].tolist() for part in range(6)]
    taken = counts[-1]
    raised = counts[3 * count : 3 * count + taken], moments[6 * count : 6 * count + taken]
    in_time = all(done_s <= due_s for done_s, due_s in zip(told[3], due, strict=True))
    ends, changes, first_ends, first_dones, begins, dones = told
    by_step = list(zip(*raised, strict=True))
    return Climbed(
        in_time, has, ends, dones, changes, first_has, first_ends, first_dones, begins, order, by_step
    )  # fmt: skip


@cache
def _climb_of(library: ctypes.CDLL) -> Any:
    """Its function, with types declared once: doing so at each call costs as much as the plans."""
    climb, at = library.climb, ctypes.c_void_p
    number, real = ctypes.c_int64, ctypes.c_double
    climb.argtypes = [number, *[at] * 6, number, real, real, ctypes.c_int, *[at] * 12]
    return climb


def _parts(numbers: array[int] | array[float], begins: Sequence[int]) -> list[int]:
    """Addresses of entries of `numbers`."""
    at, _ = numbers.buffer_info()
    return [at + numbers.itemsize * begin for begin in begins]
