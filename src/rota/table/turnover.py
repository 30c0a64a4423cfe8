"""What is noted about jobs that stop and begin at one moment, at one call each: in C (`turnover.c`).

Only where that could be built; `state.py`, `progress.py`, `rows.py`, `occupancy.py` and the guard do the same
one by one, to the same bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from rota import native
from rota.model.columns import Array

SOURCE: Final = Path(__file__).with_name("turnover.c")  # compiled, this file ends differently
FUNCTIONS: Final[Mapping[str, Any]] = native.functions(SOURCE)
"""By name; none where it is not built.  What each takes and returns stands in the C file."""

# Each is None where it is not built.  Compiled, what is final is read at once.
STOP: Final[Any] = FUNCTIONS.get("stop")
SPLIT: Final[Any] = FUNCTIONS.get("split")
BEGIN: Final[Any] = FUNCTIONS.get("begin")
EXCHANGE: Final[Any] = FUNCTIONS.get("exchange")
CHANGE_HANDS: Final[Any] = FUNCTIONS.get("change_hands")
IS_SOUND: Final[Any] = FUNCTIONS.get("is_sound")
WORK: Final[Any] = FUNCTIONS.get("work")


class Columns:
    """Where some columns begin; they are kept for as long as this is."""

    def __init__(self, columns: Sequence[Array]) -> None:
        self._kept = list(columns)
        self._pointers = np.array([column.ctypes.data for column in columns], dtype=np.uintp)
        self.address: Any = self._pointers.ctypes.data
        """Where the addresses of all of them lie, in order."""


def is_built() -> bool:
    """True if the library is there."""
    return bool(FUNCTIONS)
