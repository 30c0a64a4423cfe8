"""Nodes that are lost and come back, for scenes that a naive twin plays too."""

from __future__ import annotations

import random

from rota.worlds.simulated.faults import Fault


def outages(nodes: int, seed: int) -> list[Fault]:
    """Each node lost up to twice, for a moment, for some turns of a minute, or for longer than an attempt."""
    draw, faults = random.Random(f"faults {seed}"), list[Fault]()
    for node in range(nodes):
        at_s = 0
        for _ in range(draw.randint(0, 2)):
            lost_s = at_s + draw.choice([draw.randint(1, 900), 60 * draw.randint(1, 10)])
            at_s = lost_s + draw.choice([1, 30, 100, 400])
            faults.append(Fault(node, float(lost_s), float(at_s)))
    return faults
