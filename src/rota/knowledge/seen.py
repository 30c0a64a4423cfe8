"""Observations of one job or one class of jobs: how busy it keeps its devices, how fast it works on which.

Only a job that is alone on its devices says something about itself.  One that has not been watched for long
enough counts as keeping its devices fully busy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rota.model.cluster import Cluster
from rota.model.grants import Grant, Role

LOOKED_ENOUGH_S = 60.0
"""Seconds that a job has to be watched alone until it counts as known."""
MEMORY_S = 120.0
"""What was seen counts less and less with this time constant."""
NEWS = 0.05
"""A smaller relative change is not published."""
FRESH = 0.3
"""Weight of the newest speed."""


class Shape(NamedTuple):
    """What a speed was measured on: another batch, type or spread is another speed."""

    gpu_type: str
    """Empty if unknown."""
    nodes: int
    """0 if unknown."""
    gpus: int
    batch_size: float = 0.0
    """0 if it is not known."""


def shape_of(cluster: Cluster, grant: Grant, batch_size: float = 0.0) -> Shape:
    """The shape of a grant with devices; of several types the first."""
    nodes = {cluster.device_node.item(device) for device in grant.devices}
    kind = cluster.type_names[cluster.device_type.item(grant.devices[0])]
    return Shape(kind, len(nodes), len(grant.devices), batch_size if batch_size > 0.0 else 0.0)


def is_alone(grant: Grant) -> bool:
    """True if it holds whole devices that no other job shares."""
    return grant.role is Role.ALONE and grant.share == 1.0 and bool(grant.devices)


Speeds = Mapping[Shape, float]


def by_size(speeds: Speeds, gpu_type: str | None = None) -> list[dict[int, float]]:
    """Speed by number of GPUs, on the fewest nodes, for each type and batch; the largest set first.

    With a `gpu_type` only those of this type, and those of unknown type.
    """
    groups: dict[tuple[str, float], dict[int, float]] = {}
    for shape in sorted(speeds, key=lambda shape: -shape.nodes):
        if gpu_type is None or shape.gpu_type in (gpu_type, ""):
            groups.setdefault((shape.gpu_type, shape.batch_size), {})[shape.gpus] = speeds[shape]
    return sorted(groups.values(), key=lambda sizes: -len(sizes))


def at_any_batch(speeds: Speeds, initial: float, noise: float) -> dict[Shape, float]:
    """Speeds of a job that chooses its batch: the best at any batch, in samples worth one of `initial`.

    `noise` is the scale of the noise of its gradient; if it is NaN (unknown), a sample counts as one.
    """
    best: dict[Shape, float] = {}
    for shape, speed in speeds.items():
        worth = speed * efficiency(shape.batch_size, initial, noise)
        size = shape._replace(batch_size=0.0)
        best[size] = max(worth, best.get(size, 0.0))
    return best


def efficiency(batch: float, initial: float, noise: float) -> float:
    """Value of a sample of this batch, relative to one of `initial`; 1 where the noise is unknown."""
    is_known = batch > 0.0 and initial > 0.0 and noise >= 0.0 and noise + batch > 0.0
    return (noise + initial) / (noise + batch) if is_known else 1.0


@dataclass(slots=True)
class JobObservations:
    """What was seen, over all attempts."""

    utilisation: float = 1.0
    """Part of its devices that it keeps busy, alone on them."""
    looked_s: float = 0.0
    """Seconds for which it was watched."""
    speeds: dict[Shape, float] = field(default_factory=dict)
    """Samples per second, or steps where batches have no size, alone on its devices."""
    noise: float = math.nan
    """Scale of the noise of its gradient, in samples, as last reported by its program; NaN if never."""
    told: float = 1.0
    """The utilisation that policies know."""
    told_speeds: dict[Shape, float] = field(default_factory=dict)
    """The speeds that policies know."""
    told_noise: float = math.nan
    """The noise that policies know."""

    def look(self, busy: float, seconds: float) -> None:
        """It has kept the part `busy` of its devices busy for `seconds`."""
        weight = 1.0 if not self.looked_s else 1.0 - math.exp(-seconds / MEMORY_S)
        self.utilisation += weight * (min(max(busy, 0.0), 1.0) - self.utilisation)
        self.looked_s += seconds

    def time(self, shape: Shape, speed: float) -> None:
        """It works this fast there."""
        old = self.speeds.get(shape)
        self.speeds[shape] = speed if old is None else old + FRESH * (speed - old)

    def take_news(self) -> bool:
        """True if something is new to policies; from now on it is not."""
        known = self.utilisation if self.looked_s >= LOOKED_ENOUGH_S else 1.0
        old = self.told_speeds
        is_news = abs(known - self.told) >= NEWS or any(
            abs(speed - old.get(shape, 0.0)) >= NEWS * speed for shape, speed in self.speeds.items()
        )
        is_news = is_news or (self.noise >= 0.0 and not abs(self.noise - self.told_noise) < NEWS * self.noise)
        if is_news:
            self.told, self.told_speeds, self.told_noise = known, dict(self.speeds), self.noise
        return is_news

    def plain(self) -> dict[str, Any]:
        """The observations as JSON values."""
        return {
            "utilisation": self.utilisation,
            "looked_s": self.looked_s,
            "speeds": [[*shape, speed] for shape, speed in self.speeds.items()],
            "noise": None if math.isnan(self.noise) else self.noise,
        }

    @classmethod
    def of(cls, plain: dict[str, Any] | None) -> JobObservations:
        """The observations in JSON.

        Earlier versions stored speeds by number of devices: these have an unknown type, number of nodes and
        batch, and are kept apart from what is measured now.
        """
        if not plain:
            return cls()
        stored = plain["speeds"]
        if isinstance(stored, dict):
            speeds = {Shape("", 0, int(gpus)): float(speed) for gpus, speed in stored.items()}
        else:
            speeds = {Shape(*shape): float(speed) for *shape, speed in stored}
        noise = plain.get("noise")
        noise = math.nan if noise is None else float(noise)
        return cls(float(plain["utilisation"]), float(plain["looked_s"]), speeds, noise)
