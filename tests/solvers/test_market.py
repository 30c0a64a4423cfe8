"""Trading of GPU types: the example of the page, and that nobody loses by it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.model.columns import Floats
from rota.solvers.market import Trader, take_spare, trade


def traders(held: Floats, rates: Floats) -> Trader:
    """Holders that can use whatever they get."""
    return Trader(held, rates, np.full(len(held), np.inf), np.full(held.shape, np.inf))


THREE = traders(np.array([[4.0, 8.0]] * 3), np.array([[1.25, 1.0], [3.0, 1.0], [5.0, 1.0]]))


def test_three_tenants() -> None:
    """Example 6: the third pays the second's speed-up, then the second, alone, the mean of both sides."""
    held, trades = trade(THREE)
    assert [(one.seller, one.buyer) for one in trades] == [(0, 2), (0, 1)]
    assert [one.price for one in trades] == pytest.approx([3.0, 2.125])
    assert [one.amount for one in trades] == pytest.approx([8 / 3, 4 / 3])
    progress = (held * THREE.rates).sum(axis=1)
    assert progress == pytest.approx([18.8333, 21.1667, 33.3333], abs=1e-4)
    assert held == pytest.approx(np.array([[0, 18.8333], [5.3333, 5.1667], [6.6667, 0]]), abs=1e-4)


def test_a_reserve_price_leaves_the_seller_without_a_gain() -> None:
    """With one bidder the second price is the seller's own speed-up."""
    _, trades = trade(THREE, reserve=True)
    assert [one.price for one in trades] == pytest.approx([3.0, 1.25])


def test_who_can_use_no_more_sells_no_more() -> None:
    """The seller can use 14 GPUs in all, two more than it has: at two more for each sold it sells one."""
    held, trades = trade(THREE._replace(most=np.array([14.0, np.inf, np.inf])))
    assert trades[0].amount == pytest.approx(1.0)
    assert held[0].sum() == pytest.approx(14.0)


def test_spare_gpus_are_exchanged_one_for_one() -> None:
    """Who gains most takes the fast ones; the slow ones it gives back serve nobody."""
    held = take_spare(traders(np.array([[0.0, 2.0]] * 3), THREE.rates), np.array([3.0, 0.0]))
    assert held.tolist() == [[0.0, 2.0], [1.0, 1.0], [2.0, 0.0]]


@st.composite
def markets(draw: st.DrawFn) -> Trader:
    """Up to five holders of up to three types, some of no use to some."""
    people, types = draw(st.integers(2, 5)), draw(st.integers(2, 3))

    def cells(values: list[float]) -> Floats:
        row = st.lists(st.sampled_from(values), min_size=types, max_size=types)
        return np.array(draw(st.lists(row, min_size=people, max_size=people)))

    rates = cells([0.0, 1.0, 1.1, 2.0, 5.0])
    held = np.where(rates > 0.0, cells([0.0, 0.5, 1.0, 4.0]), 0.0)
    usable = held + np.where(rates > 0.0, cells([0.0, 1.0, 6.0]), 0.0)
    more = draw(st.lists(st.sampled_from([0.0, 2.0, 9.0]), min_size=people, max_size=people))
    most = held.sum(axis=1) + np.array(more)
    return Trader(held, rates, most, usable)


@given(markets(), st.booleans())
def test_nobody_loses_by_trading(market: Trader, reserve: bool) -> None:
    """And nothing is made or lost, nobody holds what it cannot use, and all gain together or nobody does."""
    held, trades = trade(market, reserve)
    before, after = ((gpus * market.rates).sum(axis=1) for gpus in (market.held, held))
    assert (after >= before - 1e-6).all()
    assert held.sum(axis=0) == pytest.approx(market.held.sum(axis=0))
    assert (held >= -1e-9).all()
    assert (held <= market.usable + 1e-6).all()
    assert (held.sum(axis=1) <= market.most + 1e-6).all()
    assert bool(trades) == bool((after > before + 1e-9).any())


@given(markets(), st.lists(st.sampled_from([0.0, 1.0, 3.0]), min_size=3, max_size=3))
def test_nobody_loses_by_spare_gpus(market: Trader, spare: list[float]) -> None:
    """As many GPUs for everybody as before, and no slower ones."""
    held = take_spare(market, np.array(spare[: market.held.shape[1]]))
    before, after = ((gpus * market.rates).sum(axis=1) for gpus in (market.held, held))
    assert (after >= before - 1e-6).all()
    assert held.sum(axis=1) == pytest.approx(market.held.sum(axis=1))
    assert (held <= market.usable + 1e-6).all()


def test_all_alike_trade_nothing() -> None:
    """Equal speed-ups: no price lies between them."""
    held, trades = trade(traders(np.array([[4.0, 8.0]] * 3), np.array([[2.0, 1.0]] * 3)))
    assert not trades
    assert held.tolist() == [[4.0, 8.0]] * 3
