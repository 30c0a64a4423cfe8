"""Host memory of this machine: which part holds how much, and which have to end before more is taken.

The controller counts parts as gone once it has ordered them to leave. Until their processes end, at most for
their grace, they are in memory together with parts that start.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field

from rota.engines.shared.ledger import Key

SLACK_GIB = 1e-6
"""Tolerance for rounding: three thirds are a whole."""


@dataclass
class HostMemory:
    """Memory that live parts hold now."""

    total_gib: float = 0.0
    """Memory of the machine; 0.0 if unknown: then no part waits for memory."""
    held: dict[Key, float] = field(default_factory=dict)
    """GiB of each live part, whether it runs, is suspended or is about to end."""
    leaving: Set[Key] = frozenset()
    """Parts whose end is certain: parts wait for these only."""

    @property
    def used_gib(self) -> float:
        """GiB that all live parts hold together."""
        return sum(self.held.values())

    def hold(self, key: Key, gib: float) -> None:
        """Record that `key` starts or resumes: it holds `gib`, or what it already held if that is more."""
        self.held[key] = max(gib, self.held.get(key, 0.0))

    def obstacles(self, key: Key, gib: float) -> list[Key]:
        """Parts that have to end before `key` may hold `gib`, ascending; empty if it may now.

        It may also if no memory will be freed: the controller placed it there and has counted what was in
        use.
        """
        grows_gib = max(0.0, gib - self.held.get(key, 0.0))
        if not gib or not self.total_gib or self.used_gib + grows_gib <= self.total_gib + SLACK_GIB:
            return []
        return sorted(other for other in self.leaving if other != key and self.held.get(other, 0.0))
