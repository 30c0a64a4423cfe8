"""Parameters of Sia."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from rota.errors import InputError


class SiaMode(StrEnum):
    """Whose rules hold where the two differ."""

    PAPER = "paper"
    ARTIFACT = "artifact"  # the authors' simulator
    FIXED = "fixed"  # its program for jobs of one size (`sia_fix`), which needs power=0.5


AUTHORS_RESTART_S = {"deepspeech2": 25.0, "imagenet": 250.0, "cifar10": 30.0, "bert": 120.0, "yolov3": 45.0}
"""Seconds that a restart is taken to cost in the authors' policy, by workload; 30 for all others."""


@dataclass(frozen=True)
class SiaParameters:
    """Parameters of `sia`."""

    round_s: float = 60.0
    """Seconds between two decisions."""
    power: float = -0.5
    """Power of goodput in the objective (p): the lower, the fairer; above 0 sums of it are maximised."""
    no_allocation: float = 1.1
    """What leaving a job without GPUs costs (lambda); the least useful configuration costs 1."""
    restart_s: float = 30.0
    """Seconds that a restart is taken to cost (S)."""
    growth: float = 2.0
    """How many times the most GPUs that a job has been measured on it may be given."""
    most_gpus: int = 64
    """GPUs that a job gets at most."""
    restart_factor: bool = True
    """Discount configurations that need a restart; `no` lets every round begin anew."""
    gap: float = 1e-4
    """Part of the objective by which the program may miss its optimum."""
    nodes: int = 1_000
    """Branches that the search for the optimum may take; what is found by then is carried out."""
    wall_s: float = 20.0
    """Seconds after which the search is cut, as a safety net."""
    mode: SiaMode = SiaMode.PAPER
    """Rules for who may have what before anything is known of it, and for what a restart costs."""

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

    @property
    def is_artifact(self) -> bool:
        """True for the authors' simulator."""
        return self.mode is not SiaMode.PAPER

    def restart_of(self, workload: str) -> float:
        """Seconds that a restart of `workload` is taken to cost."""
        known = AUTHORS_RESTART_S if self.mode is SiaMode.ARTIFACT else {}
        return known.get(workload, self.restart_s)
