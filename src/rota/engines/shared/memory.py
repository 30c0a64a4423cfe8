"""Host memory of this machine: who holds how much of it, and who has to be out before more is taken.

The controller counts what it has told to go as gone.  Until its processes are, for their grace at most, they
are in memory together with whatever begins.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field

from rota.engines.shared.ledger import Key

SLACK_GIB = 1e-6
"""Three thirds are a whole, whatever floating point says."""


@dataclass
class HostMemory:
    """What live parts hold now."""

    total_gib: float = 0.0
    """Of the machine; 0.0 if unknown: then nobody is waited for."""
    held: dict[Key, float] = field(default_factory=dict)
    """GiB of each live part, whether it runs, is suspended or is on its way out."""
    leaving: Set[Key] = frozenset()
    """Those whose end is certain: nobody else is ever waited for."""

    @property
    def used_gib(self) -> float:
        """What all live parts hold together."""
        return sum(self.held.values())

    def hold(self, key: Key, gib: float) -> None:
        """`key` begins or goes on: it holds `gib`, or what it held already if that is more."""
        self.held[key] = max(gib, self.held.get(key, 0.0))

    def obstacles(self, key: Key, gib: float) -> list[Key]:
        """Parts that have to be gone before `key` may hold `gib`, ascending; empty if it may now.

        It may also if no memory will come free by itself: who gave it its place has counted on what it found.
        """
        grows_gib = max(0.0, gib - self.held.get(key, 0.0))
        if not gib or not self.total_gib or self.used_gib + grows_gib <= self.total_gib + SLACK_GIB:
            return []
        return sorted(other for other in self.leaving if other != key and self.held.get(other, 0.0))
