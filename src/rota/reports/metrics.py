"""Every number of a report, defined once: key, unit, which way is better, and a definition in words.

Each function below is a metric; `docs/metrics.md` and the HTML report print its docstring as the
definition.  A *distribution* has one value per job and becomes four metrics: `mean_`, `p50_`,
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
from rota.reports.registry import DISTRIBUTIONS, METRICS, Metric, Unit, Value, distribution, metric
from rota.reports.sample import Sample
from rota.reports.series import Steps

__all__ = ["DISTRIBUTIONS", "METRICS", "Metric", "Unit", "Value"]  # filled by what follows

BRIEF_JOB_S = 10.0
"""Shorter jobs count as this long, so that they do not inflate the slowdown (the usual bound)."""


@metric("jobs", "count")
def jobs(sample: Sample) -> Value:
    """Jobs submitted inside the window (all jobs of the trace without one)."""
    return len(sample)


@metric("finished", "count", "higher")
def finished(sample: Sample) -> Value:
    """Jobs that had work, ran and ended, in any way; every mean and percentile below is over these."""
    return int(sample.finished.sum())


@metric("failed", "count", "lower")
def failed(sample: Sample) -> Value:
    """Jobs whose last attempt failed and was not retried: given up, or refused by the policy."""
    return _in_state(sample, "FAILED")


@metric("cancelled", "count")
def cancelled(sample: Sample) -> Value:
    """Jobs that their owner or the policy ended, while they ran or waited."""
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

    It leaves out waiting after a preemption; see `waiting_s`.  A smaller delay is not better by itself: a
    policy that starts all jobs at once and interrupts them afterwards has none.
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

    Execution is the time that the job takes alone at the size it asked for or, where the record does not
    have that, the time it ran.
    """
    duration_s = sample.column("duration_s")
    execution_s = np.where(np.isnan(duration_s), sample.column("run_s"), duration_s)
    stretch: Floats = np.maximum(sample.jct_s / np.maximum(execution_s, BRIEF_JOB_S), 1.0)
    return stretch


@distribution("finish-time fairness ρ", "times", "lower")
def rho(sample: Sample) -> Floats:
    """Finish-time fairness ρ as in Themis: JCT / (JCT alone on 1/N of the cluster).

    N is the number of tenants with a job in the window, the same at every moment (key
    `rho_tenants`).  A job that asked for more than 1/N of the GPUs is assumed to run slower in
    proportion on that share.  Only finished GPU jobs of known duration count.
    """
    alone_s = alone_on_share_s(sample)
    ratio: Floats = np.divide(sample.jct_s, alone_s, out=np.full(len(sample), np.nan), where=alone_s > 0)
    return ratio


@metric("max finish-time fairness ρ", "times", "lower")
def max_rho(sample: Sample) -> Value:
    """The largest ρ of any job: that of the job treated worst."""
    values = rho(sample)
    return None if np.isnan(values).all() else float(np.nanmax(values))


@metric("worst tenant's ρ", "times", "lower", "cluster")
def worst_tenant_rho(sample: Sample) -> Value:
    """The largest finish-time fairness of a tenant: sum of its jobs' JCT / sum of their JCT alone on 1/N.

    Each of a job's two times counts as at least ten minutes.  As for ρ, only finished GPU jobs of known
    duration count, and only tenants with at least ten of them; None if there are fewer than two such tenants.
    """
    return worst_share(sample.jct_s, alone_on_share_s(sample), sample.tenant_codes)


@metric("N of ρ", "count")
def rho_tenants(sample: Sample) -> Value:
    """N in ρ: tenants with a job in the window."""
    return sample.tenants


@metric("max ρ by all jobs", "times", "lower")
def max_rho_static(sample: Sample) -> Value:
    """The largest finish-time fairness by all jobs: JCT / (duration × max(1, jobs of the window / GPUs)).

    The cluster is divided among all jobs of the window; durations are those at the requested GPUs, through
    all changes of the batch size (the static ρ of the artifact of Shockwave, NSDI 2023).
    """
    return _largest(rho_static(sample))


@metric("unfair by all jobs", "share", "lower")
def unfair_static(sample: Sample) -> Value:
    """Share of the finished jobs of known duration whose ρ by all jobs (`max_rho_static`) exceeds 1."""
    return _part_above_one(rho_static(sample))


@metric("max ρ by jobs present", "times", "lower")
def max_rho_present(sample: Sample) -> Value:
    """The largest finish-time fairness by jobs present: `max_rho_static` with the jobs alive during each job.

    In place of all jobs of the window it uses the mean number of jobs between the job's submission and its
    end.  Every job of the trace that was submitted and had not ended counts, also outside the window (Themis'
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

    Both inside the window.  Without a window, from the first submission to the last, because afterwards the
    cluster only empties (over the whole run if the submissions take less time than the median job).  Every
    job of the trace counts, also jobs submitted outside the window.  Where nodes come and go, the nodes that
    are paid for are available.  How busy a granted GPU is, schedulers neither see nor change.
    """
    available = available_gpu_s(sample.record, sample.span)
    if available == 0:
        return None
    return granted(sample.record).integral(sample.span.start_s, sample.span.end_s) / available


