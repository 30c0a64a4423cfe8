"""Findings of a trace about the cluster that made it, and the gains of other systems on its jobs.

A gain compares two replays of the busiest jobs of the trace, with the system and without it, on one
cluster: whatever the simulation leaves out is missing in both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from os import PathLike

import numpy as np

from rota.api.run_options import ARGUMENTS
from rota.api.run_setup import parse_knowledge
from rota.api.simulation import simulate
from rota.api.site_policy import longest_waits, usual_policy
from rota.api.site_terms import site_terms
from rota.arguments import WHOLE, Argument, takes
from rota.bounds import has_observed
from rota.errors import InputError, PolicyError
from rota.model.cluster import Cluster
from rota.model.columns import Ints
from rota.model.jobs import RecordedRun
from rota.model.trace import Trace
from rota.model.units import format_duration
from rota.reports.finding import Finding, Gain, Remedy, Replay
from rota.reports.findings import queueing, tenants
from rota.reports.findings.history import JobHistory
from rota.reports.findings.pools import Pools
from rota.reports.findings.studies import Analysis, study
from rota.reports.findings.thresholds import Thresholds
from rota.reports.metrics import METRICS
from rota.reports.wording import factor_words, words
from rota.traces import read
from rota.traces.capacity import cluster_from
from rota.traces.describe import TRACE

Measured = Callable[[str, int, int], None]
SPREAD = "spread=0.854"
"""Rate of a gang on more nodes than it needs, as the Philly study measured it: where locality is compared."""

_THRESHOLDS = Argument("set of thresholds", None, "such as 'idle_utilisation=0.1'")


@takes(**{**ARGUMENTS, "trace": TRACE, "thresholds": _THRESHOLDS, "replays": WHOLE})
def analyze(
    trace: str | PathLike[str] | Trace,
    *,
    cluster: str | PathLike[str] | Cluster | None = None,
    format: str | None = None,
    thresholds: str | Thresholds | None = None,
    replays: int = 0,
    knowledge: str = "duration=predicted",
    progress: Measured | None = None,
) -> Analysis:
    """The findings of all studies of `rota.reports.findings` about `trace`.

    cluster     as for `simulate`; None derives it from the jobs, for replays too
    thresholds  `idle_utilisation=0.1,array_tasks=8`: values from which on something is a fault
    replays     jobs on which the gain of each system that addresses a finding is measured; 0 measures none
    knowledge   sources of what policies know in these replays; an operator has no oracle

    Raises InputError for anything that is not as expected.
    """
    limits = Thresholds.parse(thresholds) if isinstance(thresholds, str) else thresholds or Thresholds()
    parse_knowledge(knowledge)  # even if no replay reads it, so that mistakes are reported immediately
    if replays < 0:
        raise InputError.at(f"{replays} is no number of jobs", argument="replays", expected="0 or more")
    whole = trace if isinstance(trace, Trace) else read(trace, format)
    where = cluster if isinstance(cluster, Cluster) or cluster is None else cluster_from(cluster, whole)
    # A cluster derived from the nodes of the jobs adds nothing: the studies see these nodes themselves.
    derived = cluster == "auto" and whole.observed is not None and bool(whole.observed.nodes)
    analysis = study(whole, None if derived else where, limits)
    if not replays:
        return analysis
    return with_gains(analysis, whole, where or cluster_from("auto", whole), replays, knowledge, progress)


def busiest(trace: Trace, jobs: int) -> Ints:
    """Rows of `jobs` consecutive jobs that waited longest in all, by the record.

    Where no starts are recorded, the jobs that asked for most GPU time per second.
    """
    n = len(trace)
    if n <= jobs:
        return np.arange(n, dtype=np.int64)
    if trace.observed is not None and has_observed(trace):
        return longest_waits(trace, jobs)
    work = np.nan_to_num(trace.truth.run_s()) * trace.jobs.gpus * trace.jobs.gpu_share
    total = np.concatenate(([0.0], np.cumsum(work)))
    first = np.arange(0, n - jobs + 1, max(jobs // 20, 1))
    span_s = trace.jobs.submit_s[first + jobs - 1] - trace.jobs.submit_s[first]
    # A burst of a few minutes is no load: jobs that come within less than an hour count as an hour's.
    best = first[int(np.argmax((total[first + jobs] - total[first]) / np.maximum(span_s, 3600.0)))]
    return np.arange(best, best + jobs, dtype=np.int64)


def with_gains(
    analysis: Analysis, trace: Trace, cluster: Cluster, jobs: int, knowledge: str, progress: Measured | None
) -> Analysis:
    """`analysis` with the gain of each remedy that can be replayed; a remark names the jobs."""
    part = trace.take(busiest(trace, jobs))
    own = usual_policy(trace)
    known: dict[Replay, dict[str, float]] = {}
    remarks: list[str] = []
    findings_so_far = [*analysis.findings]
    if not has_observed(trace):
        findings_so_far += replayed(part, cluster, own, knowledge, progress)

    def measured(run: Replay) -> dict[str, float]:
        if run not in known:
            known[run] = _replay(run, part, cluster, run.knowledge or knowledge, progress)
        return known[run]

    def gained(remedy: Remedy) -> Remedy:
        if remedy.replay is None:
            return remedy
        against = remedy.against or replace(remedy.replay, policy=own)
        try:
            after, before = measured(remedy.replay), measured(against)
        except (InputError, PolicyError) as error:
            said = f"{remedy.replay.policy} was not replayed: {error}"
            if said not in remarks:
                remarks.append(said)
            return remedy
        return replace(remedy, gain=_gain(remedy, against, before, after))

    findings = [_with(finding, [gained(one) for one in finding.remedies]) for finding in findings_so_far]
    if known:
        span_s = float(part.jobs.submit_s[-1] - part.jobs.submit_s[0])
        most = "that waited longest" if has_observed(trace) else "that asked for most GPU time"
        whole = "all jobs" if len(part) == len(trace) else f"the {len(part):,} jobs in a row {most}"
        remarks.append(
            f"Replays: {whole} ({format_duration(span_s)} of submissions), replayed on "
            f"{cluster.describe()}, empty at first; policies know {knowledge}, and nothing of "
            f"earlier jobs; {_stops_cost(part)}."
        )
    return analysis.with_findings(findings, remarks)


def _stops_cost(part: Trace) -> str:
    """The cost of a stop in a replay of `part`, as a clause."""
    cost = site_terms(part, {}, None, ideal=False).costs.stops["preemptions"]
    return f"a preemption costs {cost}" if cost else "preemptions are free"


def replayed(
    part: Trace, cluster: Cluster, policy: str, knowledge: str, progress: Measured | None
) -> list[Finding]:
    """Findings about waiting once `policy` has run the jobs, for a trace that records no starts.

    Their keys begin with `replayed_`, and none of them is a fault.
    """
    results = simulate(
        part, cluster=cluster, policies=[policy], knowledge=knowledge, workers=1, progress=progress
    )
    record = results.records[0]
    run = RecordedRun(
        record.jobs["start_s"].fill_null(np.nan).to_numpy(),
        record.jobs["finish_s"].fill_null(np.nan).to_numpy(),
    )
    history = JobHistory.of(replace(part, observed=run), cluster)
    said = (queueing.study(history, Pools.of(history)), tenants.study(history))
    return [
        replace(
            finding,
            key=f"replayed_{finding.key}",
            sentence=f"Had {policy} run them: {finding.sentence[0].lower()}{finding.sentence[1:]}",
        )
        for one in said
        for finding in one.findings
    ]


def _with(finding: Finding, remedies: Sequence[Remedy]) -> Finding:
    return replace(finding, remedies=tuple(remedies))


def _replay(
    run: Replay, part: Trace, cluster: Cluster, knowledge: str, progress: Measured | None
) -> dict[str, float]:
    """All metrics of one replay."""
    results = simulate(
        part,
        cluster=cluster,
        policies=[run.policy],
        knowledge=knowledge,
        slowdowns=SPREAD if run.spread else None,
        retries=run.retries or None,
        observed=False,
        workers=1,
        progress=progress,
    )
    return {key: float(value) for key, value in results.summaries[0].values.items() if value is not None}


def _gain(remedy: Remedy, against: Replay, before: dict[str, float], after: dict[str, float]) -> Gain | None:
    """None where a run has no such number."""
    metric = METRICS[remedy.metric]
    assert remedy.replay is not None
    if remedy.metric not in before or remedy.metric not in after:
        return None
    old, new = before[remedy.metric], after[remedy.metric]
    change = factor_words(new / old, metric.unit) if old > 0 else "no change, as there was none"
    ran = (before.get("finished", 0.0), after.get("finished", 0.0))
    less = f"; it finished {ran[1]:,.0f} jobs in place of {ran[0]:,.0f}" if ran[0] != ran[1] else ""
    under = "" if remedy.replay.words == remedy.system else f" under {remedy.replay.words}"
    sentence = (
        f"{metric.label} {words(new, metric.unit)}{under} in place of "
        f"{words(old, metric.unit)} under {against.words} ({change}){less}"
    )
    return Gain(remedy.replay.policy, against.policy, remedy.metric, old, new, sentence)
