"""Parameters of Pollux."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rota.errors import InputError


@dataclass(frozen=True)
class PolluxParameters:
    """Parameters of `pollux`."""

    p: float = -1.0
    """Power of the mean of speedups: 1 is the mean, 0 the geometric one, less is fairer."""
    interval_s: float = 60.0
    """Seconds between two searches."""
    restart_s: float = 30.0
    """Seconds that a restart is taken to cost (δ)."""
    population: int = 100
    """Members of the population."""
    generations: int = 100
    """Generations of a search."""
    patience: int = 20
    """A search ends early when this many generations have found nothing fitter."""
    most_gpus: int = 64
    """GPUs of one job."""
    most_nodes: int = 16
    """Nodes of one job."""
    growth: float = 2.0
    """A job may have this many times the most GPUs that it was measured on."""
    avoid_interference: bool = True
    """At most one job on several nodes uses a node."""
    batch_gain: float = 0.05
    """A running job changes its batch for a better one by more than this part."""
    cell_nodes: int = 64
    """Larger clusters are searched in cells of this many nodes."""
    utility: tuple[float, ...] = ()
    """Range in which the speedups per GPU are to lie, as in 0.35/0.65: the policy sets the number of nodes.
    None: it takes the nodes as they are."""
    scale_s: float = 300.0
    """Seconds between two looks at the number of nodes."""

    def __post_init__(self) -> None:
        checks = {
            "interval_s": (self.interval_s > 0.0, "above 0"),
            "restart_s": (self.restart_s >= 0.0, "0 or more"),
            "population": (self.population >= 2, "2 or more"),
            "generations": (self.generations >= 1, "1 or more"),
            "patience": (self.patience >= 1, "1 or more"),
            "most_gpus": (self.most_gpus >= 1, "1 or more"),
            "most_nodes": (self.most_nodes >= 1, "1 or more"),
            "growth": (self.growth > 1.0, "above 1"),
            "batch_gain": (self.batch_gain >= 0.0, "0 or more"),
            "scale_s": (self.scale_s > 0.0, "above 0"),
            "cell_nodes": (self.cell_nodes >= 1, "1 or more"),
        }
        for name, (holds, expected) in checks.items():
            if not holds:
                raise InputError(
                    f"policy 'pollux': {name}={getattr(self, name):g} does not do; expected {expected}"
                )
        if self.utility and not (
            len(self.utility) == 2 and 0.0 < self.utility[0] < self.utility[1] < math.inf
        ):
            given = "/".join(f"{value:g}" for value in self.utility)
            raise InputError(f"policy 'pollux': utility={given} is no range; expected such as 0.35/0.65")
