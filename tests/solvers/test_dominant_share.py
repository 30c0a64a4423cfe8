"""Dominant shares are exact fractions, by weights of users or of users and resources."""

from __future__ import annotations

from fractions import Fraction

import pytest

from rota.solvers.dominant_share import DominantShare


def test_capacities_and_weights_are_above_zero() -> None:
    with pytest.raises(ValueError, match="above 0"):
        DominantShare((4, 0))
    with pytest.raises(ValueError, match="above 0"):
        DominantShare((4,), {"a": Fraction(0)})


def test_shares_are_exact() -> None:
    """2/9 of one resource ties with 4/18 of the other; 0.1 three times is 0.3."""
    shares = DominantShare((9, 18))
    shares.charge("a", (2, 0))
    shares.charge("b", (0, 4))
    assert shares.key("a") == shares.key("b")
    assert shares.share("a") == Fraction(2, 9)
    shares.refund("a", (1, 0))
    assert shares.share("a") == Fraction(1, 9)
    assert shares.key("a", (1, 0)) == shares.key("b"), "what it would be"
    assert shares.key("b", (0, -4)) == 0, "and what it would be with less"
    assert shares.share("b") == Fraction(2, 9)
    shares.clear()
    assert shares.share("b") == 0


def test_weights_divide_before_the_maximum() -> None:
    """With a weight per resource another resource may dominate."""
    shares = DominantShare((10, 10), {"a": (Fraction(4), Fraction(1, 2)), "b": Fraction(2)})
    shares.charge("a", (8, 2))
    shares.charge("b", (8, 2))
    shares.charge("c", (8, 2))
    assert [shares.share(user) for user in "abc"] == [Fraction(2, 5), Fraction(2, 5), Fraction(4, 5)]
