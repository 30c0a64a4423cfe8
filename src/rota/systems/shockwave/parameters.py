"""Parameters of Shockwave."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar


class Predictor(StrEnum):
    """How the epochs to come are divided among the batch sizes of a job."""

    RESTATE = "restate"  # what has ended is exact, the rest is shared evenly by what has not (paper)
    POSTERIOR = "posterior"  # the mean of the Bayesian posterior (authors' code)


@dataclass(frozen=True)
class ShockwaveParameters:
    """Parameters of `shockwave`.  The paper's k and lambda are the authors' `lambda` and `k`."""

    round_s: float = 120.0
    """Length of a round, in seconds."""
    window_rounds: int = 20
    """Rounds that are planned ahead (T)."""
    resolve_rounds: int = 8
    """Rounds after which the plan is made again, besides at each arrival and end."""
    makespan_weight: float = 1e-3
    """What a second of the longest run time left after the window counts against mean utility (the paper's
    lambda; the authors' k)."""
    fairness_exponent: float = 12.0
    """Power of a job's projected finish over its fair one that its utility is weighted with, where fair
    finishes cannot be kept (the authors' lambda, on 32 GPUs; the paper's k, about 5)."""
    rho_max: float = 1.0
    """Projected finish over fair finish that is to be kept."""
    predictor: Predictor = Predictor.RESTATE
    """How changes of batch size are foreseen."""
    resolve_on_regime_change: bool = False
    """Plan again when a job changes its batch size, too."""
    patience: float = 1.0
    """Windows that a job may wait without a round before it goes first, whatever the plan says."""
    nodes: int = 200
    """Branches that the plan may take; what is found by then is carried out, and the memory notes it."""
    whole_epochs: ClassVar[bool] = False
    """The forecast counts whole epochs, and takes the regimes of the profiled schedule."""
    counts_rounds: ClassVar[bool] = False
    """The clock is the number of rounds times their length, and only the end of a round wakes the policy."""
    by_moments: ClassVar[bool] = False
    """Weights compare moments, not times since submission."""
    waits_without_limit: ClassVar[bool] = False
    """No job goes first because it was passed by, and a job keeps no turn longer than a round."""
