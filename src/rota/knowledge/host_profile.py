"""How fast a workload is by cores and cache, from a few measured points: Synergy's optimistic profile.

Only cores are measured, with all the data in memory.  What less memory costs is computed: a cache that always
keeps the same part of the data set hits exactly that part in each epoch, and the rest is read from storage
(Synergy, OSDI 2022, section 3; the cache of CoorDL, VLDB 2021).  With a page cache it would not hold: a data
set that does not fit drives itself out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rota.errors import InputError
from rota.knowledge.hosts import HostSpeeds

MB_PER_GB = 1024.0


@dataclass(frozen=True)
class CacheModel:
    """Epochs of one workload on one GPU, by cores and by the part of its data that is in memory."""

    data_gb: float
    """Size of the data set."""
    disk_mb_s: float
    """What storage delivers."""
    memory_gb_s: float
    """What memory delivers."""
    compute_s: Mapping[float, float]
    """Cores -> seconds of an epoch with all data in memory, as measured."""

    def __post_init__(self) -> None:
        wrong = [self.data_gb, self.disk_mb_s, self.memory_gb_s, *self.compute_s, *self.compute_s.values()]
        if not self.compute_s or not all(0.0 < number < math.inf for number in wrong):
            raise InputError("a profile has sizes, rates and epochs above 0; expected at least one epoch")

    def epoch_s(self, cpus: float, cached: float) -> float:
        """Seconds of an epoch with a part `cached`, 0 to 1, of the data in memory."""
        fetching_s = cached * self.data_gb / self.memory_gb_s + self._missing_mb(cached) / self.disk_mb_s
        return max(self.compute_s[cpus], fetching_s)

    def disk_wanted_mb_s(self, cpus: float, cached: float) -> float:
        """Storage bandwidth with which the cores, and not storage, bound the epoch; no more than there is."""
        spare_s = self.compute_s[cpus] - cached * self.data_gb / self.memory_gb_s
        missing_mb = self._missing_mb(cached)
        if not missing_mb:
            return 0.0
        return min(missing_mb / spare_s, self.disk_mb_s) if spare_s > 0.0 else self.disk_mb_s

    def _missing_mb(self, cached: float) -> float:
        return (1.0 - cached) * self.data_gb * MB_PER_GB

    def speeds(self, share: tuple[float, float], parts: Sequence[float] = ()) -> HostSpeeds:
        """Speeds relative to `share`, cores and GiB for each GPU, over the cores measured and `parts` cached.

        Tenths of the data set if no parts are named; less than the share caches is possible, more than all of
        the data set is of no use.  InputError if an epoch with the cores of the share was not measured.
        """
        cpus, gib = share
        if cpus not in self.compute_s:
            raise InputError(f"no epoch was measured with {cpus:g} cores, which is the share in proportion")
        cached = np.array(parts or [tenth / 10.0 for tenth in range(1, 11)])
        base_s = self.epoch_s(cpus, min(gib / self.data_gb, 1.0))
        cores = sorted(self.compute_s)
        speeds = np.array([[base_s / self.epoch_s(c, f) for f in cached.tolist()] for c in cores])
        disk = np.array([[self.disk_wanted_mb_s(c, f) for f in cached.tolist()] for c in cores])
        return HostSpeeds(np.array(cores), cached * self.data_gb, speeds, disk)


def sample_cores(
    measure: Callable[[float], float], most: float, gpus: int = 1, tolerance: float = 0.10
) -> dict[float, float]:
    """Seconds of an epoch by cores for each GPU, as few measured as tell where they begin to matter.

    From `most` cores in all they are halved as long as an epoch takes at most `tolerance` longer than with
    the number before, then taken away one for each GPU, down to one for each.
    """
    if most < gpus:
        raise InputError(f"{most:g} cores are fewer than {gpus} GPUs; expected at least one for each")
    seen = {most: measure(most)}
    cores, before_s = most, seen[most]
    is_flat = True
    while True:
        cores = cores // 2 if is_flat else cores - gpus
        if cores < gpus:
            return {count / gpus: seconds for count, seconds in sorted(seen.items())}
        seen[cores] = measure(cores)
        is_flat = is_flat and seen[cores] <= (1.0 + tolerance) * before_s
        before_s = seen[cores]
