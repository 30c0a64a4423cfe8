"""Every number of a report, defined once: key, unit, which way is better, and in words.

A function below is a metric; its docstring is the definition that `docs/metrics.md` and the HTML
report print.  A *distribution* gives one value per job and becomes four metrics: `mean_`, `p50_`,
`p90_` and `p99_` (percentiles by linear interpolation), over all jobs that finished.  A metric
that does not apply is None, never 0.
"""

from __future__ import annotations

import math

import numpy as np

from rota.model.columns import Floats
from rota.reports.deadlines_kept import Promises, planned_share
from rota.reports.fairness import alone_on_share_s, rho_present, rho_static, worst_share
from rota.reports.occupancy import available_gpu_s, free_and_stranded, granted, has_placement, waiting
from rota.reports.overtaken import claimed_gpu_s, overtaken_s, unpromised
from rota.reports.registry import DISTRIBUTIONS, METRICS, Metric, Value, distribution, metric
from rota.reports.sample import Sample
from rota.reports.series import Steps

__all__ = ["DISTRIBUTIONS", "METRICS", "Metric", "Value"]  # filled by what follows

BRIEF_JOB_S = 10.0
"""Jobs shorter than this do not blow up the slowdown (the usual bound of the literature)."""


@metric("jobs", "count")
def jobs(sample: Sample) -> Value:
    """Jobs submitted inside the window (all jobs of the trace without one)."""
    return len(sample)


@metric("finished", "count", "higher")
def finished(sample: Sample) -> Value:
    """Jobs that had work, ran and ended, in whatever way; every mean and percentile below is over these."""
    return int(sample.finished.sum())


@metric("failed", "count", "lower")
def failed(sample: Sample) -> Value:
    """Jobs whose last attempt failed, with no further one: given up, or refused by the policy."""
    return _in_state(sample, "FAILED")


@metric("cancelled", "count")
def cancelled(sample: Sample) -> Value:
    """Jobs that their owner or the policy ended, running or waiting."""
    return _in_state(sample, "CANCELLED")


@metric("rejected", "count", "lower")
def rejected(sample: Sample) -> Value:
    """Jobs refused before they ever ran, by admission control or because the cluster can never hold them."""
    return _in_state(sample, "REJECTED")


@metric("unfinished", "count", "lower")
def unfinished(sample: Sample) -> Value:
    """Jobs still waiting or running when the run ended; no mean includes them."""
    return _in_state(sample, "PENDING") + _in_state(sample, "RUNNING")


def _in_state(sample: Sample, state: str) -> int:
    return int((sample.state == state).sum())


@distribution("JCT", "s", "lower")
def jct_s(sample: Sample) -> Floats:
    """Job completion time: finish − submission, in seconds."""
    return sample.jct_s


@distribution("queueing delay", "s", "neither")
def delay_s(sample: Sample) -> Floats:
    """Queueing delay: *first* start − submission, in seconds.

    Time spent waiting after a preemption is not in it; see `waiting_s`.  Less of it is not better by itself:
    whoever starts everybody at once and interrupts them afterwards has none.
    """
    delay = sample.column("start_s") - sample.column("submit_s")
    return np.where(sample.finished, delay, np.nan)


@distribution("waiting", "s", "lower")
def waiting_s(sample: Sample) -> Floats:
    """Total waiting: all seconds between submission and end in which the job held nothing."""
    return np.where(sample.finished, sample.column("waiting_s"), np.nan)


@distribution("slowdown", "times", "lower")
def slowdown(sample: Sample) -> Floats:
    """Bounded slowdown (stretch): JCT / execution, with execution at least 10 s and the result at least 1.

    Execution is the time the job takes alone at the size it asked for; where the record does not
    know it, the time it ran.
    """
    duration_s = sample.column("duration_s")
    execution_s = np.where(np.isnan(duration_s), sample.column("run_s"), duration_s)
    stretch: Floats = np.maximum(sample.jct_s / np.maximum(execution_s, BRIEF_JOB_S), 1.0)
    return stretch


