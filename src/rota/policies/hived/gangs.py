"""Gangs: what jobs ask of their virtual cluster, and what they hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rota.policies.hived.cells import Physical, Virtual


@dataclass(eq=False)
class Gang:
    """A job: all its pods run, or none (the paper's affinity group)."""

    name: str
    vc: str
    priority: int
    """-1 is opportunistic: no guarantee, any idle GPUs."""
    pods: tuple[int, ...]
    """GPUs of each pod; none is spread over nodes."""
    gpu_types: tuple[str, ...] = ()
    """Types that will do; any if empty."""
    kind: str = ""
    """The one kind of cells that its pods are made for; empty for any."""
    pin: str = ""
    """The fixed cell that it asks for."""
    lazy: bool = False
    """True if whoever needs its virtual cells takes no more than those, as long as there are other GPUs."""
    most_per_node: int = 1 << 30
    """GPUs of it that one node can feed."""

    physical: list[list[Physical]] = field(default_factory=list)
    """GPUs of each pod, in the order of `pods`; empty while it does not run."""
    virtual: list[list[Virtual]] = field(default_factory=list)
    """What they are in the virtual cluster; empty for whoever runs without a guarantee."""

    @property
    def gpus(self) -> int:
        return sum(self.pods)
