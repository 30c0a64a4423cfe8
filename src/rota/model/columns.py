"""Names for the array types used everywhere, and the one way to make an array read-only."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Array = npt.NDArray[Any]


def read_only(array: Array) -> Array:
    """A view of `array` through which nothing can be written."""
    view = array.view()
    view.flags.writeable = False
    return view
