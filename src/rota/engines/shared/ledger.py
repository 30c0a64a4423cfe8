"""Which parts hold which devices of this machine, and where a claim does not fit.

The shares on a device sum to at most 1.0. Opportunistic parts use what others leave idle: they are on the
list, but their shares do not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

Key = tuple[int, int]
"""(row, attempt)"""
SLACK = 1e-6
"""Tolerance for rounding: three thirds are a whole."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Devices that one part holds, or wants to hold."""

    devices: tuple[int, ...] = ()
    """Local indexes."""
    share: float = 1.0
    """Share of each device, in (0, 1]."""
    opportunistic: bool = False

    @property
    def weight(self) -> float:
        """Share that counts against each device."""
        return 0.0 if self.opportunistic else self.share


@dataclass
class Ledger:
    """Claims of the parts that occupy devices now."""

    claims: dict[Key, Claim] = field(default_factory=dict)

    def hold(self, key: Key, claim: Claim) -> None:
        """Record that `key` holds `claim`, and nothing else.

        The claim is recorded even if it does not fit, because the part already runs. Call `obstacles` first.
        """
        self.claims[key] = claim

    def free(self, key: Key) -> None:
        """Record that `key` holds nothing any more."""
        self.claims.pop(key, None)

    def used(self, device: int, but: Iterable[Key] = ()) -> float:
        """Sum of the shares on a device, without those of `but`."""
        left_out = frozenset(but)
        return sum(
            claim.weight
            for key, claim in self.claims.items()
            if device in claim.devices and key not in left_out
        )

    def holders(self, device: int) -> list[Key]:
        """Parts whose shares count on a device, ascending."""
        return sorted(key for key, claim in self.claims.items() if device in claim.devices and claim.weight)

    def obstacles(self, key: Key, claim: Claim) -> dict[int, list[Key]]:
        """Devices on which `claim` does not fit now -> the parts there; empty if it fits.

        What `key` itself already holds is not an obstacle.
        """
        if not claim.weight:
            return {}
        return {
            device: [other for other in self.holders(device) if other != key]
            for device in claim.devices
            if self.used(device, [key]) + claim.weight > 1.0 + SLACK
        }

    def overbooked(self, devices: Sequence[int]) -> list[int]:
        """Those of `devices` whose shares sum to more than 1.0: an error, or parts from before a restart."""
        return [device for device in devices if self.used(device) > 1.0 + SLACK]
