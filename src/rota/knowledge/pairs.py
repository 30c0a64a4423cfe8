"""Rates of two jobs that share the same GPUs of one type, measured pair by pair (Gavel, OSDI 2020)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Sized = tuple[str, int]
"""A workload and on how many GPUs it runs."""
MeasuredPairs = dict[tuple[str, Sized, Sized], tuple[float, float]]
"""GPU type and two sized workloads -> iterations per second of each beside the other."""


@dataclass(frozen=True)
class PairTable:
    """What jobs of two classes do beside each other."""

    rates: Mapping[tuple[str, Sized, Sized], float] = field(default_factory=dict)
    """GPU type in lower case, a workload and the one beside it -> iterations per second of the former."""

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
        """Iterations per second of `one` beside `other`; None if nobody measured."""
        return self.rates.get((gpu_type.casefold(), one, other))
