"""How placement slows jobs down: by the widest level on which they lie further apart than needed.

A policy receives a table: by row `class`, and shared `rates` [class, level], the rate of a job whose GPUs lie
in more units of that level than necessary, relative to one whose GPUs are as close as possible; NaN where
unknown, and then the next narrower level counts.  Levels are in the order of `levels_of`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from rota.knowledge.given import Given
from rota.knowledge.needs import Knowledge, Provenance, Provider, Table
from rota.knowledge.registry import Setup, provides
from rota.model.cluster import Cluster
from rota.model.columns import Floats, Ints

ByWorkload = Mapping[str, float]
"""A factor for each workload; `*` for all others."""
NODE = "node"


def levels_of(cluster: Cluster) -> dict[str, Ints]:
    """Unit of each device by level, the widest first: named levels, the node, named levels inside it."""
    above = {name: units[cluster.device_node] for name, units in cluster.levels.items()}
    return {**above, NODE: cluster.device_node, **cluster.device_levels}


def placement_table(
    cluster: Cluster, factors: Mapping[str, ByWorkload], workloads: Sequence[str], of_row: Ints
) -> Table:
    """The table of `factors`, by level and workload; `of_row` are codes of `workloads`, -1 for none."""
    rates = np.full((len(workloads) + 1, len(levels_of(cluster))), math.nan)
    for column, level in enumerate(levels_of(cluster)):
        known = factors.get(level, {})
        rest = known.get("*", math.nan)
        rates[:, column] = [*(known.get(name, rest) for name in workloads), rest]
    return Table({"class": np.where(of_row < 0, len(workloads), of_row)}, {"rates": rates})


class Closeness:
    """Reads the rates of a `placement_table` for devices of one cluster."""

    def __init__(self, cluster: Cluster, rates: Floats) -> None:
        self._rates: list[list[float]] = rates.tolist()
        units = list(levels_of(cluster).values())
        self._units: list[list[int]] = [unit_of.tolist() for unit_of in units]
        self._largest = [int(np.bincount(unit_of).max()) if len(unit_of) else 1 for unit_of in units]
        self._stated = [column for column in range(len(units)) if not np.isnan(rates[:, column]).all()]

    def factor(self, number: int, devices: Sequence[int]) -> float:
        """What placement leaves of the rate of a job of class `number`, -1 for none, on `devices`."""
        if number < 0:
            return 1.0
        rates = self._rates[number]
        for column in self._stated:
            rate = rates[column]
            if rate == rate and self._is_apart(column, devices):
                return rate
        return 1.0

    def worst(self, number: int) -> float:
        """What is left at least, wherever the GPUs of a job of class `number` lie."""
        stated = [self._rates[number][column] for column in self._stated] if number >= 0 else []
        return min([1.0, *(rate for rate in stated if rate == rate)])

    def _is_apart(self, column: int, devices: Sequence[int]) -> bool:
        """True if `devices` lie in more units of a level than necessary."""
        unit_of = self._units[column]
        return len({unit_of[device] for device in devices}) > -(-len(devices) // self._largest[column])


@provides(Knowledge.PLACEMENT, Provenance.ASSUMED, "distance between GPUs slows no job down")
def assumed_placement(setup: Setup) -> Provider:
    rates = np.full((1, len(levels_of(setup.cluster))), math.nan)
    classes = np.zeros(len(setup.jobs), dtype=np.int64)
    return Given(Knowledge.PLACEMENT, Table({"class": classes}, {"rates": rates}), Provenance.ASSUMED)
