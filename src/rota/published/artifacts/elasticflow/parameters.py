"""Parameters of ElasticFlow as its authors' simulator carries it out."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rota.errors import InputError


@dataclass(frozen=True)
class ArtifactParameters:
    """Parameters of `elasticflow@authors`."""

    slot_s: float = 60.0
    """Length of a slot: plans change the GPUs of a job at the beginning of one."""
    refuse: bool = True
    """Refuse a job whose deadline cannot be kept (`ef-accessctrl`); `no` (`ef`) runs it on what is left."""

    def __post_init__(self) -> None:
        if not 0.0 < self.slot_s < math.inf:
            raise InputError(f"policy 'elasticflow@authors': slot_s={self.slot_s:g} is not above 0")
