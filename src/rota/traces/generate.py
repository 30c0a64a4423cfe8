"""Philly-like traces of any size, from published figures and one seed (see docs/generator.md).

    virtual clusters -> submissions in batches -> series of similar jobs (user, size, program)
                     -> runtimes -> outcomes and attempts -> span that gives the wanted load

Everything is drawn from one NumPy generator in this order, so that a seed identifies a trace; the causes of
failures have a generator of their own.
"""

from __future__ import annotations

from os import PathLike

import numpy as np

from rota.arguments import NUMBER, WHOLE, Argument, either, instance_of, is_file, is_number, takes
from rota.errors import InputError
from rota.model.cluster import Cluster
from rota.model.columns import Array, Bools, Floats, Ints
from rota.model.jobs import JobTable, Outcome, Truth
from rota.model.trace import Trace
from rota.model.units import plural
from rota.traces.arrivals import place_in_span
from rota.traces.capacity import cluster_from
from rota.traces.philly_figures import (
    ATTEMPTS_MEAN,
    BUCKET_LIMITS,
    BUCKETS,
    MAX_ATTEMPTS,
    OUTCOME_JOB_SHARES,
    PAPER_DAYS,
    PAPER_JOBS,
    PERCENTS,
    RUNTIME_MIN,
    RUNTIME_TAIL_MIN,
    TAIL_PERCENTS,
)
from rota.traces.population import Population, draw_population
from rota.traces.signatures import draw_signatures

# Our own choices, which the published figures do not determine.
WORKLOADS = {
    "resnet50": 0.22, "resnet152": 0.08, "inception3": 0.10, "googlenet": 0.05, "bert": 0.15,
    "gpt2": 0.10, "deepspeech2": 0.10, "vgg16": 0.10, "vgg19": 0.05, "alexnet": 0.05,
}  # fmt: skip
"""Program -> share of series; the VGGs and AlexNet have skewed tensors, the others do not."""

SERIES_SIMILARITY = 0.9
"""Part of the variance of a runtime's (normal) score that jobs of a series have in common."""
KILLED_POWER = 1.9
"""The chance of being killed grows with this power of the job's rank by GPU-time."""
ATTEMPT_JITTER = 0.1
_OF_SIGNATURES = 1
"""Index of the seed's generator that draws the causes of failures."""
MOST_JOBS = 10_000_000
"""Largest number of jobs: about a hundred times Philly, which still fits into memory."""
MOST_SPAN_S = 86400.0 * 1e6
"""Longest span: moments with a resolution of a millisecond stay exact, and readable."""
LIMIT_MENU_H = (0.25, 0.5, 1, 2, 4, 8, 12, 24, 48, 72, 168, 336, 720, 2160)
"""Time limits that users typically set, in hours."""


_CLUSTER = Argument(
    "cluster",
    either(is_file, is_number, instance_of(Cluster)),
    "8 (GPUs), '2x4' (nodes x GPUs), or a Cluster",
)


@takes(jobs=WHOLE, seed=WHOLE, load=NUMBER.or_none(), cluster=_CLUSTER.or_none(), days=NUMBER.or_none())
def generate(
    jobs: int,
    *,
    seed: int = 0,
    load: float | None = None,
    cluster: str | PathLike[str] | Cluster | int | None = None,
    days: float | None = None,
) -> Trace:
    """A trace of `jobs` jobs with Philly's mix, runtimes, bursts and failures.

    The span between first and last submission is `days`, or the span that gives `cluster` (as for `simulate`,
    or its number of GPUs) the load `load`: the part of it that would be busy if no job waited. Work after the
    last submission does not count for the load, which matters if jobs are long compared with the span.
    Without `days` and `load` the span follows the paper's rate, 96,260 jobs in 75 days. With a cluster, no
    job asks for more than it has.

    Raises `InputError` for sizes that are impossible.
    """
    gpus_in_all = _gpus_of(cluster)
    _check(jobs, seed, load, gpus_in_all, days)
    rng = np.random.default_rng(seed)
    people = draw_population(rng, jobs, gpus_in_all)
    gpus = people.series_gpus[people.series]
    runtime_s = _draw_runtimes(rng, gpus, people.series)
    outcome = _draw_outcomes(rng, runtime_s * gpus)
    attempts_s = _draw_attempts(rng, runtime_s, outcome)
    limit_s = _draw_limits(rng, runtime_s, people.series)
    workload = rng.choice(len(WORKLOADS), size=len(people.series_names), p=list(WORKLOADS.values()))
    if load is not None and gpus_in_all is not None:
        span_s = _span_of_load(people, runtime_s, gpus, load, gpus_in_all)
    else:
        span_s = 86400.0 * (days if days is not None else jobs * PAPER_DAYS / PAPER_JOBS)
    if span_s > MOST_SPAN_S:
        raise InputError(
            f"the submissions of a generated trace would span {span_s / 86400.0:.3g} days; expected at most "
            f"{MOST_SPAN_S / 86400.0:,.0f}"
        )
    submit_s = np.round(place_in_span(people.head, people.lag_s, span_s), 3)
    order = np.argsort(submit_s, kind="stable")
    series = people.series[order]
    width = len(str(jobs))
    table = JobTable.build(
        [f"j{number:0{width}d}" for number in range(1, jobs + 1)],
        submit_s=submit_s[order],
        gpus=gpus[order],
        limit_s=limit_s[order],
        tenant=people.series_tenant[series],
        group=series,
        workload=workload[series],
        tenant_names=people.tenant_names,
        group_names=people.series_names,
        workload_names=tuple(WORKLOADS),
    )
    facts: dict[str, object] = {"seed": seed, "span_s": span_s, "second 0": "Monday 00:00"}
    if load is not None:
        facts |= {"load": load, "gpus": gpus_in_all}
    truth = _truth(attempts_s[order], outcome[order], np.random.default_rng([seed, _OF_SIGNATURES]))
    return Trace(table, truth, _source(jobs, seed), "rota", facts=facts)


