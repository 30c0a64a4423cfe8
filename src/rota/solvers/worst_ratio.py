"""Fractions of time at which the worst of several ratios is as small as can be, as a cone program finds them.

    minimise t  with  a_i + b_i / x_i <= t,  0 <= x_i <= 1,  sum g_i x_i <= G

The ratio a_i + b_i / x_i falls with x_i, so at the least t each x_i is at least m_i = b_i / (t - a_i).  If
these need all of G, they are the answer.  If one of them is 1 before that, others have room to choose, and
where the central path of an interior-point method ends is the analytic centre of what is left: with 1/x as a
second-order cone of degree 1 its barriers add up to 3/2 log(x_i - m_i) + log(1 - x_i) for each job, and
log(G - sum g_i x_i).  A solver that takes long steps ends
elsewhere (`solvers.ratio_walk`).
"""

from __future__ import annotations

import numpy as np

from rota.model.columns import Floats

_HALVINGS = 200
_TIGHT = 1e-7
"""Part of G, or of 1, that counts as nothing."""


def least_worst(fixed: Floats, over: Floats, gpus: Floats, capacity: float) -> Floats:
    """x for `fixed` = a (at least 0), `over` = b (above 0) and `gpus` = g; all of one shape, at least one.

    Jobs of more than `capacity` GPUs count as well: they run that part of their time at most.
    """
    lowest = float((fixed + over / np.minimum(1.0, capacity / gpus)).max())
    least = over / (lowest - fixed)
    if (gpus @ least) >= capacity * (1.0 - _TIGHT):
        return _filled(fixed, over, gpus, capacity, lowest)
    return _centre(np.minimum(least, 1.0), gpus, capacity)


def _filled(fixed: Floats, over: Floats, gpus: Floats, capacity: float, lowest: float) -> Floats:
    """The fractions at the ratio at which they need all there is."""
    low, high = lowest, lowest
    while gpus @ (over / (high - fixed)) > capacity:
        low, high = high, 2.0 * high + 1e-12
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        if not low < middle < high:
            break
        if gpus @ (over / (middle - fixed)) > capacity:
            low = middle
        else:
            high = middle
    fractions: Floats = over / (high - fixed)
    return fractions


def _centre(least: Floats, gpus: Floats, capacity: float) -> Floats:
    """The analytic centre of `least` <= x <= 1 within the capacity."""
    x = least.copy()
    free = 1.0 - least > _TIGHT
    if not free.any():
        return x
    m, g = least[free], gpus[free]
    room = capacity - float(gpus @ least)
    if room <= 0.0:
        return x
    # The price y of a GPU is 1 over what stays free of them; x falls with it, so it is found by halving.
    low, high = 0.0, 1.0 / room
    while room - float(g @ (_at_price(m, g, high) - m)) < 1.0 / high:
        low, high = high, 2.0 * high
    for _ in range(_HALVINGS):
        price = (low + high) / 2.0
        if not low < price < high:
            break
        if room - float(g @ (_at_price(m, g, price) - m)) < 1.0 / price:
            low = price
        else:
            high = price
    x[free] = _at_price(m, g, high)
    return x


def _at_price(least: Floats, gpus: Floats, price: float) -> Floats:
    """Where 1.5 / (x - m) - 1 / (1 - x) = g · price, between m and 1."""
    # With u = (x - m) / (1 - m) and c = g · price · (1 - m): 1.5 (1 - u) - u = c u (1 - u).
    c = gpus * price * (1.0 - least)
    u = 3.0 / ((2.5 + c) + np.sqrt((2.5 + c) ** 2 - 6.0 * c))
    centre: Floats = least + (1.0 - least) * u
    return centre