@distribution("finish-time fairness ρ", "times", "lower")
def rho(sample: Sample) -> Floats:
    """Finish-time fairness ρ as in Themis: JCT / (JCT alone on 1/N of the cluster).

    N is the number of tenants with a job in the window, the same at every moment (key
    `rho_tenants`).  A job that asked for more than its 1/N of the GPUs is taken to run slower in
    proportion there.  Only finished GPU jobs whose duration is known count.
    """
    alone_s = alone_on_share_s(sample)
    ratio: Floats = np.divide(sample.jct_s, alone_s, out=np.full(len(sample), np.nan), where=alone_s > 0)
    return ratio


@metric("max finish-time fairness ρ", "times", "lower")
def max_rho(sample: Sample) -> Value:
    """The largest ρ of any job: how unfair it was to the one treated worst."""
    values = rho(sample)
    return None if np.isnan(values).all() else float(np.nanmax(values))


@metric("worst tenant's ρ", "times", "lower", "cluster")
def worst_tenant_rho(sample: Sample) -> Value:
    """The largest finish-time fairness of a tenant: sum of its jobs' JCT / sum of their JCT alone on 1/N.

    Both times of a job count as ten minutes at least.  As for ρ only finished GPU jobs of known duration
    count, and only tenants with at least ten of them; None if these are fewer than two tenants.
    """
    return worst_share(sample.jct_s, alone_on_share_s(sample), sample.tenant_codes)


@metric("N of ρ", "count")
def rho_tenants(sample: Sample) -> Value:
    """N in ρ: tenants with a job in the window."""
    return sample.tenants


@metric("max ρ by all jobs", "times", "lower")
def max_rho_static(sample: Sample) -> Value:
    """The largest finish-time fairness by all jobs: JCT / (duration × max(1, jobs of the window / GPUs)).

    The cluster is divided among all jobs of the window, and durations are those at the request, through all
    changes of the batch size (Shockwave, NSDI 2023, its artifact's static ρ).
    """
    return _largest(rho_static(sample))


@metric("unfair by all jobs", "share", "lower")
def unfair_static(sample: Sample) -> Value:
    """Share of the finished jobs of known duration whose ρ by all jobs (`max_rho_static`) exceeds 1."""
    return _part_above_one(rho_static(sample))


@metric("max ρ by jobs present", "times", "lower")
def max_rho_present(sample: Sample) -> Value:
    """The same as `max_rho_static`, by the mean number of jobs there were from its submission to its end.

    Every job of the trace that was submitted and had not ended counts, also those outside the window (Themis'
    ρ in Shockwave's artifact).
    """
    return _largest(rho_present(sample))


@metric("unfair by jobs present", "share", "lower")
def unfair_present(sample: Sample) -> Value:
    """Share of the finished jobs of known duration whose ρ by jobs present (`max_rho_present`) exceeds 1."""
    return _part_above_one(rho_present(sample))


def _largest(ratios: Floats) -> Value:
    return None if np.isnan(ratios).all() else float(np.nanmax(ratios))


def _part_above_one(ratios: Floats) -> Value:
    known = ratios[~np.isnan(ratios)]
    return float((known > 1.0).mean()) if len(known) else None


@metric("makespan", "s", "lower", "cluster")
def makespan_s(sample: Sample) -> Value:
    """Last finish − first submission, in seconds, over the finished jobs that count."""
    if not sample.finished.any():
        return None
    finish_s, submit_s = (sample.column(name)[sample.finished] for name in ("finish_s", "submit_s"))
    return float(finish_s.max() - submit_s.min())


