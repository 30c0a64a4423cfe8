"""When jobs that begin together will end, and intervals that end together: in C (`ends.c`); the nearest ends.

Where that could not be built, `world.py` and `recorder.py` note the same one by one, to the same bit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from rota import native
from rota.model.columns import Floats, Ints

SOURCE: Final = Path(__file__).with_name("ends.c")  # compiled, this file ends differently
FUNCTIONS: Final[Mapping[str, Any]] = native.functions(SOURCE)
"""By name; none where it is not built.  What each takes and returns stands in the C file."""

# Each is None where it is not built.  Compiled, what is final is read at once.
ENTER: Final[Any] = FUNCTIONS.get("enter")
NOTE: Final[Any] = FUNCTIONS.get("note")

FEW: Final = 32
"""So many ends, or an eighth of all, are near."""


def nearest(rows: Ints, ends: Floats) -> tuple[list[tuple[Any, ...]], float]:
    """A heap of the nearest `ends` of `rows`, each with its row; and up to which moment there are no others.

    If there may be others, there are some: the heap is not empty.
    """
    ends, horizon_s, most = ends[rows], math.inf, max(FEW, len(rows) // 8)
    if len(ends) > most:
        horizon_s = float(np.partition(ends, most)[most])
    are_near = ends <= horizon_s if horizon_s < math.inf else ends < math.inf
    return sorted(zip(ends[are_near].tolist(), rows[are_near].tolist(), strict=True)), horizon_s
