"""What a test looks at where: some in `make test`, more in `make soak`, all that there is in `make deep`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings

WHOLE = 100
"""Examples of a property that states no number, in `make deep`."""
LEAST = 10


def examples(number: int) -> settings:
    """So many examples in `make deep`, and in `make test` the share of them that its profile has."""
    share = settings().max_examples / WHOLE
    return settings(max_examples=min(number, max(LEAST, round(number * share))))


def first(number: int, values: Iterable[Any]) -> list[Any]:
    """Values for `parametrize`: the first so many as they are, those behind them in `make soak` only.

    A row of several values is a tuple.
    """
    return [value if place < number else _soaked(value) for place, value in enumerate(values)]


def seed_ranges(quick: int, soaked: int, deep: int, *, at_once: int | None = None) -> list[Any]:
    """Ranges of seeds for `parametrize`: those below `quick` as they are, up to `soaked` in `make soak` too.

    The rest, below `deep`, is for `make deep` alone.  A range has `at_once` seeds at most.
    """
    parts = [(0, quick, ()), (quick, soaked, pytest.mark.soak), (soaked, deep, pytest.mark.deep)]
    return [
        pytest.param(range(low, min(low + (at_once or deep), end)), marks=marks)
        for begin, end, marks in parts
        for low in range(begin, end, at_once or deep)
    ]


def _soaked(value: Any) -> Any:
    return pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.soak)
