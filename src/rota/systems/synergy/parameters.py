"""Parameters of Synergy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from rota.errors import InputError
from rota.scheduler.policy import Lever, PolicySpec, levers_of, parse_inner


class SynergyMechanism(StrEnum):
    """How cores and memory are divided among jobs."""

    TUNE = "tune"  # what it wants, or its share in proportion where that is too much
    OPT = "opt"  # as an integer program divides them over the whole cluster
    PROPORTIONAL = "proportional"  # in proportion to GPUs
    GREEDY = "greedy"  # what it wants, or nothing


@dataclass(frozen=True)
class SynergyParameters:
    """Parameters of `synergy`."""

    policy: str = "fifo[skip=yes]"
    """Policy that chooses the jobs that run, with its parameters in brackets: `las[quantum=7200]`."""
    mechanism: SynergyMechanism = SynergyMechanism.TUNE
    """`tune`, `opt`, `proportional` or `greedy`."""
    round_s: float = 300.0
    """Length of a round, at whose end everything is divided again; 0 does so after each event."""
    saturation_tolerance: float = 0.0
    """Part of its best speed that a job gives up before it asks for more cores or memory."""
    migrate: bool = True
    """Move a running job to where what it wants fits; `no` leaves it where it is, with its share."""
    max_nodes: int = 200
    """Nodes of the search tree after which `opt` takes the best division it has found."""
    leases_end: ClassVar[bool] = False
    """All leases end with the round: every job is chosen and placed again, and wants at most a node."""
    scatter: ClassVar[bool] = False
    """Jobs take the first free GPUs that come with what they want, on whichever nodes."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.round_s < math.inf:
            raise InputError(f"policy 'synergy': round_s={self.round_s:g} is no time; expected 0 or more")
        if not 0.0 <= self.saturation_tolerance < 1.0:
            raise InputError(
                f"policy 'synergy': saturation_tolerance={self.saturation_tolerance:g} is no part; "
                "expected 0 or more, and less than 1"
            )
        if self.max_nodes < 1:
            raise InputError(f"policy 'synergy': max_nodes={self.max_nodes} is no limit; expected 1 or more")
        if Lever.SHARE in levers_of(self.inner.make()):
            raise InputError(
                f"policy 'synergy': {self.policy} lets jobs share GPUs, and nobody has measured which cores "
                "they want then; expected a policy that gives whole GPUs"
            )

    @property
    def inner(self) -> PolicySpec:
        """The policy that decides which jobs run."""
        return parse_inner(self.policy)
