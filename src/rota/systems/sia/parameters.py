"""Parameters of Sia."""

from __future__ import annotations

from dataclasses import dataclass

from rota.errors import InputError


@dataclass(frozen=True)
class SiaParameters:
    """Parameters of `sia`."""

    round_s: float = 60.0
    """Seconds between two decisions."""
    power: float = -0.5
    """Power of goodput in the objective (p): the lower, the fairer; above 0 sums of it are maximised."""
    no_allocation: float = 1.1
    """Cost of leaving a job without GPUs (lambda); the least useful configuration costs 1."""
    restart_s: float = 30.0
    """Seconds that a restart is taken to cost (S)."""
    growth: float = 2.0
    """A job may be given this many times the most GPUs that it has been measured on."""
    most_gpus: int = 64
    """GPUs that a job gets at most."""
    restart_factor: bool = True
    """Discount configurations that need a restart; `no` lets every round start from nothing."""
    gap: float = 1e-4
    """Part of the objective by which the program may miss its optimum."""
    nodes: int = 1_000
    """Branches that the search for the optimum may take; the best answer by then is carried out."""
    wall_s: float = 20.0
    """Seconds after which the search is cut, as a safety net."""

    def __post_init__(self) -> None:
        if self.power == 0.0:
            raise InputError("sia: power=0 ranks nothing; expected a number below 0, or above")
        if self.no_allocation <= 1.0:
            raise InputError(
                f"sia: no_allocation={self.no_allocation:g} makes it cheaper to leave a job without GPUs "
                "than to serve it; expected more than 1"
            )
        if self.growth < 1.0 or self.round_s <= 0.0:
            raise InputError("sia: expected growth of at least 1 and rounds longer than 0 s")
