"""What the live world knows of jobs beyond what they ask for, for policies that need it.

Durations come from users (the time limit they state) or are predicted from what has completed; speeds are
taken to be in proportion to devices until somebody has measured; utilisation is what agents sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from rota.errors import InputError
from rota.knowledge.measured import MeasuredCurves
from rota.knowledge.needs import Knowledge, Provenance, Provider, Table
from rota.knowledge.service import CompletedService
from rota.model.cluster import Cluster
from rota.model.columns import Floats
from rota.model.jobs import JobTable
from rota.table.state import State
from rota.worlds.live.observed import JobObservations

FIRST_GUESS_S = 3600.0
"""Duration of a job about which nobody knows anything."""
SOURCES: Mapping[Knowledge, tuple[Provenance, ...]] = {
    Knowledge.DURATION: (Provenance.USER, Provenance.PREDICTED),
    Knowledge.SERVICE_HISTORY: (Provenance.PREDICTED,),
    Knowledge.UTILISATION: (Provenance.MEASURED,),
    Knowledge.SCALING: (Provenance.PREDICTED,),
    Knowledge.THROUGHPUT: (Provenance.PREDICTED,),
}
"""Who can provide each kind live; the first is the default."""
Past = Iterable[tuple[str, str, Sequence[float]]]
"""Tenant, group, and seconds run by completed jobs."""


class LiveDuration:
    """Seconds of running at the requested allocation: the user's limit, or the mean of similar jobs.

    A job without a limit is predicted in both cases, from its group, failing that its tenant, failing that
    all completed jobs; a guess is made at submission and not revised: an order built on it stays put.
    """

    kind = Knowledge.DURATION
    learns = True

    def __init__(self, jobs: JobTable, past: Past, provenance: Provenance) -> None:
        self.provenance = provenance
        self.jobs = jobs
        self.values: Floats = np.full(len(jobs), FIRST_GUESS_S)
        self._sums: dict[tuple[str, str], tuple[int, float]] = {}
        for tenant, group, seconds in past:
            for ran_s in seconds:
                self._add(tenant, group, ran_s)

    def attach(self, state: State) -> None:
        for row in range(state.submitted):
            self.submitted(row)

    def known(self) -> Floats:
        return self.values

    def submitted(self, row: int) -> None:
        limit: float = self.jobs.limit_s.item(row)
        if self.provenance is Provenance.USER and limit == limit:  # not NaN
            self.values[row] = limit
            return
        tenant, group = self.jobs.name_of("tenant", row), self.jobs.name_of("group", row)
        for key in (("group", group), ("tenant", tenant), ("all", "")):
            if key in self._sums:
                count, total = self._sums[key]
                self.values[row] = total / count
                return
        if limit == limit:
            self.values[row] = limit

    def ended(self, row: int, ran_s: float) -> None:
        self._add(self.jobs.name_of("tenant", row), self.jobs.name_of("group", row), ran_s)

    def _add(self, tenant: str, group: str, ran_s: float) -> None:
        for key in (("group", group), ("tenant", tenant), ("all", "")):
            count, total = self._sums.get(key, (0, 0.0))
            self._sums[key] = (count + 1, total + ran_s)


class LiveColumn:
    """One number, or one row of numbers, for each job; measured ones replace the first assumption."""

    learns = True

    def __init__(self, kind: Knowledge, values: Floats, provenance: Provenance) -> None:
        self.kind = kind
        self.values = values
        self.provenance = provenance

    def attach(self, state: State) -> None: ...

    def known(self) -> Floats:
        return self.values

    def submitted(self, row: int) -> None: ...

    def ended(self, row: int, ran_s: float) -> None: ...


class LiveUtilisation(LiveColumn):
    """Part of its devices that each job keeps busy; all of them until it was watched for long enough."""

    def __init__(self, jobs: JobTable) -> None:
        super().__init__(Knowledge.UTILISATION, np.ones(len(jobs)), Provenance.MEASURED)

    def observe(self, row: int, observed: JobObservations) -> None:
        self.values[row] = observed.told


class LiveScaling:
    """Speed by number of devices, in seconds of work per second.

    In proportion to devices until a job was measured on two numbers of them; then along a line through what
    was measured.
    """

    kind = Knowledge.SCALING
    provenance = Provenance.PREDICTED
    learns = True

    def __init__(self, jobs: JobTable) -> None:
        self.curves = MeasuredCurves(jobs)

    def attach(self, state: State) -> None:
        for row in range(state.submitted):
            self.submitted(row)

    def known(self) -> Table:
        return self.curves.table()

    def submitted(self, row: int) -> None:
        self.curves.submitted(row, row)

    def ended(self, row: int, ran_s: float) -> None: ...

    def observe(self, row: int, observed: JobObservations) -> None:
        if len(observed.told_speeds) >= 2:
            self.curves.measured(row, np.array([row]), observed.told_speeds)


def live_providers(
    chosen: Mapping[str, str], jobs: JobTable, cluster: Cluster, past: Past
) -> dict[Knowledge, Provider]:
    """A provider of every kind the live world has, from the source that `chosen` names, or the default."""
    past = list(past)
    for kind, source in chosen.items():
        check_source(kind, source)
    duration = Provenance(chosen.get("duration", SOURCES[Knowledge.DURATION][0]))
    rates = np.ones((len(jobs), max(1, len(cluster.type_names))))
    history = CompletedService()
    history.begin_with([ran_s for _, _, seconds in past for ran_s in seconds])
    made: list[Provider] = [
        LiveDuration(jobs, past, duration),
        history,
        LiveUtilisation(jobs),
        LiveColumn(Knowledge.THROUGHPUT, rates, Provenance.PREDICTED),
        LiveScaling(jobs),
    ]
    return {provider.kind: provider for provider in made}


def check_source(kind: str, source: str) -> None:
    """Refuse a kind that is not provided live, or a source that does not provide it."""
    kinds = {known.value: sources for known, sources in SOURCES.items()}
    if kind not in kinds:
        raise InputError(
            f"knowledge {kind}={source}: nobody provides {kind} live; expected one of {', '.join(kinds)}"
        )
    if source not in kinds[kind]:
        expected = ", ".join(kinds[kind])
        raise InputError(f"knowledge {kind}={source}: {source!r} is no source of it; expected {expected}")
