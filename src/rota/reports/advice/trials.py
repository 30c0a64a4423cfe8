"""The runs that an advice rests on, the most telling first, for as long as there is time.

First the present policy as the site ran it, beside the observations; then every candidate on the trace as it
is; then other seeds, with submissions a little moved; and other sources of durations.  Runs for which there
was no time are reported as missing, not guessed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rota.api.results import Results
from rota.api.simulation import simulate
from rota.api.site_terms import is_own_history
from rota.bounds import has_observed
from rota.errors import RotaError
from rota.model.cluster import Cluster
from rota.model.columns import Floats
from rota.model.record import Record
from rota.reports.advice.candidates import reads_durations
from rota.reports.advice.goals import Parts, WeightedGoals
from rota.reports.advice.part import ReplayedPart
from rota.reports.likeness import Calibration, PolicyFit
from rota.reports.sample import Sample
from rota.scheduler.policy import PolicySpec
from rota.traces.shaking import shaken
from rota.worlds.simulated.many import cores

DURATION = "duration"
Watch = Callable[[int, int, str], None]
"""Receives the number of runs done, the number in all, and the present run."""


class OutOfTimeError(RotaError):
    """The time that was given is over."""


@dataclass(frozen=True)
class Measured:
    """Record of one run."""

    policy: str
    values: tuple[float, ...]
    """Of the goals; NaN where there is none."""
    parts: tuple[Parts, ...]
    submit_s: Floats
    """Of the jobs that count."""
    finished: int
    preemptions: int

    @classmethod
    def of(cls, record: Record, part: ReplayedPart, wanted: WeightedGoals) -> Measured:
        sample = Sample.of(record, part.measured)
        parts = tuple(goal.parts(sample, wanted.power) for goal in wanted.goals)
        return cls(
            policy=record.policy,
            values=tuple(goal.fold(one.values) for goal, one in zip(wanted.goals, parts, strict=True)),
            parts=parts,
            submit_s=sample.column("submit_s"),
            finished=int(sample.finished.sum()),
            preemptions=int(sample.total("preemptions")),
        )


@dataclass(frozen=True)
class TrialPlan:
    """Plan of the runs."""

    part: ReplayedPart
    cluster: Cluster
    wanted: WeightedGoals
    present: PolicySpec
    candidates: Sequence[PolicySpec]
    knowledge: Mapping[str, str]
    """Sources of the candidates' knowledge; `duration` is among them."""
    site_knowledge: Mapping[str, str]
    """Sources of the present policy's knowledge: as the site had it."""
    durations: Sequence[str]
    """Other sources of durations to try the candidates with."""
    fit: PolicyFit | None
    """How the present policy was found; None if it was named, or if nothing is recorded."""
    unread: tuple[str, ...]
    """Options that neither the present policy nor a candidate reads, as sentences."""
    seeds: int
    world: Mapping[str, Any]
    """Further words for `simulate`."""
    time_s: float
    workers: int | None = None


@dataclass
class TrialRuns:
    """Results of the runs."""

    present: list[Measured] = field(default_factory=list)
    """By seed."""
    runs: dict[str, list[Measured]] = field(default_factory=dict)
    """By candidate, by seed; a candidate that was not done in time is not there."""
    others: dict[str, dict[str, Measured]] = field(default_factory=dict)
    """By source of durations, by candidate that reads them, at the first seed."""
    observed: Measured | None = None
    calibration: Calibration | None = None
    remarks: tuple[str, ...] = ()
    undone: list[str] = field(default_factory=list)
    """Candidates that were not run for lack of time."""
    spent_s: float = 0.0

    @property
    def seeds(self) -> int:
        """Seeds with a run of every policy that has any run."""
        return min([len(self.present), *map(len, self.runs.values())], default=0)


