"""Partial allocation: the shares at which the product of all values is largest, less what each has to pay.

Cole, Gkatzelis and Goel (EC 2013), as Themis uses it (NSDI 2020, section 4): each bidder gets the fraction c
of its proportionally fair bundle by which the others are worse off for its presence.  What it does not get is
its payment, though no money moves: no bidder gains by exaggerating, and each keeps at least 1/e of what
the proportionally fair allocation is worth to it.

`auction` finds the allocation exactly, from tables of bids.  Where tables would be too long, `hand_out` gives
one group after another to the bidder that gains most from it per GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from heapq import heapify, heappop, heappush
from typing import NamedTuple, Protocol

LEAST_VALUE = 1e-6
"""Value of nothing: products stay above 0."""

Bundle = tuple[int, ...]
"""Number of things of each kind."""

_DIGITS = 9
"""Digits after the point to which logarithms of values are compared: what differs less is a tie."""


@dataclass(frozen=True)
class Bid:
    """What some bundles are worth to a bidder; nothing, which it can always get, is one of them."""

    values: dict[Bundle, float]
    """At least 0 each."""
    groups: tuple[int, ...] = ()
    """Numbers of things that the bidder can use, ascending, and none in between; any number, if empty."""


@dataclass(frozen=True)
class AuctionOutcome:
    """What an auction decides, bidder by bidder."""

    fair: list[Bundle]
    """The proportionally fair bundles."""
    fractions: list[float]
    """The fraction c of its bundle that each may keep, in (0, 1]."""
    kept: list[int]
    """How many things that is."""


def auction(bids: Sequence[Bid], supply: Bundle) -> AuctionOutcome:
    """How much of `supply` each bidder gets, exactly: time grows with the number of bundles of all bids.

    Among equal products: the fewest things handed out, then the one that gives most to the first bidder.
    """
    values = [_logs(bid) for bid in bids]
    fair, _ = _best(values, supply)
    logs = [value[bundle] for value, bundle in zip(values, fair, strict=True)]
    fractions = []
    for i in range(len(bids)):
        _, without = _best(values[:i] + values[i + 1 :], supply)
        fractions.append(min(1.0, math.exp(sum(logs[:i] + logs[i + 1 :]) - without)))
    kept = [kept_of(sum(bundle), c, bid.groups) for bundle, c, bid in zip(fair, fractions, bids, strict=True)]
    return AuctionOutcome(fair, fractions, kept)


def kept_of(number: int, fraction: float, groups: Sequence[int] = ()) -> int:
    """Things that are left of `number` after the payment, rounded down to a size that is of use.

    Never less than the smallest such size if `number` is that much: a payment never takes an only gang.
    """
    whole = min(number, math.floor(fraction * number + 1e-9))
    if not groups:
        return whole
    useful = [size for size in groups if size <= whole]
    return useful[-1] if useful else min(groups[0], number)


def _logs(bid: Bid) -> dict[Bundle, float]:
    return {bundle: math.log(max(value, LEAST_VALUE)) for bundle, value in bid.values.items()}


def _best(values: Sequence[dict[Bundle, float]], supply: Bundle) -> tuple[list[Bundle], float]:
    """The bundles with the largest sum of values, and that sum."""

    @cache
    def best(bidder: int, left: Bundle) -> tuple[float, int, tuple[Bundle, ...]]:
        """Value, things left over and bundles of this bidder and all after it."""
        if bidder == len(values):
            return 0.0, sum(left), ()
        chosen = None
        for bundle, value in values[bidder].items():
            rest = tuple(have - want for have, want in zip(left, bundle, strict=True))
            if min(rest, default=0) < 0:
                continue
            later, spare, others = best(bidder + 1, rest)
            candidate = (round(value + later, _DIGITS), spare, (bundle, *others))
            if chosen is None or candidate > chosen:
                chosen = candidate
        assert chosen is not None, "every bidder can have nothing"
        return chosen

    _, _, bundles = best(0, supply)
    return list(bundles), sum(value[bundle] for value, bundle in zip(values, bundles, strict=True))


# -- one group after another -------------------------------------------------------------------------


class AuctionStep(NamedTuple):
    """The next group that a bidder could use."""

    gain: float
    """By how much the logarithm of its value grows."""
    gpus: int
    fits: bool
    """True if what is left is enough for it; else `gain` is an upper bound."""


class Market(Protocol):
    """What is left, and the next group of each bidder."""

    @property
    def left(self) -> int:
        """GPUs that no bidder has."""
        ...

    def step(self, bidder: int) -> AuctionStep | None:
        """The next group of `bidder`; None if it wants no more."""
        ...

    def take(self, bidder: int) -> None:
        """Give `bidder` the group of its last `step`, which fits."""
        ...

    def reset(self) -> None:
        """Take back everything that was handed out."""
        ...


class HandedOut(NamedTuple):
    """How an allocation came out."""

    gains: dict[int, float]
    """By how much the logarithm of each bidder's value has grown."""
    gpus: dict[int, int]
    groups: int
    """How many groups were given."""
    price: float
    """Gain per GPU of the best group for which there was no room any more; 0 if there was room for all."""
    gap: float
    """The largest sum of gains is larger by at most this (if groups gain less the later they come and the
    more is taken: the bound of the fractional knapsack)."""