@metric("utilisation", "share", "higher", "cluster")
def utilisation(sample: Sample) -> Value:
    """GPU-seconds granted, times the share of each GPU, / GPU-seconds available.

    Both inside the window; without one from the first submission to the last, since the cluster only
    empties after it, for as long as its longest job takes (over the whole run if the submissions take
    less time than the median job).  This is what schedulers can move; how busy a granted GPU is they
    cannot see.  Every job of the trace counts, also those submitted outside the window.  Of nodes that
    come and go those are available that are paid for.
    """
    available = available_gpu_s(sample.record, sample.span)
    if available == 0:
        return None
    return granted(sample.record).integral(sample.span.start_s, sample.span.end_s) / available


@metric("fragmentation", "share", "lower", "cluster")
def fragmentation(sample: Sample) -> Value:
    """Share of the free GPUs that stand in partly used nodes, while at least one job waits.

    GPU-seconds free in nodes of which another GPU is held / all GPU-seconds free, both over those
    moments of the window (without one, as for utilisation) in which the queue is not empty.  None if
    nothing was free then, or if the record does not say which devices were held.
    """
    if not has_placement(sample.record):
        return None
    free, stranded = free_and_stranded(sample.record)
    queue = waiting(sample.record)
    start_s, end_s = sample.span.start_s, sample.span.end_s
    total = _while_positive(free, queue).integral(start_s, end_s)
    return _while_positive(stranded, queue).integral(start_s, end_s) / total if total > 0 else None


def _while_positive(steps: Steps, condition: Steps) -> Steps:
    """`steps` where `condition` is above 0, and 0 elsewhere."""
    times = np.union1d(steps.time_s, condition.time_s)
    return Steps(times, np.where(condition.at(times) > 0, steps.at(times), 0.0))


@metric("granted", "gpu_s")
def granted_gpu_s(sample: Sample) -> Value:
    """GPU-seconds granted to the jobs that count, over their whole lives."""
    return sample.granted_gpu_s


@metric("overhead", "gpu_s", "lower")
def overhead_gpu_s(sample: Sample) -> Value:
    """GPU-seconds granted in which no work was done: starts, restores, migrations.

    Seconds of overhead times the GPUs the job held on average.
    """
    return float(np.nansum(sample.column("overhead_s") * sample.gpus_held))


@metric("lost", "gpu_s", "lower")
def lost_gpu_s(sample: Sample) -> Value:
    """GPU-seconds of work that was done and lost: attempts that failed and were tried again, progress
    given up at a preemption or with a node.

    Seconds lost times the GPUs the job held on average.  The last attempt of a job that failed for good
    is not lost: nothing of it was done twice.
    """
    return float(np.nansum(sample.column("lost_s") * sample.gpus_held))


@metric("goodput", "share", "higher")
def goodput(sample: Sample) -> Value:
    """(GPU-seconds granted − overhead − lost) / GPU-seconds granted.

    What a job did before it failed for good, or was cancelled, counts as work.
    """
    service = sample.granted_gpu_s
    if service <= 0:
        return None
    wasted = float(overhead_gpu_s(sample) or 0) + float(lost_gpu_s(sample) or 0)
    return (service - wasted) / service


@metric("preemptions", "count", "lower")
def preemptions(sample: Sample) -> Value:
    """Times a running job was made to release what it held, to run again later."""
    return int(sample.total("preemptions"))


@metric("migrations", "count", "lower")
def migrations(sample: Sample) -> Value:
    """Times a running job moved to other devices without waiting."""
    return int(sample.total("migrations"))


@metric("resizes", "count")
def resizes(sample: Sample) -> Value:
    """Times a running job got more or fewer GPUs."""
    return int(sample.total("resizes"))


@metric("restarts", "count", "lower")
def restarts(sample: Sample) -> Value:
    """Starts beyond the first of each job, whatever ended the attempt before."""
    starts = sample.column("starts")
    return int(np.nansum(np.maximum(starts - 1, 0)))


@metric("failed attempts", "count", "lower")
def failures(sample: Sample) -> Value:
    """Attempts that failed, whether or not the job was tried again."""
    return int(sample.total("failures"))


@metric("with deadline", "count")
def deadlines(sample: Sample) -> Value:
    """Jobs that have a deadline."""
    return int((~np.isnan(sample.column("deadline_s"))).sum())


