"""Water filling: each share grows in proportion to its weight until it is all that can be used."""

from __future__ import annotations

import numpy as np

from rota.model.columns import Bools, Floats

_EPSILON = 1e-9


def fill(capacity: float, weights: Floats, most: Floats) -> Floats:
    """What each of `weights` gets of `capacity`, in proportion to them, and no more than its `most`.

    What one cannot use is divided among the others in the same way.  [n] -> [n]; a weight of 0 gets nothing.
    """
    shares = np.zeros(len(most))
    those = np.flatnonzero(weights > 0.0)
    if not len(those):
        return shares
    order = those[np.argsort(most[those] / weights[those], kind="stable")]
    level = most[order] / weights[order]
    heavy = np.cumsum(weights[order][::-1])[::-1]  # weights of those not satisfied yet
    satisfied = np.concatenate(([0.0], np.cumsum(most[order])[:-1]))
    height = (capacity - satisfied) / heavy  # of the water, if all before were satisfied and none after
    unsatisfied = np.flatnonzero(height < level)
    water = max(height[unsatisfied[0]], 0.0) if len(unsatisfied) else np.inf
    shares[those] = np.minimum(weights[those] * water, most[those])
    return shares


def fill_types(capacity: Floats, weights: Floats, most: Floats, usable: Floats) -> Floats:
    """What each gets of every type, [n, type], as all grow together, each over all types that it can use.

    `capacity` [type]; `most` [n] in all and `usable` [n, type] of each type bound what one gets.  A share
    grows in each type in proportion to what is left of it: the same part of every type while none is
    restricted (the homogeneous share of Gandiva_fair, EuroSys 2020, section 4).
    """
    shares = np.zeros_like(usable)
    left = capacity.astype(np.float64)
    while True:
        is_open = _open(shares, left, most, usable) & (weights > 0.0)[:, None]
        part = np.where(is_open, left, 0.0)
        total = part.sum(axis=1, keepdims=True)
        speed = np.divide(part, total, out=np.zeros_like(part), where=total > 0.0) * weights[:, None]
        if not speed.any():
            return shares
        step = min(
            _least((most - shares.sum(axis=1)), speed.sum(axis=1)),
            _least(usable - shares, speed),
            _least(left, speed.sum(axis=0)),
        )
        shares = shares + step * speed
        left = left - step * speed.sum(axis=0)


def _open(shares: Floats, left: Floats, most: Floats, usable: Floats) -> Bools:
    """Which shares may still grow, by type."""
    unsatisfied = shares.sum(axis=1) < most - _EPSILON
    may: Bools = unsatisfied[:, None] & (shares < usable - _EPSILON) & (left > _EPSILON)
    return may


def _least(room: Floats, speed: Floats) -> float:
    """How long until the first room is used up."""
    grows = speed > 0.0
    return float(np.min(room[grows] / speed[grows], initial=np.inf))
