"""First in, first out with a handicap: a job that asks for more GPUs is served as if submitted later.

Paper     none; an example of how to add a policy
Decides   order
Needs     nothing
Idea      1. A job's place in the queue is its submission plus `per_gpu_s` for each GPU it asks for.
          2. Jobs run to their end; later jobs may pass one that does not fit.
Departs   -
Checked   tests/test_examples.py: a queue worked out by hand, and the contract of all policies
"""

from __future__ import annotations

from dataclasses import dataclass

import rota
from rota.scheduler.snapshot import Snapshot
from rota.stages.priority_policy import Keys, Rows, priority


@dataclass(frozen=True)
class HandicapParameters:
    """Parameters of `handicap`."""

    per_gpu_s: float = 21_600.0
    """Seconds that each GPU adds to the submission."""


@priority("handicap", "First in, first out, with a handicap by size", parameters=HandicapParameters)
def handicap(snapshot: Snapshot, rows: Rows, parameters: HandicapParameters) -> Keys:
    """Submission plus handicap of a row, or of an array of rows: the lowest is served first."""
    keys: Keys = snapshot.jobs.submit_s[rows] + parameters.per_gpu_s * snapshot.jobs.gpus[rows]
    return keys


if __name__ == "__main__":
    trace = rota.generate(2000, seed=1, load=0.9, cluster=64)
    result = rota.simulate(trace, cluster="8x8:V100", policies=["fifo:skip=yes", "handicap", "srtf"])
    print(result.table(width=90))
