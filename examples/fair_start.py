"""The tenant with the least recent GPU-time goes first; no job passes one that has waited for long.

Paper     none; an example of a policy that decides by itself (docs/policies.md)
Decides   order
Needs     nothing
Idea      1. A tenant's past use counts half after `half_life_s`; the tenant that used least is served first.
          2. Jobs run to their end. Other jobs pass one that does not fit until it has waited `patience_s`.
Departs   -
Checked   tests/test_examples.py: a queue worked out by hand, and the contract of all policies

Memory    `at_s`  moment of the last decision
          `used`  GPU-seconds of each tenant, weighted by age
          `had`   all GPU-seconds of each tenant until that moment
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

import rota
from rota.model.grants import Code, Constraint, Grant
from rota.scheduler.decision import Decision, Memory, Wake
from rota.scheduler.policy import register
from rota.scheduler.snapshot import Snapshot
from rota.stages.fit import Fitter
from rota.stages.place import consolidate


@dataclass(frozen=True)
class FairStartParameters:
    """Parameters of `fair_start`."""

    half_life_s: float = 7 * 86_400.0
    """Seconds after which past use counts half."""
    patience_s: float = 12 * 3_600.0
    """Seconds of waiting after which no job passes this one."""


@register("fair_start", "Least recent GPU-time of its tenant first", parameters=FairStartParameters)
class FairStart:
    """Serves the tenant with least recent use, and every job after a bounded wait for its turn."""

    def __init__(self, parameters: FairStartParameters | None = None) -> None:
        self.parameters = parameters or FairStartParameters()

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        used = self._used(snapshot, memory)
        jobs, patience_s = snapshot.jobs, self.parameters.patience_s
        grants: list[Grant] = []
        reasons: dict[int, Constraint] = {}
        fit, free, first, wake_s = Fitter(snapshot, consolidate), snapshot.scratch(), None, math.inf
        for row in sorted(snapshot.waiting.tolist(), key=lambda row: (used[jobs.tenant[row]], row)):
            if first is not None:
                reasons[row] = Constraint(Code.POLICY, detail=f"does not pass job {first}")
            elif (grant := fit(free, row)) is not None:
                free.hold(grant)
                grants.append(grant)
            elif snapshot.now >= jobs.submit_s[row] + patience_s:
                first = jobs.table.ids[row]
            else:
                wake_s = min(wake_s, jobs.submit_s[row] + patience_s)
        return Decision(memory, grants, reasons=reasons, wake=Wake(at_s=float(wake_s)))

    def _used(self, snapshot: Snapshot, memory: Memory) -> np.ndarray:
        """Weighted GPU-seconds of each tenant; updates the memory.

        A live cluster numbers tenants as they appear, so there may be more of them than in the memory.
        """
        jobs = snapshot.jobs
        rows = np.arange(len(jobs))
        had = np.bincount(jobs.tenant + 1, jobs.service_gpu_s(rows), len(jobs.table.tenant_names) + 1)[1:]
        elapsed_s = snapshot.now - memory.get("at_s", snapshot.now)
        counts = 0.5 ** (elapsed_s / self.parameters.half_life_s)
        before = (memory.get(name, np.zeros(0)) for name in ("used", "had"))
        used_before, had_before = (np.pad(known, (0, len(had) - len(known))) for known in before)
        used = used_before * counts + had - had_before
        memory.update(at_s=float(snapshot.now), used=used, had=had)
        return np.append(used, 0.0)  # the last is for jobs without a tenant


if __name__ == "__main__":
    trace = rota.generate(2000, seed=1, load=0.9, cluster=64)
    result = rota.simulate(trace, cluster="8x8:V100", policies=["fifo:skip=yes", "fair_start", "srtf"])
    print(result.table(width=90))
