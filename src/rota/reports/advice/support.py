"""Whether the fit of the present policy supports a claim about the goals, and about which groups."""

from __future__ import annotations

from collections.abc import Iterator

from rota.reports.advice.goals import WeightedGoals
from rota.reports.calibration import misplaced_words, unexplained_words
from rota.reports.likeness import WITHIN, Calibration, Likeness
from rota.reports.wording import words

TAIL, FAIRNESS = "tail", "fairness"
GROUPS = ("size", "partition", "QOS", "priority")
"""Kinds of groups about which every goal says something; fairness speaks of tenants."""


def unsupported(
    calibration: Calibration | None, wanted: WeightedGoals, error: float | None
) -> tuple[str, ...]:
    """Why the fit supports no firm claim about the goals, as clauses; empty if it does, or if none is known.

    `error` is how far the replay's goals are from those observed, as a ratio less 1.
    """
    if calibration is None or not calibration.calibrated:
        return ()
    return tuple(_reasons(calibration, wanted, error))


def _reasons(calibration: Calibration, wanted: WeightedGoals, error: float | None) -> Iterator[str]:
    whole = calibration.groups[0]
    keys = {goal.key for goal in wanted.goals}
    if not whole.jobs:
        yield "it finished no job"
        return
    if "mean" in whole.unlike:
        yield f"jobs wait {_apart(whole, 'mean')} on average"
    elif not calibration.agrees:
        yield f"jobs wait about as long on average, but {misplaced_words(calibration)}"
    if TAIL in keys and "p99" in whole.unlike:
        yield f"the hundredth that waits longest waits at least {_apart(whole, 'p99')}"
    if error is not None and error > WITHIN:
        yield f"the goal itself is {100 * error:.0f}% off"


def unexplained(calibration: Calibration | None, wanted: WeightedGoals) -> str:
    """Of what nothing is said, since it does not fit: tails and groups, as one clause; empty if all fits."""
    if calibration is None or not calibration.groups:
        return ""
    whole, keys = calibration.groups[0], {goal.key for goal in wanted.goals}
    kinds = (*GROUPS, "tenant") if FAIRNESS in keys else GROUPS
    said = [f"the longest waits (p99 {_apart(whole, 'p99')})"] if "p99" in whole.unlike else []
    groups = calibration.unexplained(*kinds)
    return ", ".join([*said, *([unexplained_words(groups)] if groups else [])])


def _apart(group: Likeness, key: str) -> str:
    ours_s, seen_s = getattr(group.waiting, key), getattr(group.waiting_seen, key)
    return f"{words(ours_s, 's')} against {words(seen_s, 's')}"
