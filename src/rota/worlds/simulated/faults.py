"""Nodes that are lost and come back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from rota.model.cluster import Cluster


class Fault(NamedTuple):
    """`node` is lost at `at_s` and returns at `until_s`."""

    node: int
    at_s: float
    until_s: float


def random_faults(
    cluster: Cluster, span_s: float, rng: np.random.Generator, *, mtbf_s: float, repair_s: float
) -> list[Fault]:
    """Independent failures of each node: exponential times between failures and to repair."""
    faults = []
    for node in range(cluster.nodes):
        now = float(rng.exponential(mtbf_s))
        while now < span_s:
            back = now + float(rng.exponential(repair_s))
            faults.append(Fault(node, now, back))
            now = back + float(rng.exponential(mtbf_s))
    return faults


def timeline(faults: Iterable[Fault]) -> list[tuple[float, int, bool]]:
    """Moments, nodes and whether they come back, in order; returns precede losses of one moment."""
    moves = [(f.at_s, 1, f.node) for f in faults] + [(f.until_s, 0, f.node) for f in faults]
    return [(at, node, kind == 0) for at, kind, node in sorted(moves)]
