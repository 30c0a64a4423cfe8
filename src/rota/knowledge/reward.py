"""What it is worth to have finished a job by a moment: rewards that fall, in pieces, as time goes by.

Source    Betser, "Improving Service Level Agreements for a Job Scheduler by Visualizing Simulations", M.Eng.
          thesis, MIT 2012, for the agreement "by deadline"; shapes and numbers are ours
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rota.errors import InputError
from rota.model.columns import Floats
from rota.model.job_columns import Deadline


@dataclass(frozen=True)
class Reward:
    """Linear between its points and constant outside; of two points at one moment the first holds there."""

    points: tuple[tuple[float, float], ...]
    """Moments in seconds, ascending, each with what it is worth to be done then."""

    def __post_init__(self) -> None:
        moments = [at_s for at_s, _ in self.points]
        if not moments or sorted(moments) != moments or not np.isfinite(self.points).all():
            raise ValueError(f"{self.points} are no points of a reward: finite, in order of moments")

    def at(self, moment_s: Any) -> Any:
        """Reward of being done at `moment_s`, a number or an array; the last one at infinity."""
        at_s = np.asarray(moment_s, dtype=np.float64)
        moments, values = self._moments, self._values
        after = np.searchsorted(moments, at_s, side="left")
        right = np.minimum(after, len(moments) - 1)
        left = np.maximum(after - 1, 0)
        span_s = moments[right] - moments[left]
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.where(span_s > 0.0, (at_s - moments[left]) / span_s, 1.0)
            between = values[left] + (values[right] - values[left]) * part
        value = np.where(after == 0, values[0], np.where(after == len(moments), values[-1], between))
        return value if value.ndim else float(value)

    @cached_property
    def _moments(self) -> Floats:
        return np.array([at_s for at_s, _ in self.points], dtype=np.float64)

    @cached_property
    def _values(self) -> Floats:
        return np.array([value for _, value in self.points], dtype=np.float64)


MOST_REWARD = 1e15
"""Either way; sums of rewards stay exact to the unit."""


@dataclass(frozen=True)
class ByDeadline:
    """An agreement: the job is to have done a part of its work by a moment."""

    deadline_s: float
    full: float = 1.0
    """Reward of being in time."""
    floor: float = 0.0
    """Reward once the grace is over, and of never being done; a penalty if it is below 0."""
    grace_s: float = 0.0
    """Seconds after the deadline in which the reward falls from `full` to `floor`; 0 for a step."""
    min_fraction: float = 1.0
    """Part of the work that has to be done by then."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.deadline_s) and 0.0 <= self.grace_s < math.inf):
            raise InputError("an agreement by a deadline needs a moment, and a grace of 0 s or more")
        if not 0.0 < self.min_fraction <= 1.0:
            raise InputError(
                f"min_fraction={self.min_fraction:g} is no part of a job's work; expected above 0, at most 1"
            )
        if not -math.inf < self.floor <= self.full < math.inf:
            raise InputError(f"the reward cannot rise from full={self.full:g} to floor={self.floor:g}")
        for name, reward in (("full", self.full), ("floor", self.floor)):
            if abs(reward) > MOST_REWARD:
                raise InputError(f"{name}={reward:g} is no reward; expected at most {MOST_REWARD:g}")

    @property
    def reward(self) -> Reward:
        """What it is worth over time."""
        due_s = self.deadline_s
        return Reward(((due_s, self.full), (due_s + self.grace_s, self.floor)))


def fallen(moment_s: Any, due_s: Any, grace_s: Any) -> Any:
    """How far the rewards of many agreements have fallen at `moment_s`: 0 in time, 1 once the grace is over.

    Arrays of one shape, or numbers; never for a job without a deadline (NaN).
    """
    late_s = np.asarray(moment_s, dtype=np.float64) - due_s
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(late_s > 0.0, np.minimum(late_s / grace_s, 1.0), 0.0)


def by_steps(deadlines: Sequence[Deadline], floor: float = 0.0) -> Reward:
    """The reward of a job with several deadlines: the value of the first one kept, `floor` after the last."""
    values = [*(value for _, value in deadlines), floor]
    steps = zip(deadlines, values[:-1], values[1:], strict=True)
    return Reward(tuple(point for one, now, then in steps for point in ((one.at_s, now), (one.at_s, then))))