def hand_out(market: Market, bidders: Iterable[int]) -> HandedOut:
    """Give the group with the largest gain per GPU, again and again, until none fits that gains anything."""
    heap: list[tuple[float, int, int]] = []
    for place, bidder in enumerate(bidders):
        step = market.step(bidder)
        if step is not None and step.gain > 0.0:
            heap.append((-step.gain / step.gpus, place, bidder))
    heapify(heap)
    gains: dict[int, float] = {}
    gpus: dict[int, int] = {}
    groups = 0
    price = bound = after = 0.0
    while heap:
        _, place, bidder = heappop(heap)
        step = market.step(bidder)
        if step is None or step.gain <= 0.0:
            continue
        density = step.gain / step.gpus
        if heap and density < -heap[0][0]:
            heappush(heap, (-density, place, bidder))
            continue
        if not step.fits:
            if not price:
                price, bound = density, density * market.left
            continue
        market.take(bidder)
        gains[bidder] = gains.get(bidder, 0.0) + step.gain
        gpus[bidder] = gpus.get(bidder, 0) + step.gpus
        after += step.gain if price else 0.0
        groups += 1
        following = market.step(bidder)
        if following is not None and following.gain > 0.0:
            heappush(heap, (-following.gain / following.gpus, place, bidder))
    return HandedOut(gains, gpus, groups, price, max(bound - after, 0.0))


def fractions_kept(
    market: Market, bidders: Sequence[int], pays: Callable[[int], bool], steps: int
) -> dict[int, float]:
    """The fraction c that each winner may keep once all is handed out among `bidders`; `market` holds that.

    Only winners that can give something back, by `pays`, are charged.  If handing out again without each
    would take more than `steps` groups, c is bounded from below by what a winner's GPUs cost at the price of
    the last one.
    """
    together = hand_out(market, bidders)
    payers = [bidder for bidder in bidders if bidder in together.gains and pays(bidder)]
    if len(payers) * together.groups > steps:
        return {bidder: math.exp(-together.price * together.gpus[bidder]) for bidder in payers}
    fractions: dict[int, float] = {}
    total = sum(together.gains.values())
    for payer in payers:
        market.reset()
        others = hand_out(market, [bidder for bidder in bidders if bidder != payer])
        with_it = total - together.gains[payer]
        fractions[payer] = min(1.0, math.exp(with_it - sum(others.gains.values())))
    if payers:
        market.reset()
        hand_out(market, bidders)
    return fractions
