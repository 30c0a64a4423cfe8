"""An operator's goals for a scheduler, each as a number of a run, and weights between several.

A goal is a number folded from parts: of single jobs, or of stretches of time.  The parts know their moment,
so that the number can be computed of some weeks only, or of another mixture of the weeks
(`rota.reports.advice.verdict`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from rota.errors import InputError
from rota.model.cluster import Cluster
from rota.model.columns import Floats
from rota.model.record import Record
from rota.model.trace import Trace
from rota.model.units import plural
from rota.reports.fairness import FEWEST_OF_A_TENANT, alone_on_share_s, worst_share
from rota.reports.metrics import waiting_s
from rota.reports.occupancy import closed_intervals, granted, node_types, whole_gpus_of
from rota.reports.sample import Sample
from rota.reports.series import binned
from rota.reports.wording import Unit

EXPECTED = "BUSY:IDLE watts such as 300:60, by type A100=400:60,V100=300:50"


@dataclass(frozen=True)
class Power:
    """Watts that a GPU draws more when it is held than when it is idle."""

    by_type: Mapping[str, float]
    """By GPU type of the cluster."""

    def joules(self, sample: Sample) -> Floats:
        """What each job drew above idle GPUs; NaN for a job that has not ended."""
        held = closed_intervals(sample.record).select("job", "start_s", "end_s", "gpus", "share", "nodes")
        watts = np.array([self.by_type[name] for name in node_types(sample.record)])
        each = held.with_columns(
            seconds=pl.col("end_s") - pl.col("start_s"),
            # Where a record does not say which devices a job held, they are taken to be a mean of all.
            node=pl.when(pl.col("nodes").list.len() > 0).then(pl.col("nodes")),
        )
        known = each.filter(pl.col("node").is_not_null()).explode("node")
        blind = each.filter(pl.col("node").is_null())
        drawn = np.zeros(len(sample.record.jobs))
        amount = known["seconds"].to_numpy() * known["share"].to_numpy()
        np.add.at(drawn, known["job"].to_numpy(), amount * watts[known["node"].to_numpy().astype(np.int64)])
        amount = blind["seconds"].to_numpy() * blind["share"].to_numpy() * blind["gpus"].to_numpy()
        np.add.at(drawn, blind["job"].to_numpy(), amount * (watts.mean() if len(watts) else 0.0))
        return np.where(sample.finished, drawn[sample.rows], np.nan)


def parse_power(text: str, cluster: Cluster) -> Power:
    """`300:60` for all GPUs, `A100=400:60,V100=300:50` by type; InputError if a type is left out."""
    above: dict[str, float] = {}
    for part in (part.strip() for part in text.split(",")):
        name, _, watts = part.rpartition("=")
        busy, colon, idle = watts.partition(":")
        try:
            draws = float(busy), float(idle)
            if not colon or not 0.0 <= draws[1] < draws[0] < float("inf"):
                raise ValueError
        except ValueError:
            raise InputError.at(f"{part!r} is no power", field="--power", expected=EXPECTED) from None
        above[name.strip().casefold()] = draws[0] - draws[1]
    types = {name: above.get(name.casefold(), above.get("")) for name in cluster.type_names}
    missing = next((name for name, watts in types.items() if watts is None), None)
    if missing is not None:
        raise InputError.at(f"says nothing of {missing}", field="--power", expected=EXPECTED)
    return Power({name: watts for name, watts in types.items() if watts is not None})


SLICES = 400
"""Stretches of time into which a utilisation is cut."""


@dataclass(frozen=True)
class Parts:
    """The parts that a goal is folded from."""

    moment_s: Floats
    """When each part stands: a job's submission, the begin of a stretch."""
    values: Floats
    """[part, column]; NaN where a part does not count."""


@dataclass(frozen=True)
class Goal:
    """One thing to want."""

    key: str
    label: str
    """Head of its column."""
    means: str
    """Its definition in words, after the key and a dash."""
    unit: Unit | None
    """None for joules."""
    lower: bool
    """True if less is better."""
    least: float
    """Differences below this are none: what values are raised to before they are divided."""
    parts: Callable[[Sample, Power | None], Parts]
    fold: Callable[[Floats], float]

    def of(self, sample: Sample, power: Power | None = None) -> float:
        """The goal's number of a run; NaN where it has none."""
        return self.fold(self.parts(sample, power).values)

    def cost(self, value: float) -> float:
        """The logarithm of a value, so that less is better and a difference is a ratio."""
        raised = math.log(max(value, self.least))
        return raised if self.lower else -raised


