"""Why jobs with a deadline wait under Chronus is made out when somebody asks, as the plans were then."""

from __future__ import annotations

import pytest

from rota.systems.chronus.book import Book
from rota.systems.chronus.waiting import DeadlineReasons


def test_who_has_no_lease_now_is_told_why() -> None:
    book = Book(lease=3, plans={7: [5, 6], 2: [3, 4], 4: []}, aims={7: 9000.0, 2: 6000.0, 4: 5000.0})
    book.refused, book.overrun = [9], [1]
    reasons = DeadlineReasons(book, 3600.0, 1000.0)
    assert list(reasons) == [1, 7, 9]
    assert len(reasons) == 3
    assert (
        reasons[7].detail == "its deadline is kept by 2 leases, the first in 23m 20s, with 33m 20s to spare"
    )
    assert "longer than estimated" in reasons[1].detail
    assert "cannot be promised" in reasons[9].detail
    for row in (2, 4, 5):  # the present lease is its own, it has none, nobody knows it
        assert row not in reasons
        with pytest.raises(KeyError):
            reasons[row]
