"""Steps of a search by a population of matrices between two random draws, in C (`breeding.c`) if built.

Where it was not built, and for sums of more than 16 bits, `systems/pollux` does the same with NumPy, in
twice the time and with identical bits.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

import numpy as np

from rota import native
from rota.model.columns import Array, Floats, Ints

SOURCE = Path(__file__).with_suffix(".c")
_ADDRESS, _NUMBER = ctypes.c_void_p, ctypes.c_int64
_TAKES = {
    "part": (_ADDRESS, _ADDRESS, _NUMBER, _NUMBER),
    "mark_over": (_ADDRESS, _ADDRESS, _NUMBER, _ADDRESS),
    "trim": (_ADDRESS, _ADDRESS, _NUMBER, _ADDRESS, _ADDRESS),
    "fit": (_ADDRESS, _ADDRESS, _NUMBER),
    "places": (_ADDRESS, _ADDRESS, _NUMBER, _ADDRESS),
    "places_alone": (_ADDRESS, _ADDRESS, _NUMBER, *[_ADDRESS] * 5),
    "survivors": (_NUMBER, _ADDRESS, _ADDRESS, _NUMBER, _ADDRESS, _ADDRESS),
}


class _Rules(ctypes.Structure):
    """The struct `Rules` of `breeding.c`."""

    _fields_ = (
        *((name, _NUMBER) for name in ("nodes", "jobs", "most", "most_nodes")),
        *((name, _ADDRESS) for name in ("limit", "room", "pinned", "base", "held", "used", "differs")),
    )


@cache
def _library() -> ctypes.CDLL | None:
    library = native.library(SOURCE)
    if library is None:
        return None
    for name, takes in _TAKES.items():
        function = getattr(library, name)
        function.argtypes, function.restype = takes, None
    library.mark_over.restype = library.survivors.restype = _NUMBER
    return library


class Breeding:
    """The rules of one search, applied to its states, [node, member, job] in one piece of small numbers."""

    def __init__(self, base: Array, capacity: Array, limit: Array, pinned: Array, most_nodes: int) -> None:
        """`base` [node, job], `limit` [job, GPUs], as in `SharingProblem`; the library has to be there."""
        library = _library()
        assert library is not None
        self._do = library
        self.nodes, self.jobs = base.shape
        self._kept: tuple[Array, ...] = (  # as long as the rules
            np.ascontiguousarray(limit, dtype=np.int16),
            np.ascontiguousarray(capacity, dtype=np.int16),
            np.ascontiguousarray(pinned, dtype=np.uint8),
            np.ascontiguousarray(base, dtype=np.int8),
            *(np.zeros(self.jobs, dtype=kind) for kind in (np.int16, np.int16, np.uint8)),
        )
        self._rules = _Rules(
            self.nodes, self.jobs, limit.shape[1] - 1, most_nodes, *(_at(column) for column in self._kept)
        )
        self._at = ctypes.addressof(self._rules)

    def part(self, states: Array, *, everybody: bool) -> None:
        """Leave each node at most one job that spans nodes; `everybody`: all jobs from the second on go."""
        self._do.part(self._at, *_lie(states), everybody)

    def marked(self, states: Array) -> Array | None:
        """Jobs with more than they can use, [member, job]; None if there are none."""
        over = np.empty(states.shape[1:], dtype=np.uint8)
        return over if self._do.mark_over(self._at, *_lie(states), _at(over)) else None

    def trim(self, states: Array, over: Array, order: Ints) -> None:
        """Cut the marked jobs to what they can use, keeping the first nodes in `order`."""
        order = np.ascontiguousarray(order, dtype=np.int64)
        self._do.trim(self._at, *_lie(states), _at(over), _at(order))

    def fit(self, states: Array) -> None:
        """Cut nodes with more than their GPUs in use: the last jobs get less."""
        self._do.fit(self._at, *_lie(states))

    def places(self, states: Array) -> Ints:
        """[member, job]: where each is in a table by job, kept or changed, one node or several, GPUs."""
        places = np.empty(states.shape[1:], dtype=np.int64)
        self._do.places(self._at, *_lie(states), _at(places))
        return places

    def places_alone(
        self, states: Array, node_print: Floats, job_print: Floats
    ) -> tuple[Ints, Floats, Floats]:
        """Where each is in a table by job, one node or several, GPUs; by member the GPUs of nodes in use, and
        the sum over entries of the numbers of their node and their job."""
        places = np.empty(states.shape[1:], dtype=np.int64)
        active, prints = np.empty(len(places)), np.empty(len(places))
        columns = map(_at, (node_print, job_print, places, active, prints))
        self._do.places_alone(self._at, *_lie(states), *columns)
        return places, active, prints


def breeding(base: Array, capacity: Array, limit: Array, pinned: Array, most_nodes: int) -> Breeding | None:
    """The rules of a search of small numbers; None where the library is missing."""
    return None if _library() is None else Breeding(base, capacity, limit, pinned, most_nodes)


def survivors(values: Floats, prints: Floats, many: int) -> tuple[Ints, Floats] | None:
    """Surviving members, by front and values [member, 2], and crowding of each; None without the library.

    The first fronts survive, and from the last of them the members farthest from others; copies, whose
    `prints` are equal, are left out.
    """
    library = _library()
    if library is None:
        return None
    values, prints = np.ascontiguousarray(values), np.ascontiguousarray(prints)
    order, gaps = np.empty(many, dtype=np.int64), np.empty(many)
    kept = library.survivors(len(prints), _at(values), _at(prints), many, _at(order), _at(gaps))
    if kept < 0:
        raise MemoryError(f"fronts of {len(prints)} members found no memory")
    return order[:kept], gaps[:kept]


def _at(array: Array) -> int:
    """Address of its first number."""
    address: int = array.ctypes.data
    return address


def _lie(states: Array) -> tuple[int, int]:
    """Address of `states`, and their number of members."""
    assert states.dtype == np.int8, "of other numbers"
    assert states.flags.c_contiguous, "not in one piece"
    return _at(states), states.shape[1]
