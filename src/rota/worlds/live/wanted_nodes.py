"""How many nodes are wanted, within an operator's limits, and which machines may go, as stored."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from rota.worlds.live.machines import LiveNode

AUTOSCALE = "autoscale"
"""Name of what drains surplus nodes; `Scaling` is stored under it too."""


def works(state: str, drained_by: str) -> bool:
    """Whether a node counts: it takes jobs, or its agent is being restarted, and back soon or lost."""
    return state == "up" or (state == "away" and not drained_by)


@dataclass(frozen=True)
class ScaleLimits:
    """How large the cluster may be."""

    least: int
    most: int
    cooldown_s: float = 60.0
    """Pause between two changes of the wanted number."""
    nodes: str = "*"
    """Names of the nodes that may be taken away, as a pattern of the shell."""


@dataclass
class Scaling:
    """The wanted size of the cluster; it outlives a controller."""

    limits: ScaleLimits
    wanted: int = 0
    """Number of nodes that are to take jobs; 0 before the first look at the cluster."""
    changed_s: float = -math.inf
    """When that was changed last."""
    released: set[str] = field(default_factory=set)
    """Nodes with machines that may go."""
    gone: set[str] = field(default_factory=set)
    """Nodes that have gone since, and have not joined again."""
    asked: int | None = None
    """The policy's wish once the pause is over; not stored, since the policy repeats it."""
    look_s: float = math.inf
    """Moment of the next look; entries of the timers for another one are old."""

    @classmethod
    def read(cls, limits: ScaleLimits, stored: Mapping[str, Any] | None) -> Scaling:
        """As it was stored."""
        if not stored:
            return cls(limits)
        changed_s = stored.get("changed_s")
        return cls(
            limits,
            int(stored["wanted"]),
            -math.inf if changed_s is None else float(changed_s),
            set(stored["released"]),
            set(stored["gone"]),
        )

    def plain(self) -> dict[str, Any]:
        """As it is stored."""
        changed_s = None if math.isinf(self.changed_s) else self.changed_s
        names = {"released": sorted(self.released), "gone": sorted(self.gone)}
        return {"wanted": self.wanted, "changed_s": changed_s, **names}

    def within(self, nodes: int) -> int:
        return min(max(nodes, self.limits.least), self.limits.most)

    def may_take(self, node: LiveNode) -> bool:
        return fnmatchcase(node.name, self.limits.nodes)
