"""What was seen of one job: how busy it keeps its devices, how fast it works on how many of them.

One that has not been watched for long enough counts as keeping its devices fully busy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

LOOKED_ENOUGH_S = 60.0
"""A job is known after it was watched alone for so long."""
MEMORY_S = 120.0
"""What was seen counts less and less with this time constant."""
NEWS = 0.05
"""A change by less is not worth telling."""
FRESH = 0.3
"""Weight of the newest speed."""


@dataclass(slots=True)
class JobObservations:
    """What was seen of one job, over all its attempts."""

    utilisation: float = 1.0
    """Part of its devices that it keeps busy, alone on them."""
    looked_s: float = 0.0
    """For how long it was watched."""
    speeds: dict[int, float] = field(default_factory=dict)
    """Samples per second, or steps where batches have no size, by number of devices, alone on them."""
    told: float = 1.0
    """The utilisation that policies know."""
    told_speeds: dict[int, float] = field(default_factory=dict)
    """Likewise."""

    def look(self, busy: float, seconds: float) -> None:
        """It has kept this part of its devices busy for so long."""
        weight = 1.0 if not self.looked_s else 1.0 - math.exp(-seconds / MEMORY_S)
        self.utilisation += weight * (min(max(busy, 0.0), 1.0) - self.utilisation)
        self.looked_s += seconds

    def time(self, devices: int, speed: float) -> None:
        """It works this fast on so many devices."""
        old = self.speeds.get(devices)
        self.speeds[devices] = speed if old is None else old + FRESH * (speed - old)

    def take_news(self) -> bool:
        """True if policies should know what they do not; from now on they do."""
        known = self.utilisation if self.looked_s >= LOOKED_ENOUGH_S else 1.0
        old = self.told_speeds
        is_news = abs(known - self.told) >= NEWS or any(
            abs(speed - old.get(devices, 0.0)) >= NEWS * speed for devices, speed in self.speeds.items()
        )
        if is_news:
            self.told, self.told_speeds = known, dict(self.speeds)
        return is_news

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "utilisation": self.utilisation,
            "looked_s": self.looked_s,
            "speeds": {str(devices): speed for devices, speed in self.speeds.items()},
        }

    @classmethod
    def of(cls, plain: dict[str, Any] | None) -> JobObservations:
        """From JSON."""
        if not plain:
            return cls()
        speeds = {int(devices): float(speed) for devices, speed in plain["speeds"].items()}
        return cls(float(plain["utilisation"]), float(plain["looked_s"]), speeds)


@runtime_checkable
class Observer(Protocol):
    """Who wants to know what is seen of jobs."""

    def observe(self, row: int, observed: JobObservations) -> None:
        """Something new about `row`."""
        ...
