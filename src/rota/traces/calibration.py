"""Compares published figures with those of a generated trace: the table in docs/generator.md.

python -m rota.traces.calibration
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rota.model.columns import Array, Floats
from rota.model.jobs import Outcome
from rota.model.trace import Trace
from rota.traces.describe import gap_figures
from rota.traces.generate import bucket_of, generate
from rota.traces.philly_figures import (
    ALL_RUNTIMES_S,
    ATTEMPTS_MEAN,
    BUCKETS,
    FAILURES,
    LIST_BUCKET_SHARES,
    OUTCOME_JOB_SHARES,
    OUTCOME_TIME_SHARES,
    PERCENTS,
    RUNTIME_MIN,
    RUNTIME_TAIL_MIN,
    SIZES,
    VIRTUAL_CLUSTERS,
)

EXAMPLE_JOBS, EXAMPLE_SEED = 200_000, 0
"""The trace that docs/generator.md compares."""

_OUTCOMES = {
    "passed": Outcome.COMPLETED,
    "killed": Outcome.CANCELLED,
    "unsuccessful": Outcome.FAILED,
}


@dataclass(frozen=True)
class PublishedFigure:
    """One published figure and the corresponding figure of a trace."""

    topic: str
    name: str
    published: float
    generated: float

    @property
    def off(self) -> float:
        """Relative difference; the absolute one where the published figure is 0."""
        return (self.generated - self.published) / (self.published or 1.0)


def compare(trace: Trace) -> list[PublishedFigure]:
    """Every calibrated figure of a generated trace."""
    return [
        *_runtimes(trace),
        *_reweighted(trace),
        *_virtual_clusters(trace),
        *_outcomes(trace),
        *_failures(trace),
    ]


def _runtimes(trace: Trace) -> Iterator[PublishedFigure]:
    """Minutes of running, all attempts, by bucket."""
    minutes, bucket = trace.truth.run_s() / 60, bucket_of(trace.jobs.gpus)
    for code, name in enumerate(BUCKETS):
        published = dict(zip((*PERCENTS, 99), (*RUNTIME_MIN[code], RUNTIME_TAIL_MIN[code][0]), strict=True))
        rows = minutes[bucket == code]
        for percent in (10, 50, 90, 95, 99):
            value = float(np.percentile(rows, percent)) if len(rows) else float("nan")
            yield PublishedFigure("runtime, min", f"{name}, p{percent}", published[percent], value)


def _reweighted(trace: Trace) -> Iterator[PublishedFigure]:
    """Runtimes of all sizes, weighted by the sizes of the public list: a check, not a calibration."""
    seconds, bucket = trace.truth.run_s(), bucket_of(trace.jobs.gpus)
    weight = (np.array(LIST_BUCKET_SHARES) / np.maximum(np.bincount(bucket, minlength=4), 1))[bucket]
    for percent, published in ALL_RUNTIMES_S.items():
        if percent in (10, 50, 90, 95, 99):
            value = _weighted_percentile(seconds, weight, percent)
            yield PublishedFigure("runtime of all sizes, s (not fitted)", f"p{percent}", published, value)


def _weighted_percentile(values: Floats, weight: Floats, percent: float) -> float:
    order = np.argsort(values)
    upto = np.cumsum(weight[order])
    return float(values[order][np.searchsorted(upto, upto[-1] * percent / 100)])


def _virtual_clusters(trace: Trace) -> Iterator[PublishedFigure]:
    """GPU mix and bursts of each virtual cluster."""
    vc_of_tenant = np.array([name.partition("/")[0] for name in trace.jobs.tenant_names])
    vc_of_job = vc_of_tenant[trace.jobs.tenant]
    for vc in VIRTUAL_CLUSTERS:
        rows = np.flatnonzero(vc_of_job == vc.name)
        gpus = trace.jobs.gpus[rows]
        for size, percent in zip(SIZES, vc.mix, strict=True):
            if percent >= 5:
                published = 100 * percent / sum(vc.mix)
                yield PublishedFigure(
                    f"{vc.name}, % of jobs", f"{size} GPU", published, _percent(gpus == size)
                )
        cv = gap_figures(trace.jobs.submit_s[rows])[1]
        yield PublishedFigure("CV of gaps", vc.name, vc.gap_cv, float("nan") if cv is None else cv)


def _outcomes(trace: Trace) -> Iterator[PublishedFigure]:
    gpu_s = trace.truth.run_s() * trace.jobs.gpus
    for name, code in _OUTCOMES.items():
        ended = trace.truth.outcome == code
        yield PublishedFigure("% of jobs", name, 100 * OUTCOME_JOB_SHARES[name], _percent(ended))
        share = float(100 * gpu_s[ended].sum() / gpu_s.sum())
        yield PublishedFigure("% of GPU time", name, 100 * OUTCOME_TIME_SHARES[name], share)
    failed = max(int((trace.truth.outcome == Outcome.FAILED).sum()), 1)
    attempts = 1 + sum(len(runs) for runs in trace.truth.failures.values()) / failed
    yield PublishedFigure("attempts", "mean of a failing job", ATTEMPTS_MEAN, attempts)


def _failures(trace: Trace) -> Iterator[PublishedFigure]:
    """Signatures of failing jobs: those that are at least 1 % of the published failures."""
    names = [names[-1] for names in trace.truth.signatures.values()]
    jobs = sum(failure.jobs for failure in FAILURES)
    for failure in FAILURES:
        if 100 * failure.jobs >= jobs:
            share = 100 * names.count(failure.signature) / max(len(names), 1)
            yield PublishedFigure("% of failing jobs", failure.signature, 100 * failure.jobs / jobs, share)


def _percent(which: Array) -> float:
    return float(100 * which.mean()) if len(which) else float("nan")


def markdown(figures: list[PublishedFigure]) -> str:
    """The comparison as a Markdown table."""
    head = ["| what | figure | published | generated |", "|---|---|---:|---:|"]
    rows = [f"| {f.topic} | {f.name} | {_number(f.published)} | {_number(f.generated)} |" for f in figures]
    return "\n".join([*head, *rows])


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


if __name__ == "__main__":
    print(markdown(compare(generate(EXAMPLE_JOBS, seed=EXAMPLE_SEED))))
