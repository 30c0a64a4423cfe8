"""Timing rules as switches, and the published simulators as rows of switches.

Fidelity is decided here: two simulators of one policy differ in when arrivals are seen, when a finish
counts, how long a round is and what a restart costs.  A new simulator is a new row.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from rota.errors import InputError


class Arrivals(StrEnum):
    EVENT = "event"  # seen when they happen
    ROUND = "round"  # seen when the next round begins


class Finish(StrEnum):
    EXACT = "exact"  # at the moment the work is done
    ROUND_END = "round end"  # when the round in which the work is done ends
    EPOCH = "epoch"  # at the exact moment, but the devices are free only when the round ends


class RoundEnds(StrEnum):
    FIXED = "fixed"  # after `round_s`
    LATEST_STOP = "at the latest stop"  # when the last job of the round has done its steps


class Work(StrEnum):
    CONTINUOUS = "continuous"
    WHOLE_STEPS = "whole steps"  # a round holds a whole number of iterations


class Restart(StrEnum):
    ANY_CHANGE = "on any change"  # of the devices a job holds
    SHAPE_CHANGE = "on a change of shape"  # of how many, or of which type
    NEVER = "never"


@dataclass(frozen=True)
class Semantics:
    """How a simulated world keeps time."""

    name: str = "exact"
    arrivals: Arrivals = Arrivals.EVENT
    finish: Finish = Finish.EXACT
    round_s: float | None = None
    """Length of a round; None for worlds without rounds."""
    round_ends: RoundEnds = RoundEnds.FIXED
    work: Work = Work.CONTINUOUS
    restart: Restart = Restart.ANY_CHANGE
    clock_s: float = 0.0
    """Moments are rounded up to multiples of this; 0 is continuous time."""
    lag_s: float = 0.0
    """Time between the end of the work and the moment it is noticed."""


PRESETS: dict[str, Semantics] = {
    preset.name: preset
    for preset in (
        Semantics(),
        # Tiresias' simulator counts whole seconds and charges nothing for preemption.
        Semantics("tiresias", restart=Restart.NEVER, clock_s=1.0),
        # Gavel's advances round by round; a job that ends inside keeps its GPUs until the round is over.
        Semantics(
            "gavel",
            arrivals=Arrivals.ROUND,
            finish=Finish.EPOCH,
            round_s=360.0,
            round_ends=RoundEnds.LATEST_STOP,
            work=Work.WHOLE_STEPS,
            restart=Restart.NEVER,
        ),
    )
}


def semantics(name: str) -> Semantics:
    """The preset `name`."""
    if name not in PRESETS:
        raise InputError.at(f"{name!r} is no preset", field="--semantics", expected=", ".join(PRESETS))
    return PRESETS[name]
