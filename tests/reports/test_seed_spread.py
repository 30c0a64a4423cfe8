"""What several seeds differ by."""

from __future__ import annotations

import pytest

from rota.reports.summary import _spread


def test_seeds_that_say_the_same_differ_by_nothing() -> None:
    """The sum of three equal numbers is a rounding error off, which stood in reports as "± 0.0000x"."""
    spread = _spread([6369.616873214543] * 3)
    assert spread is not None
    assert (spread.std, spread.mean) == (0.0, 6369.616873214543)


def test_the_deviation_is_that_of_a_sample() -> None:
    spread = _spread([1.0, 2.0, None, 3.0])
    assert spread is not None
    assert (spread.runs, spread.mean, spread.std) == (3, 2.0, pytest.approx(1.0))