def _gpus_of(cluster: str | PathLike[str] | Cluster | int | None) -> int | None:
    if isinstance(cluster, str | PathLike):
        cluster = cluster_from(cluster)
    return cluster.gpus if isinstance(cluster, Cluster) else cluster


def _source(jobs: int, seed: int) -> str:
    return f"generated (Philly-like, {plural(jobs, 'job')}, seed {seed})"


def _check(jobs: int, seed: int, load: float | None, gpus: int | None, days: float | None) -> None:
    if jobs < 1:
        raise InputError(f"cannot generate a trace of {jobs} jobs; expected at least 1")
    if jobs > MOST_JOBS:
        raise InputError(f"cannot generate a trace of {jobs:,} jobs; expected at most {MOST_JOBS:,}")
    if seed < 0:
        raise InputError.at(f"{seed} is no seed", field="--seed", expected="0 or above")
    if load is not None and days is not None:
        raise InputError("load and days both set the span of a generated trace; expected one of them")
    if load is not None and gpus is None:
        raise InputError("a load is relative to a cluster; expected a cluster or its number of GPUs too")
    if load is not None and jobs < 2:
        raise InputError("one job has no span and so no load; expected at least 2 jobs")
    for name, value in (("load", load), ("days", days), ("number of GPUs", gpus)):
        if value is not None and not 0 < value < float("inf"):
            raise InputError(f"the {name} of a generated trace is {value}; expected a number above 0")


def _span_of_load(people: Population, runtime_s: Floats, gpus: Ints, load: float, gpus_in_all: int) -> float:
    """Seconds between the first and the last submission in which `load` of the GPUs would be busy."""
    from scipy.optimize import brentq

    if gpus.sum() <= load * gpus_in_all:
        few = f"{plural(len(gpus), 'job')} with {int(gpus.sum()):,} GPUs"
        raise InputError(
            f"{few} cannot load {gpus_in_all:,} GPUs to {load:g}, even at once; expected more jobs"
        )

    def excess(span_s: float) -> float:
        left_s = span_s - place_in_span(people.head, people.lag_s, span_s)
        return float(np.minimum(runtime_s, left_s) @ gpus) / (gpus_in_all * span_s) - load

    longest_s = float(runtime_s @ gpus) / (gpus_in_all * load)  # if all the work fell within the span
    shortest_s = longest_s
    while excess(shortest_s) < 0:
        shortest_s /= 2
    return float(brentq(excess, shortest_s, longest_s)) if shortest_s < longest_s else longest_s


def bucket_of(gpus: Ints) -> Ints:
    """Index into `BUCKETS` of each GPU count."""
    return np.searchsorted(BUCKET_LIMITS, gpus)


def _draw_runtimes(rng: np.random.Generator, gpus: Ints, series: Ints) -> Floats:
    """Seconds from first start to last end, following each bucket's published quantiles.

    A job's score is normal and mostly determined by its series; only its rank in the bucket matters, so that
    jobs of a series are similar and the quantiles hold for any series.
    """
    from_series = rng.standard_normal(int(series.max()) + 1)[series] * np.sqrt(SERIES_SIMILARITY)
    score = from_series + rng.standard_normal(len(gpus)) * np.sqrt(1 - SERIES_SIMILARITY)
    within = rng.random(len(gpus))
    runtime_s = np.empty(len(gpus))
    bucket = bucket_of(gpus)
    for code in range(len(BUCKETS)):
        rows = np.flatnonzero(bucket == code)
        rows = rows[np.argsort(score[rows], kind="stable")]
        percent = 100.0 * (np.arange(len(rows)) + within[rows]) / max(len(rows), 1)
        runtime_s[rows] = runtime_quantile_s(code, percent)
    return np.round(runtime_s, 3)