class TrialRunner:
    """One advice's runs, under one clock."""

    def __init__(self, plan: TrialPlan, told: Watch | None = None) -> None:
        self.plan, self.told = plan, told
        self.began_s = time.monotonic()
        self.trials = TrialRuns()
        self.done = 0
        readers = sum(map(reads_durations, plan.candidates))
        self.expected = (1 + len(plan.candidates)) * plan.seeds + readers * len(plan.durations)

    @property
    def left_s(self) -> float:
        return self.plan.time_s - (time.monotonic() - self.began_s)

    def run(self) -> TrialRuns:
        """Everything, as far as the time goes; the present policy runs however long it takes."""
        plan, trials = self.plan, self.trials
        self._present()
        for specs in self._batches(plan.candidates):
            for name, measured in self._measured(specs, plan.knowledge).items():
                trials.runs[name] = [measured]
        trials.undone = [str(spec) for spec in plan.candidates if str(spec) not in trials.runs]
        ran = [spec for spec in plan.candidates if str(spec) in trials.runs]
        self._seed(1, ran)
        for source in plan.durations:
            self._source(source, [spec for spec in ran if reads_durations(spec)])
        for seed in range(2, plan.seeds):
            self._seed(seed, ran)
        trials.spent_s = time.monotonic() - self.began_s
        return trials

    def _present(self) -> None:
        plan, trials = self.plan, self.trials
        results = self._simulate([plan.present], plan.site_knowledge, observed=True, unbounded=True)
        runs = {record.observed: Measured.of(record, plan.part, plan.wanted) for record in results.records}
        trials.present.append(runs[False])
        trials.observed = runs.get(True)
        trials.calibration = replace(results, fit=plan.fit).calibration
        here = [remark for remark in results.remarks if remark not in results.unread]  # others read it
        trials.remarks = (*here, *plan.unread)

    def _seed(self, seed: int, ran: Sequence[PolicySpec]) -> None:
        """All policies once more with submissions moved; none, if the time is too short for all."""
        plan, trials = self.plan, self.trials
        if seed >= plan.seeds or not ran:
            return
        part = replace(plan.part, trace=shaken(plan.part.trace, seed))
        measured = self._measured([plan.present], plan.site_knowledge, part, seed)
        for specs in self._batches(ran) if measured else ():
            measured |= self._measured(specs, plan.knowledge, part, seed)
        if len(measured) == 1 + len(ran):
            trials.present.append(measured[str(plan.present)])
            for spec in ran:
                trials.runs[str(spec)].append(measured[str(spec)])

    def _source(self, source: str, readers: Sequence[PolicySpec]) -> None:
        measured: dict[str, Measured] = {}
        for specs in self._batches(readers):
            measured |= self._measured(specs, {**self.plan.knowledge, DURATION: source})
        if measured and len(measured) == len(readers):
            self.trials.others[source] = measured

    def _batches(self, specs: Sequence[PolicySpec]) -> list[Sequence[PolicySpec]]:
        """A few at a time, so that those that are done are kept when the time is over."""
        size = 2 * max(1, min(self.plan.workers or cores(), cores()))
        return [specs[first : first + size] for first in range(0, len(specs), size)]

    def _measured(
        self,
        specs: Sequence[PolicySpec],
        knowledge: Mapping[str, str],
        part: ReplayedPart | None = None,
        seed: int = 0,
    ) -> dict[str, Measured]:
        """What each of `specs` came to; nothing once the time is over."""
        if self.left_s <= 0.0:
            return {}
        try:
            results = self._simulate(specs, knowledge, part, seed)
        except OutOfTimeError:
            return {}
        part = part or self.plan.part
        return {record.policy: Measured.of(record, part, self.plan.wanted) for record in results.records}

    def _simulate(
        self,
        specs: Sequence[PolicySpec],
        knowledge: Mapping[str, str],
        part: ReplayedPart | None = None,
        seed: int = 0,
        *,
        observed: bool = False,
        unbounded: bool = False,
    ) -> Results:
        plan = self.plan
        part = part or plan.part
        finished: set[str] = set()

        def progress(name: str, done: int, jobs: int) -> None:
            if done >= jobs:
                finished.add(name)
            if self.told is not None:
                self.told(self.done + len(finished), self.expected, name)
            if done < jobs and not unbounded and self.left_s <= 0.0:
                raise OutOfTimeError("the time is over")

        results = simulate(
            part.trace,
            cluster=plan.cluster,
            policies=list(specs),
            knowledge=knowledge,
            ideal=is_own_history(part.trace),  # in addition to the arguments here
            measure=part.measured,
            observed=observed,
            site_policy=str(plan.present) if observed and has_observed(part.trace) else None,
            seed=seed,
            workers=plan.workers,
            progress=progress,
            **plan.world,
        )
        self.done += len(specs)
        return results
