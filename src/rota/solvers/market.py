"""Trading of GPU types: a holder that gains little from a fast GPU sells it for several slow ones.

Gandiva_fair (EuroSys 2020, section 4): for each pair of types, the holder with the lowest speed-up sells to
the bidder with the highest, at the second-highest bidder's speed-up.  Both gain as long as the price lies
between their speed-ups, so no trader ends below what it began with.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rota.model.columns import Floats

_EPSILON = 1e-9


class Trade(NamedTuple):
    """A number of fast GPUs for `price` slow ones each."""

    fast: int
    slow: int
    seller: int
    buyer: int
    amount: float
    price: float


class Trader(NamedTuple):
    """Columns of the holders of GPUs, [n] and [n, type]."""

    held: Floats
    """GPUs of each type, [n, type]."""
    rates: Floats
    """Work per second of a GPU of each type, in any unit of the holder's own, [n, type]; 0: of no use."""
    most: Floats
    """GPUs that each can use in all, [n]."""
    usable: Floats
    """GPUs of each type that it can use, [n, type]."""


def trade(traders: Trader, reserve: bool = False) -> tuple[Floats, list[Trade]]:
    """What each trader holds once no trade is left that both sides want, and the trades in order.

    With one bidder, or two equal ones, the price is the mean of both sides' speed-ups; under `reserve` the
    second price is kept, or the seller's own speed-up with one bidder.  GPUs are divisible.
    """
    held = traders.held.astype(np.float64).copy()
    trades: list[Trade] = []
    for fast, slow in _type_pairs(traders):
        gains = _speed_ups(traders, fast, slow)
        while (one := _next(traders, held, gains, fast, slow, reserve)) is not None:
            trades.append(one)
            held[one.seller, fast] -= one.amount
            held[one.buyer, fast] += one.amount
            held[one.seller, slow] += one.amount * one.price
            held[one.buyer, slow] -= one.amount * one.price
        held[np.abs(held) < _EPSILON] = 0.0
    return held, trades


def take_spare(traders: Trader, spare: Floats) -> Floats:
    """What each trader holds after exchanging slower GPUs, one for one, for those in `spare`, [type].

    The trader that gains most per GPU is served first; others may take what it gives back.  So none loses.
    """
    held, spare = traders.held.astype(np.float64).copy(), spare.astype(np.float64).copy()
    types = held.shape[1]
    moves = [
        (-gain, who, fast, slow)
        for fast in range(types)
        for slow in range(types)
        if fast != slow
        for who, gain in enumerate(_speed_ups(traders, fast, slow).tolist())
        if gain > 1.0 + _EPSILON
    ]
    moves.sort()
    is_moving = True
    while is_moving:
        is_moving = False
        for _, who, fast, slow in moves:
            amount = min(spare[fast], held[who, slow], traders.usable[who, fast] - held[who, fast])
            if amount > _EPSILON:
                held[who, fast] += amount
                held[who, slow] -= amount
                spare[fast] -= amount
                spare[slow] += amount
                is_moving = True
    return held


def _type_pairs(traders: Trader) -> list[tuple[int, int]]:
    """Pairs of a faster and a slower type, the largest difference first."""
    types = traders.held.shape[1]
    pairs = []
    for fast in range(types):
        for slow in range(types):
            gains = _speed_ups(traders, fast, slow)
            known = gains[np.isfinite(gains)]
            if fast != slow and len(known) and known.mean() > 1.0:
                pairs.append((-known.mean(), fast, slow))
    return [(fast, slow) for _, fast, slow in sorted(pairs)]


def _speed_ups(traders: Trader, fast: int, slow: int) -> Floats:
    """How much faster each is on `fast` than on `slow`; NaN for a trader that cannot use one of them."""
    ones, others = traders.rates[:, fast], traders.rates[:, slow]
    both = (ones > 0.0) & (others > 0.0)
    gains: Floats = np.divide(ones, others, out=np.full(len(ones), np.nan), where=both)
    return gains


def _next(traders: Trader, held: Floats, gains: Floats, fast: int, slow: int, reserve: bool) -> Trade | None:
    """The next trade in which both sides gain; None if there is none."""
    sellers = np.flatnonzero((held[:, fast] > _EPSILON) & ~np.isnan(gains))
    sellers = sellers[np.argsort(gains[sellers], kind="stable")]
    bidders = np.flatnonzero((held[:, slow] > _EPSILON) & ~np.isnan(gains))
    bidders = bidders[np.argsort(-gains[bidders], kind="stable")]
    for seller in sellers.tolist():
        above = bidders[gains[bidders] > gains[seller] * (1.0 + _EPSILON)]
        for place, buyer in enumerate(above.tolist()):
            second = gains[above[place + 1]].item() if place + 1 < len(above) else gains[seller].item()
            price = _price(gains[seller].item(), gains[buyer].item(), second, reserve)
            amount = _amount(traders, held, fast, slow, seller, buyer, price)
            if amount > _EPSILON:
                return Trade(fast, slow, seller, buyer, amount, price)
    return None


def _price(seller: float, buyer: float, second: float, reserve: bool) -> float:
    """The second-highest speed-up among the bidders, which lies between buyer's and seller's."""
    if reserve or seller < second < buyer:
        return second
    return (seller + buyer) / 2


def _amount(
    traders: Trader, held: Floats, fast: int, slow: int, seller: int, buyer: int, price: float
) -> float:
    """Fast GPUs that change hands: as many as both have, and can use what they get for them."""
    amounts = [
        held[seller, fast],
        held[buyer, slow] / price,
        traders.usable[buyer, fast] - held[buyer, fast],
        (traders.usable[seller, slow] - held[seller, slow]) / price,
    ]
    total = held.sum(axis=1)
    gets_more, by = (seller, price - 1.0) if price > 1.0 else (buyer, 1.0 - price)
    if by > 0.0:
        amounts.append((traders.most[gets_more] - total[gets_more]) / by)
    return float(max(min(amounts), 0.0))
