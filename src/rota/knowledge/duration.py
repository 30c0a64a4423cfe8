"""Providers of job durations: the simulator's truth, the user's limit, the past of the group."""

from __future__ import annotations

import numpy as np

from rota.errors import InputError
from rota.knowledge.needs import Knowledge, Provenance
from rota.model.columns import Floats
from rota.model.trace import Trace
from rota.table.state import State


class OracleDuration:
    """The true duration: only a simulation has it."""

    kind = Knowledge.DURATION
    provenance = Provenance.ORACLE
    learns = False

    def __init__(self, trace: Trace) -> None:
        self.values: Floats = trace.truth.duration_s

    def attach(self, state: State) -> None: ...

    def known(self) -> Floats:
        return self.values

    def submitted(self, row: int) -> None: ...

    def ended(self, row: int, ran_s: float) -> None: ...


class UserDuration:
    """The time limit the user stated; jobs without one are taken to run as long as the longest limit."""

    kind = Knowledge.DURATION
    provenance = Provenance.USER
    learns = False

    def __init__(self, trace: Trace) -> None:
        limits = trace.jobs.limit_s
        if np.isnan(limits).all():
            raise InputError(
                f"{trace.source}: no job states a time limit, so durations cannot come from users; "
                "expected --knowledge duration=oracle or predicted"
            )
        self.values: Floats = np.where(np.isnan(limits), np.nanmax(limits), limits)

    def attach(self, state: State) -> None: ...

    def known(self) -> Floats:
        return self.values

    def submitted(self, row: int) -> None: ...

    def ended(self, row: int, ran_s: float) -> None: ...


class PredictedDuration:
    """The mean run time of the jobs of the group that have completed; failing that of the tenant, of all.

    A prediction is made at submission and not revised: an order built on it stays put.
    """

    kind = Knowledge.DURATION
    provenance = Provenance.PREDICTED
    learns = True

    def __init__(self, trace: Trace, first_guess_s: float = 3600.0) -> None:
        self.first_guess_s = first_guess_s
        self.jobs = trace.jobs
        self.values: Floats = np.full(len(trace), first_guess_s)
        self._past: dict[tuple[str, int], tuple[int, float]] = {}

    def attach(self, state: State) -> None: ...

    def known(self) -> Floats:
        return self.values

    def _keys(self, row: int) -> list[tuple[str, int]]:
        group, tenant = self.jobs.group.item(row), self.jobs.tenant.item(row)
        own = [("group", group)] if group >= 0 else []
        return [*own, ("tenant", tenant), ("all", 0)]

    def submitted(self, row: int) -> None:
        for key in self._keys(row):
            if key in self._past:
                count, total = self._past[key]
                self.values[row] = total / count
                return

    def ended(self, row: int, ran_s: float) -> None:
        for key in self._keys(row):
            count, total = self._past.get(key, (0, 0.0))
            self._past[key] = (count + 1, total + ran_s)
