"""Synergy as its authors' simulator carries it out: `synergy@authors`.

Paper     Mohan et al., "Looking Beyond GPUs for DNN Scheduling on Multi-Tenant Clusters", OSDI 2022
Decides   cores, memory and storage bandwidth of each job, and where it runs; the inner policy says which run
Needs     how fast each workload is by cores and memory for each GPU; what the inner policy needs
Idea      1. msr-fiddle/synergy: all leases end with the round; every job is chosen and placed again.
          2. A job wants at most what one node has.
          3. Large jobs are placed first under LAS with `tune` alone, else jobs in the inner policy's order.
          4. `scatter` is the authors' `placement=False`.
Departs   Theirs knows a workload's best speed and its speed at the share only; here speed follows the table.
Checked   300 jobs: in proportion every job ends in the same second under FIFO, LAS and SRTF; `tune` and
          `greedy` are within 0.1 % of the mean (docs/fidelity.md)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rota.published.registration import register_like
from rota.systems.synergy.kept import KeptAsks
from rota.systems.synergy.parameters import SynergyMechanism, SynergyParameters
from rota.systems.synergy.room import Ask
from rota.systems.synergy.system import Synergy


@dataclass(frozen=True)
class SynergyAuthorsParameters(SynergyParameters):
    """Parameters of `synergy@authors`."""

    scatter: bool = False  # type: ignore[misc]
    """Jobs take the first free GPUs that come with what they want, on whichever nodes."""

    leases_end: ClassVar[bool] = True


@register_like(
    "synergy",
    "synergy@authors",
    "Synergy as the authors' simulator carries it out",
    parameters=SynergyAuthorsParameters,
)
class SynergyOfAuthors(Synergy):
    """Every job is chosen and placed again in each round."""

    def __init__(self, parameters: SynergyAuthorsParameters | None = None) -> None:
        super().__init__(parameters or SynergyAuthorsParameters())

    def _ordered(self, asks: list[Ask], kept: KeptAsks) -> list[Ask]:
        p = self.parameters
        if p.inner.name == "las" and p.mechanism is SynergyMechanism.TUNE:
            return sorted(asks, key=lambda ask: -ask.gpus)
        return asks