def _of_jobs(column: Callable[[Sample], Floats]) -> Callable[[Sample, Power | None], Parts]:
    def parts(sample: Sample, power: Power | None) -> Parts:
        return Parts(sample.column("submit_s"), column(sample)[:, None])

    return parts


def _tenants(sample: Sample, power: Power | None) -> Parts:
    columns = sample.jct_s, alone_on_share_s(sample), sample.tenant_codes.astype(np.float64)
    return Parts(sample.column("submit_s"), np.stack(columns, axis=1))


def _stretches(sample: Sample, power: Power | None) -> Parts:
    """GPU-seconds granted, and there, in equal stretches of the span."""
    start_s, end_s = sample.span.start_s, sample.span.end_s
    if end_s <= start_s:
        return Parts(np.zeros(0), np.zeros((0, 2)))
    cut = binned(granted(sample.record), start_s, end_s, SLICES)
    seconds = np.diff(cut.edges_s)
    there = seconds * whole_gpus_of(sample.record)
    return Parts(cut.edges_s[:-1], np.stack((cut.mean * seconds, there), axis=1))


def _deadlines(sample: Sample, power: Power | None) -> Parts:
    has = ~np.isnan(sample.column("deadline_s"))
    in_time = sample.column("finish_s") <= sample.column("deadline_s")
    kept = has & in_time & (sample.state == "COMPLETED")
    return Parts(sample.column("submit_s"), np.stack((kept, has), axis=1).astype(np.float64))


def _joules(sample: Sample, power: Power | None) -> Parts:
    assert power is not None, "checked before anything ran"
    return Parts(sample.column("submit_s"), power.joules(sample)[:, None])


def _mean(values: Floats) -> float:
    known = values[:, 0][~np.isnan(values[:, 0])]
    return float(known.mean()) if len(known) else math.nan


def _p99(values: Floats) -> float:
    known = values[:, 0][~np.isnan(values[:, 0])]
    return float(np.percentile(known, 99)) if len(known) else math.nan


def _part(values: Floats) -> float:
    """First column over the second."""
    whole = float(values[:, 1].sum())
    return float(values[:, 0].sum()) / whole if whole > 0 else math.nan


def _worst(values: Floats) -> float:
    worst = worst_share(values[:, 0], values[:, 1], values[:, 2].astype(np.int64))
    return math.nan if worst is None else worst


GOALS: Mapping[str, Goal] = {
    goal.key: goal
    for goal in (
        Goal(
            "jct",
            "mean JCT",
            "the mean time from a job's submission to its end",
            "s",
            True,
            1.0,
            _of_jobs(lambda sample: sample.jct_s),
            _mean,
        ),
        Goal(
            "tail",
            "p99 wait",
            "how long the hundredth of the jobs waits, at least, that waits longest; all time counts in "
            "which a job holds nothing, also after it was interrupted",
            "s",
            True,
            1.0,
            _of_jobs(waiting_s),
            _p99,
        ),
        Goal(
            "fairness",
            "worst tenant",
            "how many times longer the worst treated tenant's jobs take than alone on that tenant's even "
            "share of the cluster: the sum of its jobs' times from submission to end, over the sum of what "
            "they would take there; no time of a job counts as less than ten minutes",
            "times",
            True,
            1e-3,
            _tenants,
            _worst,
        ),
        Goal(
            "utilisation",
            "utilisation",
            "the part of all GPU-seconds that jobs hold, from the first to the last submission; how busy a "
            "GPU is that a job holds, no scheduler sees",
            "share",
            False,
            1e-3,
            _stretches,
            _part,
        ),
        Goal(
            "deadlines",
            "deadlines",
            "the part of the jobs with a deadline that completed by then; refused, failed and late ones "
            "missed it",
            "share",
            False,
            1e-3,
            _deadlines,
            _part,
        ),
        Goal(
            "energy",
            "energy a job",
            "the mean energy of a job above that of idle GPUs: GPU-seconds held, starts, restores and "
            "repeated work included, times the watts of a busy GPU less those of an idle one (--power); "
            "computed from what jobs hold, not measured",
            None,
            True,
            1.0,
            _joules,
            _mean,
        ),
    )
}
"""All goals by key."""