@metric("fragmentation", "share", "lower", "cluster")
def fragmentation(sample: Sample) -> Value:
    """Share of the free GPUs that are in partly used nodes, while at least one job waits.

    GPU-seconds free in nodes where another GPU is held / all GPU-seconds free, both over the moments of the
    window (without one, as for utilisation) in which the queue is not empty.  None if no GPU was free then,
    or if the record does not say which devices were held.
    """
    if not has_placement(sample.record):
        return None
    free, stranded = free_and_stranded(sample.record)
    queue = waiting(sample.record)
    start_s, end_s = sample.span.start_s, sample.span.end_s
    total = _while_positive(free, queue).integral(start_s, end_s)
    return _while_positive(stranded, queue).integral(start_s, end_s) / total if total > 0 else None


def _while_positive(steps: Steps, condition: Steps) -> Steps:
    """`steps` where `condition` is above 0; 0 elsewhere."""
    times = np.union1d(steps.time_s, condition.time_s)
    return Steps(times, np.where(condition.at(times) > 0, steps.at(times), 0.0))


@metric("granted", "gpu_s")
def granted_gpu_s(sample: Sample) -> Value:
    """GPU-seconds granted to the jobs that count, over their whole lives."""
    return sample.granted_gpu_s


@metric("overhead", "gpu_s", "lower")
def overhead_gpu_s(sample: Sample) -> Value:
    """GPU-seconds granted in which no work was done: starts, restores, migrations.

    Seconds of overhead times the mean number of GPUs that the job held.
    """
    return float(np.nansum(sample.column("overhead_s") * sample.gpus_held))


@metric("lost", "gpu_s", "lower")
def lost_gpu_s(sample: Sample) -> Value:
    """GPU-seconds of work that was done and lost: failed attempts that were retried, progress lost in
    a preemption or with a node.

    Seconds lost times the mean number of GPUs that the job held.  The last attempt of a job that failed for
    good is not lost, because no part of it was done twice.
    """
    return float(np.nansum(sample.column("lost_s") * sample.gpus_held))


@metric("goodput", "share", "higher")
def goodput(sample: Sample) -> Value:
    """(GPU-seconds granted − overhead − lost) / GPU-seconds granted.

    The work of a job before it failed for good, or was cancelled, counts.
    """
    service = sample.granted_gpu_s
    if service <= 0:
        return None
    wasted = float(overhead_gpu_s(sample) or 0) + float(lost_gpu_s(sample) or 0)
    return (service - wasted) / service


@metric("preemptions", "count", "lower")
def preemptions(sample: Sample) -> Value:
    """Times a running job had to release what it held, to run again later."""
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
    """Attempts that failed, whether or not the job was retried."""
    return int(sample.total("failures"))


@metric("with deadline", "count")
def deadlines(sample: Sample) -> Value:
    """Jobs that have a deadline."""
    return int((~np.isnan(sample.column("deadline_s"))).sum())


@metric("deadlines met", "count", "higher")
def deadlines_met(sample: Sample) -> Value:
    """Jobs with a deadline that completed by then; rejected, failed and unfinished jobs missed it."""
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
    """Promised jobs that were late or unfinished and during whose life a job had lost a node."""
    return int(Promises.of(sample).broken_by_faults.sum())


@metric("promises broken by their jobs", "count")
def promises_broken_by_jobs(sample: Sample) -> Value:
    """Promised jobs that failed for good, or that their owners cancelled."""
    return int(Promises.of(sample).broken_by_jobs.sum())


@metric("promises broken otherwise", "count", "lower")
def promises_broken_otherwise(sample: Sample) -> Value:
    """Other promised jobs that were late or unfinished: longer than known, or planned wrongly."""
    return int(Promises.of(sample).broken_otherwise.sum())


@metric("planned in time, share", "share", "higher")
def planned_in_time_share(sample: Sample) -> Value:
    """Completed jobs whose promise the policy last expected to keep / jobs with a deadline."""
    return planned_share(sample)


@metric("waiting without a promise", "s")
def mean_unpromised_waiting_s(sample: Sample) -> Value:
    """Mean total waiting of the finished jobs without a promise; None if no job has one."""
    return _mean_unpromised(sample, sample.column("waiting_s"))


@metric("of it overtaken by promises", "s")
def mean_overtaken_s(sample: Sample) -> Value:
    """Mean waiting of jobs without a promise while later promised jobs held as many GPUs as they ask for.

    Counted for each job: several jobs can wait for the same GPUs.
    """
    return _mean_unpromised(sample, overtaken_s(sample))


def _mean_unpromised(sample: Sample, values: Floats) -> Value:
    others = unpromised(sample) & sample.finished
    return float(np.nanmean(values[others])) if others.any() else None


@metric("cost of promises", "gpu_s")
def promises_cost_gpu_s(sample: Sample) -> Value:
    """GPU-seconds that promised jobs held and jobs without a promise, submitted before them, waited for.

    At every moment a GPU counts once, for the job submitted first, and no job counts more GPUs than it asked
    for.  It leaves out the position of the GPUs, GPUs kept free for a promise, further delays that follow,
    jobs that ran on fewer GPUs, and refused jobs.  A policy that promises more has a higher cost.
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
    """Calls of the policy; of the whole run."""
    return sample.record.decisions
