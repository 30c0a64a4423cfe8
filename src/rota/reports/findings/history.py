"""A trace as the arrays that all studies read: the holdings of each job over time, and its outcome.

A job holds its GPUs from its start for as long as it ran.  Where the trace records no start of any job, each
stands where it was submitted, and `starts` is False: then nothing is said of waiting or of how full the
cluster was.  Where it records starts of some jobs, the others ran too: they count in GPU-hours and outcomes,
but only `dated` jobs count in waits and in the holdings at a moment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rota.model.cluster import Cluster
from rota.model.columns import Array, Bools, Floats, Ints
from rota.model.jobs import Outcome
from rota.model.trace import Trace
from rota.model.whole_gpus import gpus_held
from rota.reports.clock import WallClock, clock_named
from rota.reports.finding import NamedJob
from rota.reports.usage.busy import used_column, utilisation_of
from rota.reports.wording import size_codes

HOUR_S = 3600.0


@dataclass(frozen=True)
class NamedCodes:
    """A code for each job, and the names behind the codes."""

    code: Array
    names: Sequence[str]

    @classmethod
    def of(cls, names: Sequence[str]) -> NamedCodes:
        """Names in order of first occurrence."""
        places = {name: code for code, name in enumerate(dict.fromkeys(names))}
        return cls(np.array([places[name] for name in names], dtype=np.int64), tuple(places))

    def sums(self, values: Floats) -> Floats:
        """Sum of `values`, one of each job, by name."""
        total: Floats = np.bincount(self.code, weights=values, minlength=len(self.names)).astype(np.float64)
        return total


@dataclass(frozen=True)
class JobHistory:
    """Columns of one value per job of the trace."""

    trace: Trace
    cluster: Cluster | None
    """As stated; None if it is not."""
    starts: bool
    """Whether the trace recorded starts."""
    gpus: Floats
    """Held while it ran: shares count as such, MIG slices by their part of a GPU."""
    submit_s: Floats
    eligible_s: Floats
    """When it could have started; submission where that is not recorded."""
    start_s: Floats
    end_s: Floats
    """When it let its GPUs go."""
    run_s: Floats
    """All attempts; 0 if it never ran, or if that is unknown."""
    ran: Bools
    """Held GPUs for some time."""
    dated: Bools
    """Held GPUs, and it is known when."""
    gpu_hours: Floats
    size: Array
    """Class of `rota.reports.wording.SIZES`."""
    tenant: NamedCodes
    user: NamedCodes
    outcome: Array
    utilisation: Floats
    """Busy part of its GPUs, between 0 and 1; NaN where not measured."""
    utilisation_note: str
    cpu_cores: Floats
    """CPU cores it kept busy on average; NaN where not measured."""
    clock: WallClock | None

    @classmethod
    def of(cls, trace: Trace, cluster: Cluster | None = None) -> JobHistory:
        """The columns of `trace`."""
        jobs, seen = trace.jobs, trace.observed
        starts = seen is not None and bool(np.isfinite(seen.start_s).any())
        run_s = np.nan_to_num(trace.ran_s())
        start_s = seen.start_s if seen is not None and starts else jobs.submit_s.copy()
        ran = (run_s > 0) & (jobs.gpus > 0)
        dated = ran & np.isfinite(start_s)
        end_s = np.where(dated, start_s + run_s, np.nan)
        gpus = gpus_held(trace)
        held_s = np.nan_to_num(trace.truth.held_s)
        paths = list(jobs.tenant_names)
        tops = NamedCodes.of([path.partition("/")[0] for path in paths])
        people = NamedCodes.of(_people(paths, trace.format))
        utilisation, note = utilisation_of(trace)
        return cls(
            trace=trace,
            cluster=cluster,
            starts=starts,
            gpus=gpus,
            submit_s=jobs.submit_s,
            eligible_s=np.fmin(jobs.submit_s + held_s, np.fmax(start_s, jobs.submit_s)),
            start_s=start_s,
            end_s=end_s,
            run_s=run_s,
            ran=ran,
            dated=dated,
            gpu_hours=np.where(ran, gpus * run_s / HOUR_S, 0.0),
            size=size_codes(jobs.gpus),
            tenant=NamedCodes(tops.code[np.maximum(jobs.tenant, 0)], tops.names),
            user=NamedCodes(people.code[np.maximum(jobs.tenant, 0)], people.names),
            outcome=trace.truth.outcome,
            utilisation=utilisation,
            utilisation_note=note,
            cpu_cores=_cpu_cores(trace),
            clock=clock_named(trace.calendar),
        )

    @property
    def span_s(self) -> tuple[float, float]:
        """First and last submission."""
        return float(self.submit_s.min()), float(self.submit_s.max())

    @property
    def waits_s(self) -> Floats:
        """From the moment it was eligible to its start; NaN if it never started."""
        return np.maximum(self.start_s - self.eligible_s, 0.0)

    @property
    def wide(self) -> Bools:
        """More than one GPU."""
        return np.asarray(self.trace.jobs.gpus > 1)


def _people(paths: Sequence[str], format: str) -> list[str]:
    """Name of the user behind each path; in Slurm one user may have several accounts."""
    if format != "sacct":
        return list(paths)
    users = [path.rpartition("/")[2] for path in paths]
    accounts = Counter(users)
    return [user if accounts[user] > 1 else path for user, path in zip(users, paths, strict=True)]


def _cpu_cores(trace: Trace) -> Floats:
    """Mean cores busy while the last attempt ran; NaN for all if no processor time was counted."""
    cpu_s, run_s = used_column(trace, "cpu_s"), trace.truth.duration_s
    known = np.isfinite(cpu_s) & np.isfinite(run_s) & (run_s > 0)
    if not known.any() or float(np.median(cpu_s[known])) <= 0.0:
        return np.full(len(trace), np.nan)
    cores: Floats = np.divide(cpu_s, run_s, out=np.full(len(trace), np.nan), where=known)
    return cores


def named_jobs(history: JobHistory, rows: Ints) -> tuple[NamedJob, ...]:
    """The jobs of `rows` as their users know them, in the order of submission."""
    jobs, clock = history.trace.jobs, history.clock
    return tuple(
        NamedJob(
            id=jobs.ids[row],
            name=jobs.name_of("group", row),
            node_set=jobs.name_of("node_set", row),
            submitted=f"{clock.at(history.submit_s[row]):%Y-%m-%d %H:%M}"
            if clock
            else f"{history.submit_s[row]:,.0f} s",
            gpus=int(jobs.gpus[row]),
            run_s=float(history.run_s[row]),
            gpu_hours=float(history.gpu_hours[row]),
            outcome=Outcome(int(history.outcome[row])).name.lower(),
        )
        for row in np.sort(rows).tolist()
    )


def failed(history: JobHistory) -> Bools:
    """Jobs with a failed last attempt."""
    return np.asarray(history.outcome == Outcome.FAILED)
