"""How jobs slow each other down on one device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rota.errors import InputError


@dataclass(frozen=True)
class Interference:
    """Rates of workloads that share a device, each relative to the workload alone.

    Measured pairs come first.  Without a measurement, jobs share what the device can do: if together they
    ask for more than all of it, each gets its part, and sharing itself costs `loss`.
    """

    pairs: Mapping[tuple[str, str], tuple[float, float]] = field(default_factory=dict)
    """Two workloads -> the rate of each; either order will do."""
    utilisation: Mapping[str, float] = field(default_factory=dict)
    """Part of a device that a workload keeps busy, in (0, 1]; `*` for all others."""
    loss: float = 0.05
    """Part of the rate that is lost whenever another job is beside."""

    def __post_init__(self) -> None:
        for name, use in self.utilisation.items():
            if not 0.0 < use <= 1.0:
                raise InputError.at(
                    f"workload {name} uses {use:g} of a device", expected="more than 0, at most 1"
                )
        for (one, other), rates in self.pairs.items():
            if min(rates) < 0.0:
                raise InputError.at(f"the pair {one}, {other} has a negative rate", expected="0 or more")

    def utilisation_of(self, workload: str) -> float:
        """Part of a device that the workload keeps busy; all of it if not stated."""
        return self.utilisation.get(workload, self.utilisation.get("*", 1.0))

    def rate(self, workload: str, others: Sequence[str]) -> float | None:
        """Rate of `workload` beside `others`; None if nothing is known of some of them."""
        if not others:
            return 1.0
        if len(others) == 1:
            if (workload, others[0]) in self.pairs:
                return self.pairs[workload, others[0]][0]
            if (others[0], workload) in self.pairs:
                return self.pairs[others[0], workload][1]
        everybody = (workload, *others)
        if "*" not in self.utilisation and any(name not in self.utilisation for name in everybody):
            return None
        asked = sum(self.utilisation_of(name) for name in everybody)
        return self.of_use(asked)

    def of_use(self, asked: float) -> float:
        """Rate of each of several jobs that together ask for `asked` of a device."""
        return min(1.0, 1.0 / asked) * (1.0 - self.loss)
