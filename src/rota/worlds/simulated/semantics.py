"""Timing rules as switches, and the published simulators as rows of switches.

Fidelity is decided here: two simulators of one policy differ in when arrivals are seen, when a finish
counts, how long a round is and what a restart costs.  A new simulator is a new row.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from enum import StrEnum

from rota.errors import InputError
from rota.model.cluster import Cluster
from rota.model.grants import Grant
from rota.model.options import parse_options
from rota.model.units import parse_duration


class Arrivals(StrEnum):
    EVENT = "event"  # seen when they happen
    ROUND = "round"  # seen when the next round begins


class Finish(StrEnum):
    EXACT = "exact"  # at the moment the work is done
    ROUND_END = "round end"  # when the round in which the work is done ends
    EPOCH = "epoch"  # at the exact moment, but the devices are free only when the round ends


class RoundEnds(StrEnum):
    FIXED = "fixed"  # after `round_s`
    TICKS = "ticks"  # after `round_s`, but running jobs go from event to event, and silent rounds pass
    LATEST_STOP = "at the latest stop"  # when the last job of the round has done its steps
    ARRIVAL = "at an arrival"  # after `round_s`, or earlier if a job arrives
    MERGED = "merged events"  # with the next event, but not before `round_s`: closer ones are seen together
    MERGED_ALL = "merged events, whatever they are"  # but the only one that is left is seen at once
    PLANNED = "merged events, of which ends are as planned"  # at whole slots after a decision
    SLOTS = "slots from the first arrival"  # every `round_s` from then on
    MERGED_ARRIVALS = "merged arrivals"  # the same for arrivals alone; after the last one, every `round_s`


class Work(StrEnum):
    CONTINUOUS = "continuous"
    WHOLE_STEPS = "whole steps"  # a round holds a whole number of iterations


class Charge(StrEnum):
    """Which jobs pay for a decision."""

    COSTS = "as the costs say"
    EVERYONE = "everyone"  # ElasticFlow: all jobs at each decision, as long as jobs are still to arrive
    SCALED = "scaled"  # Shockwave: those that did not run in the round before, if they run through this one
    HOLDERS = "those that hold devices"  # ElasticFlow: less where the same devices have worked together
    STARTED = "started"  # those that start, when the round is over; a job that ends in it pays nothing


class Restart(StrEnum):
    ANY_CHANGE = "on any change"  # of the devices a job holds
    NODE_CHANGE = "on a change of nodes"  # of how many devices on which of them
    SHAPE_CHANGE = "on a change of shape"  # how many devices a node has, or their type
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
    charge: Charge = Charge.COSTS
    clock_s: float = 0.0
    """Moments are rounded up to multiples of this; 0 is continuous time."""
    epoch_clock_s: float = 0.0
    """The work at which a job's rate changes, or at which it is done, is reached at the nearest multiple of
    this (Pollux, Sia: whole seconds); 0: at the exact moment."""
    lag_s: float = 0.0
    """Time between the end of the work and the moment it is noticed."""
    ends_with_company: bool = False
    """In rounds, a job that finishes beside others on its devices is done when the last of them stops."""


_ELASTICFLOW = Semantics(
    "elasticflow",
    arrivals=Arrivals.ROUND,
    finish=Finish.EPOCH,
    round_s=60.0,
    round_ends=RoundEnds.MERGED,
    restart=Restart.NEVER,
)

_GAVEL = Semantics(
    "gavel",
    arrivals=Arrivals.ROUND,
    finish=Finish.EPOCH,
    round_s=360.0,
    round_ends=RoundEnds.LATEST_STOP,
    work=Work.WHOLE_STEPS,
    restart=Restart.NEVER,
    ends_with_company=True,
)

_POLLUX = Semantics(
    "pollux",
    arrivals=Arrivals.ROUND,
    finish=Finish.EPOCH,
    round_s=60.0,
    round_ends=RoundEnds.TICKS,
    restart=Restart.NODE_CHANGE,
    epoch_clock_s=1.0,
)

PRESETS: dict[str, Semantics] = {
    preset.name: preset
    for preset in (
        Semantics(),
        # Tiresias' simulator counts whole seconds and charges nothing for preemption.
        Semantics("tiresias", restart=Restart.NEVER, clock_s=1.0),
        # Helios' and Lucid's tick in seconds.  Where they can preempt, work is counted down from the tick
        # after a start, so that every stretch that ends a job is a second longer.
        Semantics("helios", restart=Restart.NEVER, clock_s=1.0),
        Semantics("helios-preemptive", restart=Restart.NEVER, clock_s=1.0, lag_s=1.0),
        Semantics("lucid", restart=Restart.NEVER, clock_s=1.0),
        Semantics("lucid-preemptive", restart=Restart.NEVER, clock_s=1.0, lag_s=1.0),
        # Chronus's ticks in minutes and notes when in a minute a job ended: jobs end at whole seconds.
        Semantics("chronus", epoch_clock_s=1.0),
        # PAI's ticks in seconds: ends and arrivals of one second come before it allocates.
        Semantics("pai", restart=Restart.NEVER, clock_s=1.0),
        # Gavel's advances round by round; a job that ends inside keeps its GPUs until the round is over.
        _GAVEL,
        # Shockwave's (a fork of Gavel's) has shorter rounds, and restarts cost something.  Batch sizes change
        # at the end of a round (`speed_regimes`).
        replace(_GAVEL, name="shockwave", round_s=120.0, charge=Charge.SCALED),
        # Synergy's has rounds of a fixed length: a job that ends inside ends with it; moving costs nothing.
        Semantics(
            "synergy",
            arrivals=Arrivals.ROUND,
            finish=Finish.ROUND_END,
            round_s=300.0,
            work=Work.WHOLE_STEPS,
            restart=Restart.NEVER,
        ),
        # The Gandiva of Tiresias' simulator looks every 10 s and at arrivals.
        Semantics(
            "tiresias-gandiva",
            arrivals=Arrivals.ROUND,
            finish=Finish.ROUND_END,
            round_s=10.0,
            round_ends=RoundEnds.ARRIVAL,
            restart=Restart.NEVER,
            clock_s=1.0,
        ),
        # Pollux's ticks by the minute: jobs wait for the next tick, what comes free in it for the end of it;
        # epochs, and jobs, end at whole seconds.  Restarts are costs: start=30s,restore=30s.
        _POLLUX,
        # Sia's is the same, but a job that keeps its shape on one type moves for nothing.
        replace(_POLLUX, name="sia", restart=Restart.SHAPE_CHANGE),
        # ElasticFlow's merges what happens within a slot; its policies pay for decisions in different ways.
        _ELASTICFLOW,
        replace(_ELASTICFLOW, name="elasticflow-tiresias", charge=Charge.STARTED),
        # Its EDF pays nothing, and jobs end at whole seconds.
        replace(_ELASTICFLOW, name="elasticflow-edf", round_ends=RoundEnds.MERGED_ALL, clock_s=1.0),
        # Its elastic modes stop every job at each decision, and jobs end at a whole slot after it.
        replace(
            _ELASTICFLOW,
            name="elasticflow-ef",
            round_ends=RoundEnds.PLANNED,
            charge=Charge.HOLDERS,
            clock_s=1.0,
        ),
        # Its Themis looks at the end of every slot, and nothing costs anything.
        replace(_ELASTICFLOW, name="elasticflow-themis", finish=Finish.ROUND_END, round_ends=RoundEnds.SLOTS),
        replace(
            _ELASTICFLOW,
            name="elasticflow-gandiva",
            round_ends=RoundEnds.MERGED_ARRIVALS,
            charge=Charge.EVERYONE,
        ),
    )
}


def is_restart(restart: Restart, cluster: Cluster, old: Grant, new: Grant) -> bool:
    """True if a job that moves from `old` to `new` has to begin again."""
    if restart is Restart.NEVER or restart is Restart.ANY_CHANGE:
        return restart is Restart.ANY_CHANGE
    before, after = _per_node(cluster, old), _per_node(cluster, new)
    if restart is Restart.NODE_CHANGE:
        return before != after
    kinds = [{cluster.device_type.item(device) for device in grant.devices} for grant in (old, new)]
    return sorted(before.values()) != sorted(after.values()) or kinds[0] != kinds[1]


def _per_node(cluster: Cluster, grant: Grant) -> Counter[int]:
    """Devices of a grant by node."""
    return Counter(cluster.device_node[list(grant.devices)].tolist())


def semantics(text: str) -> Semantics:
    """The preset `gavel`, or a preset with rounds of another length: `gavel:round=2m`."""
    name, _, tail = text.partition(":")
    if name not in PRESETS:
        raise InputError.at(f"{name!r} is no preset", field="--semantics", expected=", ".join(PRESETS))
    preset, field = PRESETS[name], f"--semantics {name}"
    options = parse_options(tail, field=field, known=("round",))
    if "round" not in options:
        return preset
    round_s = parse_duration(options["round"], field=f"{field}:round")
    if preset.round_s is None or not round_s > 0.0:
        raise InputError(
            f"{field} cannot have rounds of {round_s:g} s; expected a preset with rounds, above 0"
        )
    return replace(preset, name=text, round_s=round_s)


def round_s_of(semantics: Semantics) -> float:
    """Length of a round; refuses switches that rounds do not have."""
    if not semantics.round_s:
        raise InputError.at(f"semantics {semantics.name!r} has no rounds", expected="a round length")
    if semantics.arrivals is Arrivals.EVENT or semantics.finish is Finish.EXACT:
        raise InputError(
            f"semantics {semantics.name!r}: in rounds, arrivals and free devices are seen at round ends; "
            "expected arrivals=round, and finish=epoch or round end"
        )
    return semantics.round_s
