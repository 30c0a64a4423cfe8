"""The best policy, the policies that are statistically equal to it, and how firm that is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rota.model.columns import Floats
from rota.reports.advice.goals import Parts, WeightedGoals
from rota.reports.advice.trials import Measured, TrialRuns
from rota.reports.calibration import misplaced_words, unexplained_words
from rota.reports.confidence import DRAWS, FEWEST_JOBS, Mixtures, edges_of, likely, mixtures
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


Run = Sequence[Parts]
"""The parts of one run, goal by goal."""


@dataclass(frozen=True)
class PolicyCosts:
    """What each of several policies costs (`WeightedGoals.cost`), by draw."""

    names: tuple[str, ...]
    draws: Floats
    """[policy, draw]"""

    def between(self, first: str, second: str) -> tuple[float, float]:
        """Within which the cost of `first` less that of `second` lies in `LIKELY` of the draws."""
        change = self.draws[self.names.index(first)] - self.draws[self.names.index(second)]
        return likely(change)


def drawn_costs(
    runs: Mapping[str, Sequence[Run]], wanted: WeightedGoals, submit_s: Sequence[Floats]
) -> PolicyCosts:
    """The draws of all policies.

    `runs` has for each policy one run of every seed; `submit_s` the counted submissions of every seed.
    """
    edges = [edges_of(moments) for moments in submit_s]
    drawn = mixtures([len(one) + 1 for one in edges])
    draws = np.array(
        [
            _costs([_blocks(run, edge) for run, edge in zip(of, edges, strict=True)], drawn, wanted)
            for of in runs.values()
        ]
    )
    return PolicyCosts(tuple(runs), draws.reshape(len(runs), DRAWS))


def _blocks(run: Run, edges: Floats) -> list[list[Floats]]:
    """By goal, the values of each block."""
    cut = []
    for parts in run:
        place = np.searchsorted(edges, parts.moment_s, side="right")
        order = np.argsort(place, kind="stable")
        cut.append(np.split(parts.values[order], np.searchsorted(place[order], np.arange(1, len(edges) + 1))))
    return cut


def _costs(
    by_seed: Sequence[Sequence[Sequence[Floats]]], drawn: Mixtures, wanted: WeightedGoals
) -> list[float]:
    costs = []
    for seed, chosen in zip(drawn.seeds.tolist(), drawn.picks, strict=True):
        mixtures = [
            np.concatenate([of_goal[block] for block in chosen.tolist()]) for of_goal in by_seed[seed]
        ]
        values = [goal.fold(mixture) for goal, mixture in zip(wanted.goals, mixtures, strict=True)]
        costs.append(wanted.cost(values) if np.isfinite(values).all() else np.nan)
    return costs


@dataclass(frozen=True)
class VerdictLine:
    """One policy in comparison with the others."""

    policy: str
    values: tuple[float, ...]
    """Of the goals, the mean over seeds."""
    cost: float
    """`WeightedGoals.cost`, the mean over seeds; NaN if it is not ranked."""
    ratio: float
    """Of its cost to that of the present policy: 0.8 is a fifth better."""
    low: float
    high: float
    """The range of that ratio over seeds and mixtures of blocks."""
    preemptions: float
    """Mean over seeds."""
    undecided: bool
    """True for the best policy and those statistically equal to it."""
    unranked: str = ""
    """Why it is not ranked; empty if it is."""
    is_present: bool = False


@dataclass(frozen=True)
class ToldDurations:
    """How the policies do if durations are known from elsewhere."""

    source: str
    values: Mapping[str, tuple[float, ...]]
    """By policy; those that read no durations stay as they were."""
    best: tuple[str, ...]
    """The best policy, and those statistically equal to it."""


@dataclass(frozen=True)
class Verdict:
    """All that was found."""

    lines: tuple[VerdictLine, ...]
    """The best first; those that are not ranked last."""
    told: tuple[ToldDurations, ...]
    """By source of durations; the first is the one that the lines rest on."""
    replay_error: float | None
    """How far the replay of the present policy is from what happened, as a ratio less 1; None if unknown."""
    unsupported: tuple[str, ...]
    """Why that replay is not near enough to go by, as clauses; empty if it is, or if nothing was observed."""
    enough: bool
    """Whether there are jobs enough to tell anything apart."""
    seeds: int

    @property
    def present(self) -> VerdictLine:
        return next(line for line in self.lines if line.is_present)

    @property
    def best(self) -> VerdictLine:
        return self.lines[0]

    @property
    def undecided(self) -> tuple[VerdictLine, ...]:
        """The best policy, and those statistically equal to it."""
        return tuple(line for line in self.lines if line.undecided)

    @property
    def stays(self) -> bool:
        """True if no policy is decidedly better than the present one."""
        return self.present.undecided

    @property
    def firm(self) -> bool:
        """Whether there is something to adopt with confidence."""
        return self.enough and not self.unsupported and not self.stays

    @property
    def doubts(self) -> tuple[ToldDurations, ...]:
        """Sources of durations under which the best policy is no longer among the best."""
        return tuple(one for one in self.told[1:] if self.best.policy not in one.best)


def judge(trials: TrialRuns, wanted: WeightedGoals, source: str) -> Verdict:
    """The verdict over `trials`, with durations for candidates from `source`."""
    seeds = trials.seeds
    present = trials.present[0].policy
    runs = {present: trials.present[:seeds]} | {name: of[:seeds] for name, of in trials.runs.items()}
    error = _replay_error(trials, wanted)
    unranked = {name: why for name, of in runs.items() if (why := _unranked(of, runs, wanted))}
    ranked = {name: of for name, of in runs.items() if name not in unranked}
    enough = len(trials.present[0].submit_s) >= FEWEST_JOBS and present in ranked
    drawn = _drawn(ranked, wanted)
    costs = {name: float(np.mean([wanted.cost(one.values) for one in of])) for name, of in ranked.items()}
    doubts = unsupported(trials.calibration, wanted, error)
    # Without a fit the ranking is of the replay alone; it is not firm, whatever the differences.
    least = (0.0 if doubts else math.log1p(error or 0.0)) if enough else math.inf
    best = _best(costs, drawn, least)
    lines = [
        _line(name, of, present, costs, drawn, name in best, unranked.get(name, ""))
        for name, of in runs.items()
    ]
    # Equal ones stay in the order of trial; the present one goes before them.
    lines.sort(key=lambda line: (bool(line.unranked), 0.0 if line.unranked else line.cost))
    told = [ToldDurations(source, {line.policy: runs[line.policy][0].values for line in lines}, best)]
    told += [_told(one, runs_told, ranked, wanted, least) for one, runs_told in trials.others.items()]
    return Verdict(tuple(lines), tuple(told), error, doubts, enough, seeds)


def _drawn(runs: Mapping[str, Sequence[Measured]], wanted: WeightedGoals) -> PolicyCosts:
    first = next(iter(runs.values()), ())
    parts = {name: [one.parts for one in of] for name, of in runs.items()}
    return drawn_costs(parts, wanted, [one.submit_s for one in first])


def _replay_error(trials: TrialRuns, wanted: WeightedGoals) -> float | None:
    """How far observed and replayed values of the goals are apart; None if nothing was observed."""
    if trials.observed is None:
        return None
    pairs = zip(wanted.goals, wanted.weights, trials.observed.values, trials.present[0].values, strict=True)
    known = [
        (weight, abs(goal.cost(seen) - goal.cost(ours)))
        for goal, weight, seen, ours in pairs
        if math.isfinite(seen) and math.isfinite(ours)
    ]
    whole = sum(weight for weight, _ in known)
    return math.expm1(sum(weight * apart for weight, apart in known) / whole) if known else None


def _unranked(of: Sequence[Measured], runs: Mapping[str, Sequence[Measured]], wanted: WeightedGoals) -> str:
    """Why a policy is not compared with the others; empty if it is."""
    if not all(math.isfinite(value) for one in of for value in one.values):
        return "it has no number for the goal"
    most = max(one[0].finished for one in runs.values())
    if of[0].finished < most and any(goal.key != "deadlines" for goal in wanted.goals):
        return f"{of[0].finished:,} jobs finished, under others {most:,}"
    return ""


def _best(costs: Mapping[str, float], drawn: PolicyCosts, least: float) -> tuple[str, ...]:
    """The cheapest, then all that it does not beat: by more than `least`, in nearly all draws."""
    order = sorted(costs, key=costs.__getitem__)
    if not order:
        return ()
    first = order[0]
    return (first, *(name for name in order[1:] if not _beats(first, name, costs, drawn, least)))


def _beats(first: str, other: str, costs: Mapping[str, float], drawn: PolicyCosts, least: float) -> bool:
    return drawn.between(first, other)[1] < 0.0 and costs[other] - costs[first] > least


def _line(
    name: str,
    of: Sequence[Measured],
    present: str,
    costs: Mapping[str, float],
    drawn: PolicyCosts,
    undecided: bool,
    unranked: str,
) -> VerdictLine:
    ratio = low = high = math.nan
    if not unranked and present in costs:
        edges, change = drawn.between(name, present), costs[name] - costs[present]
        ratio, low, high = (math.exp(one) for one in (change, min(*edges, change), max(*edges, change)))
    return VerdictLine(
        policy=name,
        values=tuple(float(np.mean(values)) for values in zip(*(one.values for one in of), strict=True)),
        cost=costs.get(name, math.nan),
        ratio=ratio,
        low=low,
        high=high,
        preemptions=float(np.mean([one.preemptions for one in of])),
        undecided=undecided,
        unranked=unranked,
        is_present=name == present,
    )


def _told(
    source: str,
    measured: Mapping[str, Measured],
    ranked: Mapping[str, Sequence[Measured]],
    wanted: WeightedGoals,
    least: float,
) -> ToldDurations:
    """The first seed's runs, with those that got durations from `source` in place of the usual ones."""
    runs = {name: [measured.get(name, of[0])] for name, of in ranked.items()}
    costs = {name: wanted.cost(of[0].values) for name, of in runs.items()}
    best = _best(costs, _drawn(runs, wanted), least)
    return ToldDurations(source, {name: of[0].values for name, of in runs.items()}, best)
