"""Names for the array types used everywhere, and the one way to make an array read-only."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Array = npt.NDArray[Any]
Cells = memoryview  # of a column, whatever it holds
Row = Any
"""An `int`, the row of a job; so named where compiled code is to leave it in its object: of an `int` it would
make another object for every dictionary, list and column that it is used with."""


def cells(column: Array) -> Cells[Any]:
    """The cells of `column`, to read and write one by one: through an array each costs three times as much.

    They belong to the column until another array takes its place.
    """
    return column.data


def read_only(array: Array) -> Array:
    """A view of `array` through which nothing can be written."""
    view = array.view()
    view.flags.writeable = False
    return view
