"""Which policy a site should adopt, and how firm that is: replays of its own trace, judged.

import rota
advice = rota.advise("sacct.txt", cluster="site.yaml", goal="jct=2,tail=1")
advice.write("advice.html")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np

from rota.api.no_effect import unread_remarks
from rota.api.prepared_trace import trace_as_asked
from rota.api.run_options import ARGUMENTS
from rota.api.run_setup import parse_knowledge
from rota.api.seeds import check_seeds
from rota.api.simulation import simulate
from rota.api.site_policy import fit_present, usual_policy
from rota.api.site_terms import RESTARTS
from rota.arguments import TEXT, WHOLE, Argument, all_of, takes
from rota.bounds import has_observed
from rota.errors import InputError
from rota.knowledge.needs import Knowledge
from rota.model.cluster import Cluster
from rota.model.trace import Trace
from rota.model.units import parse_duration
from rota.reports.advice.adoption import Adoption, Near, adoption, nearest
from rota.reports.advice.candidates import Candidates, Situation, candidates
from rota.reports.advice.goals import WeightedGoals, parse_goals, parse_power, wanted
from rota.reports.advice.part import MOST_JOBS, ReplayedPart, part_of
from rota.reports.advice.trials import DURATION, TrialPlan, TrialRunner, TrialRuns, Watch
from rota.reports.advice.verdict import Verdict, judge
from rota.reports.likeness import PolicyFit
from rota.scheduler.policy import PolicySpec, parse_policy
from rota.traces.capacity import cluster_from
from rota.traces.describe import TRACE
from rota.worlds.simulated.costs import Costs
from rota.worlds.simulated.measured_costs import MeasuredCosts

SEEDS = 3
TIME = "5m"
_TABLES: Mapping[str, frozenset[Knowledge]] = {
    "scaling": frozenset({Knowledge.SCALING, Knowledge.THROUGHPUT}),
    "throughput": frozenset({Knowledge.SCALING, Knowledge.THROUGHPUT}),
    "goodput": frozenset({Knowledge.SCALING, Knowledge.GOODPUT}),
    "pairs": frozenset({Knowledge.PAIRS}),
    "regimes": frozenset({Knowledge.REGIMES}),
}
"""Kinds of knowledge that each table provides."""


@dataclass(frozen=True)
class Advice:
    """What to do, and all that it rests on; it shows itself."""

    trace: Trace
    """As it was read."""
    part: ReplayedPart
    cluster: Cluster
    cluster_said: str
    """As it was typed."""
    wanted: WeightedGoals
    present: PolicySpec
    candidates: Candidates
    knowledge: Mapping[str, str]
    costs: str
    durations: tuple[str, ...]
    """Other sources of durations that were to be tried."""
    seeds: int
    """Replays of each policy that were to be made."""
    nearer: PolicyFit | None
    """The fit to the record, if the present policy was named and does not fit."""
    trials: TrialRuns
    verdict: Verdict

    @property
    def best(self) -> PolicySpec:
        return parse_policy(self.verdict.best.policy)

    @property
    def adoption(self) -> Adoption:
        """How the best comes into force."""
        return adoption(self.best, self.knowledge)

    @property
    def is_calibrated(self) -> bool:
        """Whether it is known how far the replay of the present policy is from what happened."""
        return self.trials.calibration is not None and self.trials.calibration.calibrated

    @property
    def is_slurm(self) -> bool:
        """Whether the trace is from a site with Slurm."""
        return self.trace.format == "sacct"

    @property
    def slurm(self) -> Near:
        """The nearest settings to the best policy in Slurm."""
        return nearest(self.best, self.trace)

    def to_dict(self) -> dict[str, object]:
        """Everything, as plain values for JSON."""
        from rota.reports.advice.plain import plain_advice

        return plain_advice(self)

    def text(self, width: int = 100, *, slurm: bool | None = None) -> str:
        """One screen of text."""
        from rota.reports.advice.view import text

        return text(self, width, slurm=self.is_slurm if slurm is None else slurm)

    def html(self) -> str:
        """The page: one file with everything in it."""
        from rota.reports.advice.page import render

        return render(self)

    def write(self, path: str | PathLike[str]) -> Path:
        """Write the page to `path`, whole or not at all."""
        from rota.reports.page import write_text

        target = Path(path)
        write_text(target, self.html())
        return target


_OPTION = TEXT.or_none()
_ARGUMENTS = {
    **ARGUMENTS,
    "trace": TRACE,
    "goal": TEXT,
    "policies": Argument("list of policies", all_of(str), "names such as ['tiresias', 'srtf']").or_none(),
    "present": _OPTION,
    "power": _OPTION,
    "window": _OPTION,
    "most_jobs": WHOLE,
    "time": TEXT,
    "deadlines": _OPTION,
    "elastic": _OPTION,
}


@takes(**_ARGUMENTS)
def advise(
    trace: str | PathLike[str] | Trace,
    *,
    cluster: str | PathLike[str] | Cluster = "auto",
    goal: str = "jct",
    policies: Sequence[str] | None = None,
    present: str | None = None,
    knowledge: str | Mapping[str, str] | None = None,
    costs: str | Costs | None = RESTARTS,
    power: str | None = None,
    window: str | None = None,
    most_jobs: int = MOST_JOBS,
    seeds: int = SEEDS,
    time: str = TIME,
    deadlines: str | None = None,
    elastic: str | None = None,
    format: str | None = None,
    workers: int | None = None,
    progress: Watch | None = None,
    **world: Any,
) -> Advice:
    """Replay `trace` under the present policy and others, and judge which serves the goals best.

    goal       `jct`, `tail`, `fairness`, `utilisation`, `deadlines`, `energy`; several: `jct=2,tail=1`
    policies   the candidates; those that suit the trace if None
    present    what the site runs now; None takes what fits the recorded starts best (`rota.api.site_policy`)
    knowledge  what candidates know, and from which source; durations are `predicted` unless given
    costs      of interruptions; `RESTARTS` unless given
    power      watts of a busy GPU and of an idle one, for `energy`: `300:60`, `A100=400:60,V100=300:50`
    window     the latest such stretch of the trace, `30d`, or START:END; all of it if None
    most_jobs  of the trace that count: the latest
    seeds      replays of each policy, all but the first with moved submissions (`rota.traces.shaking`)
    time       after which no further replay begins
    deadlines  factors of durations between which deadlines are drawn, as for `simulate`
    elastic    sizes that jobs of one size can run on as well, as for `simulate`
    world      further words of `simulate`: `can`, `throughput`, `scaling`, `goodput`, `failures` ...

    Raises InputError for anything that is not as expected.
    """
    weights = parse_goals(goal)
    whole = trace_as_asked(trace, format, elastic=elastic, deadlines=deadlines)
    part = part_of(whole, window, most_jobs)
    where = cluster if isinstance(cluster, Cluster) else cluster_from(cluster, whole)
    want = wanted(weights, part.trace, None if power is None else parse_power(power, where))
    said = parse_knowledge(knowledge)
    sources = {DURATION: "predicted", **said}
    limits = not np.isnan(part.trace.jobs.limit_s).all()
    as_known = {**sources, DURATION: "user" if limits else sources[DURATION]}

    def fit() -> PolicyFit:
        told = None if progress is None else lambda name, done, jobs: progress(0, 0, name)
        words = {"cluster": where, "knowledge": as_known, "costs": costs, "workers": workers}
        return fit_present(part.trace, simulate, {**world, **words, "progress": told})

    fitted = fit() if present is None and has_observed(part.trace) else None
    own = parse_policy(present or (fitted.policy if fitted else usual_policy(whole)))
    told = frozenset(kind for name, them in _TABLES.items() if world.get(name) is not None for kind in them)
    chosen = candidates(Situation(part.trace, where, frozenset(weights), told), own, policies)
    plan = TrialPlan(
        part=part,
        cluster=where,
        wanted=want,
        present=own,
        candidates=chosen.specs,
        knowledge=sources,
        site_knowledge=as_known,
        fit=fitted,
        unread=tuple(unread_remarks([own, *chosen.specs], said, {**world, "elastic": elastic})),
        durations=[one for one in ("predicted", *["user"] * limits, "noisy") if one != sources[DURATION]],
        seeds=check_seeds(seeds),
        world={**world, "costs": costs},
        time_s=parse_duration(time, field="--time"),
        workers=workers,
    )
    trials = TrialRunner(plan, progress).run()
    _refuse_nothing(trials, whole)
    named_badly = (
        present is not None and trials.calibration is not None and trials.calibration.agrees is False
    )
    return Advice(
        trace=whole,
        part=part,
        cluster=where,
        cluster_said="CLUSTER" if isinstance(cluster, Cluster) else str(fspath(cluster)),
        wanted=want,
        present=own,
        candidates=chosen,
        knowledge=sources,
        costs=_costs_words(costs),
        durations=tuple(plan.durations),
        seeds=seeds,
        nearer=fit() if named_badly else None,
        trials=trials,
        verdict=judge(trials, want, sources[DURATION]),
    )


def _costs_words(costs: str | Costs | None) -> str:
    """The costs as they can be typed, where they can."""
    if isinstance(costs, MeasuredCosts):
        return "measured"
    return costs if isinstance(costs, str) else "none" if costs is None else repr(costs)


def _refuse_nothing(trials: TrialRuns, trace: Trace) -> None:
    """Where no job ends there is nothing to compare."""
    if not any(one.finished for of in (trials.present, *trials.runs.values()) for one in of):
        raise InputError(
            f"{trace.source}: none of the jobs that count completes on this cluster, whoever schedules; "
            "expected a cluster that holds them (`rota simulate` names the jobs that it refuses)"
        )