@dataclass(frozen=True)
class WeightedGoals:
    """Goals with weights, which add up to 1."""

    goals: tuple[Goal, ...]
    weights: tuple[float, ...]
    power: Power | None = None

    @property
    def one(self) -> Goal | None:
        """The goal, if there is one only."""
        return self.goals[0] if len(self.goals) == 1 else None

    @property
    def words(self) -> str:
        """`jct`, or `jct (2/3), tail (1/3)` as per cents."""
        if self.one:
            return self.one.key
        named = zip(self.goals, self.weights, strict=True)
        return ", ".join(f"{goal.key} ({100 * weight:.0f}%)" for goal, weight in named)

    def cost(self, values: Sequence[float]) -> float:
        """The weighted mean of the goals' costs: less is better, a difference is the logarithm of a ratio."""
        each = zip(self.goals, self.weights, values, strict=True)
        return sum(weight * goal.cost(value) for goal, weight, value in each)

    def distance(self, values: Sequence[float], others: Sequence[float]) -> float:
        """How far two runs are apart in all goals, whichever way: the weighted mean of their distances."""
        each = zip(self.goals, self.weights, values, others, strict=True)
        return sum(weight * abs(goal.cost(a) - goal.cost(b)) for goal, weight, a, b in each)

    def values(self, record: Record, sample: Sample) -> tuple[float, ...]:
        return tuple(goal.of(sample, self.power) for goal in self.goals)


def parse_goals(text: str) -> dict[str, float]:
    """`jct`, `jct,tail` or `jct=2,tail=1` as weights by key."""
    weights: dict[str, float] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, equals, weight = (piece.strip() for piece in part.partition("="))
        if key not in GOALS:
            expected = f"{', '.join(GOALS)}, or several with weights such as jct=2,tail=1"
            raise InputError.at(f"{key!r} is no goal", field="--goal", expected=expected)
        if key in weights:
            raise InputError.at(f"names {key} twice", field="--goal", expected="each goal once")
        try:
            weights[key] = float(weight) if equals else 1.0
        except ValueError:
            weights[key] = math.nan
        if not 0.0 < weights[key] < math.inf:
            raise InputError.at(f"{part!r} has no weight", field="--goal", expected=f"{key}=2, above 0")
    if not weights:
        raise InputError.at("names no goal", field="--goal", expected=f"one of {', '.join(GOALS)}")
    return weights


def wanted(weights: Mapping[str, float], trace: Trace, power: Power | None) -> WeightedGoals:
    """The goals of `weights`; InputError if the trace cannot say how well one is reached."""
    if "deadlines" in weights and not np.isfinite(trace.jobs.deadline_s).any():
        raise InputError.at(
            f"deadlines: no job of {trace.source} has one",
            field="--goal",
            expected="--deadlines 0.5:1.5 to draw some, or another goal",
        )
    if "energy" in weights and power is None:
        raise InputError.at(
            "energy: no trace says what a GPU draws",
            field="--goal",
            expected="--power 300:60 (watts of a busy GPU and of an idle one), or another goal",
        )
    if "fairness" in weights:
        _check_tenants(trace)
    total = sum(weights.values())
    return WeightedGoals(
        tuple(GOALS[key] for key in weights), tuple(weight / total for weight in weights.values()), power
    )


def _check_tenants(trace: Trace) -> None:
    counts = np.bincount(trace.jobs.tenant[trace.jobs.gpus > 0], minlength=1)
    enough = int((counts >= FEWEST_OF_A_TENANT).sum())
    if enough < 2:
        raise InputError.at(
            f"fairness: {plural(enough, 'tenant')} of {trace.source} with {FEWEST_OF_A_TENANT} jobs or more, "
            "and fairness is between two or more",
            field="--goal",
            expected="a trace with tenants, or another goal",
        )
