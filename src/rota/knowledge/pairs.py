"""Rates of two jobs that share the same GPUs of one type, measured pair by pair (Gavel, OSDI 2020).

A policy receives a table: by row `class` (a workload on a number of GPUs; the last class holds all that were
measured beside no other); shared `rates` [class, class beside it, GPU type], iterations per second, NaN where
unmeasured, and `alone` [class, GPU type], the same of a job by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from rota.knowledge.given import Given
from rota.knowledge.needs import Knowledge, Provenance, Provider, Table
from rota.knowledge.registry import Setup, provides
from rota.model.columns import Floats, Ints

Sized = tuple[str, int]
"""A workload and on how many GPUs it runs."""
MeasuredPairs = dict[tuple[str, Sized, Sized], tuple[float, float]]
"""GPU type and two sized workloads -> iterations per second of each beside the other."""


@dataclass(frozen=True)
class PairTable:
    """Rates of jobs of two classes beside each other."""

    rates: Mapping[tuple[str, Sized, Sized], float] = field(default_factory=dict)
    """GPU type in lower case, a workload and the one beside it -> iterations per second of the first."""

    @classmethod
    def build(cls, measured: MeasuredPairs) -> PairTable:
        """The table of `measured`; a pair that was measured once is known from both sides."""
        rates: dict[tuple[str, Sized, Sized], float] = {}
        for (gpu_type, one, other), (_, its) in measured.items():
            rates[gpu_type.casefold(), other, one] = its
        for (gpu_type, one, other), (mine, _) in measured.items():
            rates[gpu_type.casefold(), one, other] = mine
        return cls(rates)

    def rate(self, gpu_type: str, one: Sized, other: Sized) -> float | None:
        """Iterations per second of `one` beside `other`; None if unmeasured."""
        return self.rates.get((gpu_type.casefold(), one, other))


def pairs_table(pairs: PairTable, jobs: Sequence[Sized], alone: Floats, types: Sequence[str]) -> Table:
    """The table of `pairs`, where `jobs` are the rows, and `alone` [job, GPU type] their rates alone."""
    measured = {one for _, *both in pairs.rates for one in both}
    classes = {one: i for i, one in enumerate(dict.fromkeys(one for one in jobs if one in measured))}
    others = len(classes)
    of_row: Ints = np.array([classes.get(one, others) for one in jobs], dtype=np.int64)
    rates = np.full((others + 1, others + 1, len(types)), np.nan)
    for column, gpu_type in enumerate(types):
        for one, i in classes.items():
            for other, j in classes.items():
                rate = pairs.rate(gpu_type, one, other)
                rates[i, j, column] = np.nan if rate is None else rate
    by_itself = np.full((others + 1, len(types)), np.nan)
    by_itself[of_row[of_row < others]] = alone[of_row < others]
    return Table({"class": of_row}, {"rates": rates, "alone": by_itself})


@provides(Knowledge.PAIRS, Provenance.ASSUMED, "no pair of jobs has been measured")
def assumed_pairs(setup: Setup) -> Provider:
    """No rates, so that no policy packs jobs by them."""
    rates = np.full((1, 1, max(1, len(setup.cluster.type_names))), np.nan)
    classes = np.zeros(len(setup.jobs), dtype=np.int64)
    table = Table({"class": classes}, {"rates": rates, "alone": rates[0]})
    return Given(Knowledge.PAIRS, table, Provenance.ASSUMED)