@metric("deadlines met", "count", "higher")
def deadlines_met(sample: Sample) -> Value:
    """Jobs with a deadline that completed by then; one rejected, failed or unfinished missed it."""
    in_time = sample.column("finish_s") <= sample.column("deadline_s")
    return int((in_time & (sample.state == "COMPLETED")).sum())


@metric("deadlines met, share", "share", "higher")
def deadline_share(sample: Sample) -> Value:
    """Deadlines met / jobs with a deadline; None if no job has one."""
    number = deadlines(sample)
    return float(deadlines_met(sample) or 0) / number if number else None


@metric("promised deadlines", "count")
def promises(sample: Sample) -> Value:
    """Jobs to which the policy promised a deadline: the one they asked for, or a later one they accepted."""
    return len(Promises.of(sample))


@metric("promises kept, share", "share", "higher")
def promises_kept_share(sample: Sample) -> Value:
    """Promised jobs that completed by the promised moment / promised jobs; None if none was promised."""
    made = Promises.of(sample)
    return float(made.kept.sum()) / len(made) if len(made) else None


@metric("promises broken by faults", "count", "lower")
def promises_broken_by_faults(sample: Sample) -> Value:
    """Promised jobs that were late, or not done, after some job had lost a node since they were submitted."""
    return int(Promises.of(sample).broken_by_faults.sum())


@metric("promises broken by their jobs", "count")
def promises_broken_by_jobs(sample: Sample) -> Value:
    """Promised jobs that failed for good, or that their owners cancelled."""
    return int(Promises.of(sample).broken_by_jobs.sum())


@metric("promises broken otherwise", "count", "lower")
def promises_broken_otherwise(sample: Sample) -> Value:
    """Other promised jobs that were late or not done: longer than was known, or planned wrongly."""
    return int(Promises.of(sample).broken_otherwise.sum())


@metric("planned in time, share", "share", "higher")
def planned_in_time_share(sample: Sample) -> Value:
    """Completed jobs whose promise the policy last expected to keep / jobs with a deadline."""
    return planned_share(sample)


@metric("waiting without a promise", "s")
def mean_unpromised_waiting_s(sample: Sample) -> Value:
    """Mean total waiting of the finished jobs without a promise; None if nobody was promised anything."""
    return _mean_unpromised(sample, sample.column("waiting_s"))


@metric("of it overtaken by promises", "s")
def mean_overtaken_s(sample: Sample) -> Value:
    """Mean waiting of the same jobs while promised jobs, submitted after them, held as many GPUs as they ask.

    From the view of each job: several can wait for the same GPUs.
    """
    return _mean_unpromised(sample, overtaken_s(sample))


def _mean_unpromised(sample: Sample, values: Floats) -> Value:
    others = unpromised(sample) & sample.finished
    return float(np.nanmean(values[others])) if others.any() else None


@metric("cost of promises", "gpu_s")
def promises_cost_gpu_s(sample: Sample) -> Value:
    """GPU-seconds that promised jobs held and jobs without a promise, submitted before them, waited for.

    At every moment a GPU counts once, for the job that was submitted first, and for none more than it asked
    for.  Not in it: where the GPUs were, GPUs kept free for a promise, whom the delay of these jobs delayed,
    jobs that ran on fewer GPUs, and jobs that were refused.  Who promises more has a higher cost.
    """
    others = unpromised(sample)
    return float(claimed_gpu_s(sample)[others].sum()) if others.any() else None


@metric("engine time", "s", "lower", "run")
def engine_seconds(sample: Sample) -> Value:
    """CPU seconds of the scheduling loop alone, without reading and reporting; of the whole run."""
    seconds = sample.record.engine_seconds
    return seconds if math.isfinite(seconds) else None


@metric("decisions", "count", scope="run")
def decisions(sample: Sample) -> Value:
    """Times the policy was asked what to do; of the whole run."""
    return sample.record.decisions
