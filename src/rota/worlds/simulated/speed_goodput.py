"""Speed by goodput: throughput × statistical efficiency, from profiles.

Work is counted in examples at the batch size a job was submitted with (`rota.knowledge.goodput`), so that its
rate changes when an epoch with other statistics begins.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence

import numpy as np

from rota.errors import InputError
from rota.knowledge.given import Given
from rota.knowledge.goodput import Batch, GoodputProfile, GoodputTable, StepFit
from rota.knowledge.needs import Knowledge, Provider
from rota.knowledge.throughput import accepted, given_throughput
from rota.model.cluster import Cluster
from rota.model.columns import Floats
from rota.model.grants import Grant
from rota.model.trace import Trace
from rota.worlds.simulated.pace import At, Pace
from rota.worlds.simulated.slowdowns import Efficiency, Slowdowns
from rota.worlds.simulated.stretches import Sight


class GoodputSpeed:
    """Rate by workload, nodes, GPUs, type, batch and epoch.

    The batch is the one that the grant names; otherwise the one that the job asks for; otherwise the job
    takes the best for what it holds, anew with every change.  Across several types the slowest sets the pace.

    A job has to do as many iterations at its first batch size as the trace states; without that, what it does
    at the GPUs it asked for in the duration that the trace states; without either, what the profile says.
    """

    def __init__(
        self, trace: Trace, cluster: Cluster, table: GoodputTable, slowdowns: Slowdowns | None = None
    ) -> None:
        self.jobs = trace.jobs
        self._types = [name.casefold() for name in cluster.type_names]
        self._type_of: list[int] = cluster.device_type.tolist()
        self._node_of: list[int] = cluster.device_node.tolist()
        self._largest_node = int(cluster.node_gpus.max())
        self._profiles = [_profile_of(trace, row, table) for row in range(len(trace))]
        self._goodputs: dict[tuple[object, ...], tuple[float, Sight]] = {}
        self.batch_now = np.full(len(trace), math.nan)
        """Batch size with which each job works since its rate was last asked for."""
        self._sights: dict[int, Sight] = {}
        self.efficiency = Efficiency(trace.jobs, cluster, slowdowns or Slowdowns())
        rates = self._rates(accepted(trace.jobs, cluster).tolist(), table.source)
        self._fastest = rates.argmax(axis=1).tolist()
        self.examples = np.array([self._examples(trace, row, table.source) for row in range(len(trace))])
        steady = np.array([len(profile.phases) == 1 for profile in self._profiles])
        self.per_s = np.where(steady, rates.max(axis=1), math.nan)
        alone_s = np.array([self._alone_s(row) for row in range(len(trace))])
        self.knowledge: Mapping[Knowledge, Provider] = {
            **self.efficiency.knowledge,
            Knowledge.THROUGHPUT: given_throughput(rates),
            Knowledge.DURATION: Given(Knowledge.DURATION, alone_s),
        }

    def total(self, trace: Trace) -> Floats:
        return self.examples

    def pace(self, row: int, grant: Grant, beside: Sequence[Grant], at: At) -> Pace:
        profile = self._profiles[row]
        phase = bisect_right(profile.ends, at.done)
        nodes = len({self._node_of[device] for device in grant.devices})
        kinds = {self._type_of[device] for device in grant.devices}
        goodput, seen = min(
            self._goodput(row, phase, kind, nodes, len(grant.devices), grant.batch_size) for kind in kinds
        )
        factor, _, until_s = self.efficiency.of(row, grant, beside, at)
        self.batch_now[row] = seen.batch_size
        self._sights[row] = seen._replace(step_s=seen.step_s / factor if factor else math.nan)
        return Pace(goodput * factor, profile.ends[phase], until_s)

    def sight(self, row: int) -> Sight:
        """What the program of `row` would say of its steps, at the rate that was last asked for."""
        return self._sights.get(row, Sight())

    def _goodput(
        self, row: int, phase: int, kind: int, nodes: int, gpus: int, named: float
    ) -> tuple[float, Sight]:
        """Goodput in one phase on one type, and how its steps look; 0 where the job cannot run so."""
        profile = self._profiles[row]
        batch_size = self.jobs.batch_size.item(row) if math.isnan(named) else named
        wanted = None if math.isnan(batch_size) else batch_size
        key = (id(profile), phase, kind, nodes, gpus, wanted)
        if key not in self._goodputs:
            fit = profile.fit_on(self._types[kind])
            batch = None if fit is None else _batch(profile, fit, phase, nodes, gpus, wanted)
            self._goodputs[key] = 0.0, Sight()
            if fit is not None and batch is not None:
                noise = profile.phases[phase].noise
                goodput = profile.goodput(fit, noise, nodes, gpus, batch)
                scale = noise.var / noise.sqr * profile.limits.initial if noise.sqr else math.inf
                step_s = fit.step_s(nodes, gpus, batch)
                self._goodputs[key] = goodput, Sight(step_s, batch.total(gpus), scale)
        return self._goodputs[key]

    # -- at the requested allocation ---------------------------------------------------------------

    def _asked(self, row: int, phase: int, kind: int) -> float:
        """Goodput on the GPUs it asked for, on as few nodes as they need."""
        gpus = self.jobs.gpus.item(row)
        return self._goodput(row, phase, kind, -(-gpus // self._largest_node), gpus, math.nan)[0]

    def _rates(self, accepts: list[list[bool]], source: str) -> Floats:
        """Goodput of each job in its first phase on each type, 0 where it cannot run."""
        rates = np.zeros((len(self.jobs), len(self._types)))
        for row in range(len(self.jobs)):
            for kind in range(len(self._types)):
                rates[row, kind] = self._asked(row, 0, kind) if accepts[row][kind] else 0.0
            if not rates[row].any():
                raise InputError.at(
                    f"job {self.jobs.ids[row]} ({self.jobs.name_of('workload', row)}) has no goodput on "
                    f"{self.jobs.gpus.item(row)} GPUs of any type it accepts",
                    file=source,
                    expected="a fit for one of them, and a batch that so many GPUs can split",
                )
        return rates

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
        """Progress on the GPUs it asked for after so many seconds."""
        ends, done, phase = self._profiles[row].ends, 0.0, 0
        while (rate := self._asked(row, phase, self._fastest[row])) * seconds > ends[phase] - done:
            seconds -= (ends[phase] - done) / rate
            done, phase = ends[phase], phase + 1
        return done + rate * seconds

    def _alone_s(self, row: int) -> float:
        """Seconds that the job takes on the GPUs it asked for."""
        seconds, done, total = 0.0, 0.0, float(self.examples[row])
        for phase, end in enumerate(self._profiles[row].ends):
            seconds += max(min(end, total) - done, 0.0) / self._asked(row, phase, self._fastest[row])
            done = end
        return seconds


def _batch(
    profile: GoodputProfile, fit: StepFit, phase: int, nodes: int, gpus: int, wanted: float | None
) -> Batch | None:
    """The batch as it is wanted; the best without a wish, None if the job cannot run on so many GPUs."""
    if wanted is not None:
        return profile.limits.split(gpus, wanted)
    best = profile.best(fit, profile.phases[phase].noise, nodes, gpus)
    return None if best is None else best[0]


def _profile_of(trace: Trace, row: int, table: GoodputTable) -> GoodputProfile:
    workload = trace.jobs.name_of("workload", row)
    if workload not in table.profiles:
        raise InputError.at(
            f"job {trace.jobs.ids[row]} runs {workload!r}, which has no goodput profile",
            file=table.source,
            expected=f"one of {', '.join(list(table.profiles)[:5])}",
        )
    return table.profiles[workload]