def runtime_quantile_s(bucket: int, percent: Floats) -> Floats:
    """Runtime in seconds at each percent of a bucket; its logarithm is linear between the figures."""
    body = RUNTIME_MIN[bucket]
    shortest = body[0] ** 2 / body[1]  # continues the slope between 5 and 10 % down to 0
    minutes = np.log([shortest, *body, *RUNTIME_TAIL_MIN[bucket]])
    return np.asarray(60.0 * np.exp(np.interp(percent, [0, *PERCENTS, *TAIL_PERCENTS], minutes)))


def _draw_outcomes(rng: np.random.Generator, gpu_s: Floats) -> Array:
    """`Outcome` of each job: long jobs are killed more often; failures hardly depend on length."""
    order = np.argsort(gpu_s, kind="stable")
    rank = (np.arange(len(order)) + 0.5) / len(order)
    chance_killed = OUTCOME_JOB_SHARES["killed"] * (1 + KILLED_POWER) * rank**KILLED_POWER
    killed = _systematic(rng, chance_killed)
    chance_failed = np.where(killed, 0.0, OUTCOME_JOB_SHARES["unsuccessful"] / (1 - chance_killed))
    outcome = np.full(len(order), int(Outcome.COMPLETED), dtype=np.int8)
    outcome[order[killed]] = Outcome.CANCELLED
    outcome[order[_systematic(rng, chance_failed)]] = Outcome.FAILED
    return outcome


def _systematic(rng: np.random.Generator, chance: Floats) -> Bools:
    """True with each given chance, spread along the row as evenly as possible."""
    steps = np.floor(np.cumsum(chance) + rng.random())
    return np.diff(steps, prepend=0.0) > 0


def _draw_attempts(rng: np.random.Generator, runtime_s: Floats, outcome: Array) -> Floats:
    """Seconds of each attempt, shape (jobs, `MAX_ATTEMPTS`), the last one first; 0 is no attempt.

    All attempts of a failing job take about the same time; they add up to its runtime.
    """
    attempts_s = np.zeros((len(runtime_s), MAX_ATTEMPTS))
    attempts_s[:, 0] = runtime_s
    failed = np.flatnonzero(outcome == Outcome.FAILED)
    chances = attempt_chances()
    count = 1 + rng.choice(MAX_ATTEMPTS, size=len(failed), p=chances)
    weight = np.exp(ATTEMPT_JITTER * rng.standard_normal((len(failed), MAX_ATTEMPTS)))
    weight *= np.arange(MAX_ATTEMPTS) < count[:, None]
    attempts_s[failed] = runtime_s[failed, None] * weight / weight.sum(axis=1, keepdims=True)
    return np.round(attempts_s, 3)


def attempt_chances() -> Floats:
    """Chance of 1, 2 ... `MAX_ATTEMPTS` attempts: truncated geometric with mean `ATTEMPTS_MEAN`."""
    from scipy.optimize import brentq

    numbers = np.arange(1, MAX_ATTEMPTS + 1)

    def excess(ratio: float) -> float:
        chances = ratio**numbers
        return float(chances @ numbers / chances.sum()) - ATTEMPTS_MEAN

    chances = brentq(excess, 1e-6, 1.0) ** numbers
    return np.asarray(chances / chances.sum())


def _truth(attempts_s: Floats, outcome: Array, rng: np.random.Generator) -> Truth:
    retried = np.flatnonzero(attempts_s[:, 1] > 0)
    earlier = attempts_s[retried, 1:].tolist()
    failures = {
        row: tuple(run for run in runs if run > 0)
        for row, runs in zip(retried.tolist(), earlier, strict=True)
    }
    failed = np.flatnonzero(outcome == Outcome.FAILED)
    names = draw_signatures(rng, attempts_s[failed, 0])
    signatures = {
        row: (name,) * (1 + len(failures.get(row, ())))
        for row, name in zip(failed.tolist(), names, strict=True)
    }
    return Truth.build(attempts_s[:, 0], outcome=outcome, failures=failures, signatures=signatures)


def _draw_limits(rng: np.random.Generator, runtime_s: Floats, series: Ints) -> Floats:
    """Time limit of each job in seconds: one per series, enough for its longest job, then rounded up.

    Users copy a script with its limit and leave room: a factor of one plus an exponential variable of mean 1.
    """
    longest_s = np.zeros(int(series.max()) + 1)
    np.maximum.at(longest_s, series, runtime_s)
    stated_s = longest_s * (1.0 + rng.exponential(1.0, len(longest_s)))
    menu_s = 3600.0 * np.array(LIMIT_MENU_H)
    return menu_s[np.minimum(np.searchsorted(menu_s, stated_s), len(menu_s) - 1)][series]
