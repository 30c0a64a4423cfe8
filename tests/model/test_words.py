"""Words for lists: what is small, and what is unknown."""

from __future__ import annotations

import pytest

from rota.model.words import hours


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0"),
        (2.4e-5, "under 0.001"),
        (0.001, "0.001"),
        (0.00566, "0.00566"),
        (1.5, "1.5"),
        (99.96, "100"),
        (12345.6, "12,346"),
    ],
)
def test_hours(number: float, text: str) -> None:
    """No power of ten for who ran for a second."""
    assert hours(number) == text
