"""What a test looks at where: some in `make test`, all cases in `make soak`, all examples in `make deep`."""

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


def _soaked(value: Any) -> Any:
    return pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.soak)
