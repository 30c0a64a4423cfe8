"""Chronus as its authors' simulator carries it out: `chronus@authors`.

Paper     Gao et al., "Chronus: A Novel Deadline-aware Scheduler for Deep Learning Training Jobs", SoCC 2021
Decides   admission, order, preemption
Needs     durations; see `chronus`
Idea      1. S-Lab-System-Group/ChronusArtifact: leases planned ahead as in the paper.
          2. When a lease begins, every job without one is stopped and placed again.
          3. What a job has done is the time that it ran; its run time says whether it ends in a lease.
          4. A lease after one that was short of GPUs is planned as short, too.
Departs   Nothing is known to differ.
Checked   497 jobs: every job equal (docs/fidelity.md)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rota.published.registration import register_like
from rota.systems.chronus.parameters import ChronusParameters
from rota.systems.chronus.system import Chronus


@dataclass(frozen=True)
class ChronusAuthorsParameters(ChronusParameters):
    """Parameters of `chronus@authors`: those of `chronus`."""

    frees_all_at_leases: ClassVar[bool] = True
    by_run_time: ClassVar[bool] = True
    remembers_short: ClassVar[bool] = True


@register_like(
    "chronus",
    "chronus@authors",
    "Chronus as the authors' simulator carries it out",
    parameters=ChronusAuthorsParameters,
)
class ChronusOfAuthors(Chronus):
    """Leases planned ahead; all other jobs start again with each lease."""

    def __init__(self, parameters: ChronusAuthorsParameters | None = None) -> None:
        super().__init__(parameters or ChronusAuthorsParameters())
