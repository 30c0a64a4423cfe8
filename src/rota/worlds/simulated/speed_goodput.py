"""Speed by goodput: throughput × statistical efficiency, from profiles.

Work is counted in examples at the batch size a job was submitted with (`rota.knowledge.goodput`), so that its
rate changes when an epoch with other statistics begins.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from rota.errors import InputError
from rota.knowledge.given import Given
from rota.knowledge.goodput import BatchSplit, GoodputProfile, GoodputTable, Noise, StepFit, goodput_table
from rota.knowledge.needs import Knowledge, Provider, Table
from rota.knowledge.throughput import accepted, given_throughput
from rota.knowledge.unmeasured import UnmeasuredError
from rota.model.cluster import Cluster
from rota.model.columns import Bools, Floats
from rota.model.grants import Grant
from rota.model.jobs import JobTable
from rota.model.trace import Trace
from rota.worlds.simulated.pace import At, Pace
from rota.worlds.simulated.slowdowns import Efficiency, Slowdowns
from rota.worlds.simulated.stretches import Sight


class GrantGoodputs:
    """Goodput of each job on what it holds, remembered by profile."""

    def __init__(self, profiles: Sequence[GoodputProfile], jobs: JobTable, cluster: Cluster) -> None:
        """`profiles` of each row of `jobs`."""
        self.jobs = jobs
        self.profiles = profiles
        self._types = [name.casefold() for name in cluster.type_names]
        self._type_of: list[int] = cluster.device_type.tolist()
        self._node_of: list[int] = cluster.device_node.tolist()
        self._largest_node = max(1, int(cluster.node_gpus.max()))
        self._known: dict[tuple[object, ...], tuple[float, Sight]] = {}

    def on(self, row: int, phase: int, grant: Grant) -> tuple[float, Sight]:
        """Goodput under `grant`, and how its steps look; across several types the slowest sets the pace."""
        nodes = len({self._node_of[device] for device in grant.devices})
        gpus, kinds = len(grant.devices), {self._type_of[device] for device in grant.devices}
        return min(self._at(row, phase, kind, nodes, gpus, grant.batch_size) for kind in kinds)

    def asked(self, row: int, phase: int, kind: int) -> float:
        """Goodput on the GPUs it asked for of one type, on as few nodes as they need."""
        gpus = self.jobs.gpus.item(row)
        return self._at(row, phase, kind, -(-gpus // self._largest_node), gpus, math.nan)[0]

    def _at(
        self, row: int, phase: int, kind: int, nodes: int, gpus: int, named: float
    ) -> tuple[float, Sight]:
        """Goodput in one phase on one type; 0 where the job cannot run so."""
        profile = self.profiles[row]
        least = self.jobs.batch_min.item(row)
        asked = math.nan if least == least else self.jobs.batch_size.item(row)  # with a range it chooses
        batch_size = asked if math.isnan(named) else named
        wanted = None if math.isnan(batch_size) else batch_size
        least = 0.0 if math.isnan(least) else least
        key = (id(profile), phase, kind, nodes, gpus, wanted, least)
        if key not in self._known:
            fit, noise = profile.fit_on(self._types[kind]), profile.phases[phase].noise
            gpus //= profile.stages_on(self._types[kind])  # replicas; GPUs beyond them are idle
            runs = fit is not None and gpus
            batch = _batch(profile, fit, noise, nodes, gpus, wanted, least) if fit and runs else None
            self._known[key] = 0.0, Sight()
            if fit is not None and batch is not None:
                goodput = profile.goodput(fit, noise, nodes, gpus, batch)
                seen = Sight(
                    fit.step_s(nodes, gpus, batch),
                    batch.total(gpus),
                    noise.scale(profile.limits.initial),
                    batch.accumulated,
                    fit.gradient_s(batch.local),
                    profile.limits.local_most,
                )
                self._known[key] = goodput, seen
        return self._known[key]

    def by_type(self, accepts: Bools) -> Floats:
        """Goodput in its first phase on the GPUs each job asked for, [job, type]; 0 where it cannot run."""
        rates = np.zeros(accepts.shape)
        for row, kind in np.argwhere(accepts).tolist():
            rates[row, kind] = self.asked(row, 0, kind)
        return rates


class GoodputSpeed:
    """Rate by workload, nodes, GPUs, type, batch and epoch.

    The batch is the one that the grant names; otherwise, of a job that asks for a batch and names no range,
    that one; otherwise the job takes the best for what it holds and the epoch it is in, within its range and
    the profile's, again at every change, whatever the policy knows of batches.  Across several types the
    slowest sets the pace.

    A job has to do as many iterations at its first batch size as the trace states; without that, what it does
    at the GPUs it asked for in the duration that the trace states; without either, what the profile says.
    """

    def __init__(
        self, trace: Trace, cluster: Cluster, table: GoodputTable, slowdowns: Slowdowns | None = None
    ) -> None:
        self.jobs = trace.jobs
        narrowed: dict[tuple[int, float], GoodputProfile] = {}
        self._profiles = [_profile_of(trace, row, table, narrowed) for row in range(len(trace))]
        self.goodputs = GrantGoodputs(self._profiles, trace.jobs, cluster)
        self.batch_now = np.full(len(trace), math.nan)
        """Batch size with which each job works since its rate was last asked for."""
        self._sights: dict[int, Sight] = {}
        self.efficiency = Efficiency(trace.jobs, cluster, slowdowns or Slowdowns())
        rates = self.goodputs.by_type(accepted(trace.jobs, cluster))
        _refuse_standstill(trace.jobs, rates, table.source)
        self._fastest = rates.argmax(axis=1).tolist()
        self.examples = np.array([self._examples(trace, row, table.source) for row in range(len(trace))])
        steady = np.array([len(profile.phases) == 1 for profile in self._profiles])
        self.per_s = np.where(steady, rates.max(axis=1), math.nan)
        self.alone_s: Floats = np.array([self._alone_s(row) for row in range(len(trace))])
        """Seconds that each job takes on the GPUs it asked for."""
        self.knowledge: Mapping[Knowledge, Provider] = {
            **self.efficiency.knowledge,
            Knowledge.THROUGHPUT: given_throughput(rates),
            Knowledge.DURATION: Given(Knowledge.DURATION, self.alone_s),
            Knowledge.GOODPUT: Given(Knowledge.GOODPUT, self._told(table, cluster)),
        }

    def _told(self, table: GoodputTable, cluster: Cluster) -> Table:
        """The profiles, in the form that policies receive."""
        used = {id(profile): profile for profile in self._profiles}
        number = {key: i for i, key in enumerate(used)}
        of_row = np.array([number[id(profile)] for profile in self._profiles], dtype=np.int64)
        return goodput_table(list(used.values()), of_row, cluster.type_names)

    def total(self, trace: Trace) -> Floats:
        return self.examples

    def pace(self, row: int, grant: Grant, beside: Sequence[Grant], at: At) -> Pace:
        ends = self._profiles[row].ends
        phase = bisect_right(ends, at.done)
        goodput, seen = self.goodputs.on(row, phase, grant)
        factor, _, until_s = self.efficiency.of(row, grant, beside, at)
        self.batch_now[row] = seen.batch_size
        slower = 1.0 / factor if factor else math.nan
        self._sights[row] = seen._replace(step_s=seen.step_s * slower, gradient_s=seen.gradient_s * slower)
        return Pace(goodput * factor, ends[phase], until_s)

    def sight(self, row: int) -> Sight:
        """What the program of `row` would say of its steps, at the rate that was last asked for."""
        return self._sights.get(row, Sight())

    # -- at the requested allocation ---------------------------------------------------------------

    def _examples(self, trace: Trace, row: int, source: str) -> float:
        """Progress that the job has to make."""
        profile = self._profiles[row]
        iterations, duration_s = trace.truth.iterations.item(row), trace.truth.duration_s.item(row)
        if not math.isnan(iterations):
            return iterations * profile.limits.initial
        if not math.isnan(duration_s):
            return self._done_in(row, duration_s)
        if not math.isnan(profile.examples):
            return profile.examples
        raise InputError.at(
            f"job {self.jobs.ids[row]} states neither iterations nor a duration, and its profile no end",
            file=source,
            expected="epochs, or a trace with one of the two",
        )

    def _done_in(self, row: int, seconds: float) -> float:
        """Progress of `row` after `seconds` on the GPUs it asked for."""
        ends, done, phase = self._profiles[row].ends, 0.0, 0
        while (rate := self.goodputs.asked(row, phase, self._fastest[row])) * seconds > ends[phase] - done:
            seconds -= (ends[phase] - done) / rate
            done, phase = ends[phase], phase + 1
        return done + rate * seconds

    def _alone_s(self, row: int) -> float:
        """Seconds that the job takes on the GPUs it asked for."""
        rates = [self.goodputs.asked(row, phase, self._fastest[row]) for phase in range(self._phases(row))]
        return seconds_for(self._profiles[row].ends, rates, float(self.examples[row]))

    def _phases(self, row: int) -> int:
        return len(self._profiles[row].phases)


def seconds_for(ends: Sequence[float], rates: Sequence[float], examples: float) -> float:
    """Seconds for `examples` examples at the rate of each phase; `ends` are the ends of the phases."""
    seconds, done = 0.0, 0.0
    for end, rate in zip(ends, rates, strict=True):
        seconds += max(min(end, examples) - done, 0.0) / rate
        done = end
    return seconds


def _refuse_standstill(jobs: JobTable, rates: Floats, source: str) -> None:
    """Refuse a job that cannot run on any type it accepts: it would wait for ever."""
    idle = np.flatnonzero(~rates.any(axis=1))
    if len(idle):
        row = int(idle[0])
        raise UnmeasuredError.of(
            jobs,
            idle,
            f"({jobs.name_of('workload', row)}) has no goodput on {jobs.gpus.item(row)} GPUs of any type it "
            "accepts",
            file=source,
            expected="a fit for one of them, and a batch that so many GPUs can split",
        )


def _unknown_to(jobs: JobTable, profiles: Mapping[str, GoodputProfile]) -> list[int]:
    """Rows of the jobs whose workload has no profile."""
    return [row for row in range(len(jobs)) if jobs.name_of("workload", row) not in profiles]


def _batch(
    profile: GoodputProfile,
    fit: StepFit,
    noise: Noise,
    nodes: int,
    gpus: int,
    wanted: float | None,
    least: float,
) -> BatchSplit | None:
    """The requested batch; without a request the best that is not below `least`, None if none will do."""
    if wanted is not None:
        return profile.limits.split(gpus, wanted)
    best = profile.best(fit, noise, nodes, gpus, least)
    return None if best is None else best[0]


def _profile_of(
    trace: Trace, row: int, table: GoodputTable, narrowed: dict[tuple[int, float], GoodputProfile]
) -> GoodputProfile:
    """The profile of its workload, with no larger batches than the job can use; `narrowed` keeps those."""
    workload = trace.jobs.name_of("workload", row)
    if workload not in table.profiles:
        raise UnmeasuredError.of(
            trace.jobs,
            _unknown_to(trace.jobs, table.profiles),
            f"runs {workload!r}, which has no goodput profile",
            file=table.source,
            expected=f"one of {', '.join(list(table.profiles)[:5])}",
        )
    profile, most = table.profiles[workload], trace.jobs.batch_max.item(row)
    if not most < profile.limits.most:
        return profile
    if most < profile.limits.initial:
        raise InputError.at(
            f"job {trace.jobs.ids[row]} ({workload}) uses at most {most:g} samples a step, and its profile "
            f"begins with {profile.limits.initial}",
            file=table.source,
            expected="a batch_max of at least as many",
        )
    limits = replace(profile.limits, most=int(most))
    return narrowed.setdefault((id(profile), most), replace(profile, limits=limits))
