"""How alike the waits of a replay are to those that a trace recorded, of one group of jobs and of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rota.model.columns import Floats
from rota.reports.plain import plain

WITHIN = 0.2
"""Two figures agree if they differ by at most this part of the observed one ..."""
WITHIN_S = 60.0
"""... or by this many seconds."""
FEWEST = {"mean": 0, "p50": 20, "p90": 50, "p99": 100}
"""Fewest jobs of a group to judge a statistic of it: with fewer, single jobs decide it."""
MOST_TENANTS = 12
"""Tenants that a page shows; JSON has all."""
LITTLE = 0.01
"""Groups are not named if their misplaced waiting is a smaller part of all waiting."""


@dataclass(frozen=True)
class Statistics:
    """Mean, median and tail of some seconds; NaN of none."""

    mean: float
    p50: float
    p90: float
    p99: float

    @classmethod
    def of(cls, seconds: Floats) -> Statistics:
        """The statistics of `seconds` (n,), without NaN."""
        if not len(seconds):
            return cls(np.nan, np.nan, np.nan, np.nan)
        return cls(float(seconds.mean()), *np.percentile(seconds, [50, 90, 99]).tolist())

    @classmethod
    def mean_of(cls, several: Sequence[Statistics]) -> Statistics:
        """The mean of each statistic over `several` runs."""
        return cls(*(float(np.mean([getattr(one, key) for one in several])) for key in FEWEST))


@dataclass(frozen=True)
class Likeness:
    """One group of jobs, as replayed and as observed; both sides have equal jobs."""

    kind: str
    """`all`, `size`, `tenant`, `partition`, `QOS` or `priority`."""
    name: str
    jobs: int
    waiting: Statistics
    """Seconds of the replay in which a job held nothing."""
    waiting_seen: Statistics
    jct: Statistics
    """Seconds from submission to end, in the replay."""
    jct_seen: Statistics
    misplaced_s: float
    """Sum of the differences between the sorted waits of both sides."""

    @property
    def title(self) -> str:
        """`all jobs`, `jobs of >8 GPUs`, `tenant vision/ann`, `partition a100`."""
        if self.kind == "all":
            return "all jobs"
        if self.kind == "size":
            return "jobs without GPUs" if self.name == "CPU only" else f"jobs of {self.name}"
        return f"{self.kind} {self.name}"

    @property
    def waited_s(self) -> float:
        """Seconds that the jobs of the group waited in all, as observed."""
        return self.jobs * self.waiting_seen.mean if self.jobs else 0.0

    @property
    def unlike(self) -> tuple[str, ...]:
        """Statistics of waiting that do not agree: `mean`, `p50`, `p90`, `p99`."""
        return tuple(
            key
            for key, fewest in FEWEST.items()
            if self.jobs >= max(fewest, 1)
            and not is_near(getattr(self.waiting, key), getattr(self.waiting_seen, key))
        )

    def to_dict(self) -> dict[str, object]:
        """All of it as plain values for JSON."""
        return {
            "kind": self.kind,
            "name": self.name,
            "jobs": self.jobs,
            "waiting_s": {"replayed": plain(self.waiting), "observed": plain(self.waiting_seen)},
            "jct_s": {"replayed": plain(self.jct), "observed": plain(self.jct_seen)},
            "misplaced_s": self.misplaced_s,
            "unlike": list(self.unlike),
        }


@dataclass(frozen=True)
class PolicyFit:
    """The policy of a family that comes nearest to a recorded trace."""

    policy: str
    misplaced_s: Mapping[str, float]
    """Misplaced waiting under each policy, in the order of trial."""
    part: str
    """The jobs compared, in words; empty for all."""
    spent_s: float


@dataclass(frozen=True)
class Calibration:
    """The distance between the site's own policy, simulated, and the recorded trace."""

    text: str
    site_policy: str | None = None
    errors: dict[str, float | None] | None = None
    """Relative difference (simulated / observed − 1) of each figure compared; None if uncalibrated."""

    agrees: bool | None = None
    """True if waits in the replay match the record, and so do the jobs that wait; None if uncalibrated."""

    misplaced_s: float = 0.0
    """Misplaced waiting, by the kind of group that has most of it."""

    groups: tuple[Likeness, ...] = ()
    """All jobs, then the jobs of each size, tenant, partition and QOS (or priority)."""

    utilisation: tuple[float | None, float | None] = (None, None)
    """Of the replay, and as observed."""

    fit: PolicyFit | None = None
    """How the policy was chosen; None if the caller named it."""

    @property
    def calibrated(self) -> bool:
        return self.errors is not None

    @property
    def error(self) -> float | None:
        """Misplaced waiting as a part of all that was observed; None if uncalibrated, or if no job waited."""
        waited_s = self.groups[0].waited_s if self.groups else 0.0
        return self.misplaced_s / waited_s if waited_s > 0.0 else None

    @property
    def whole(self) -> Likeness | None:
        """All jobs; None if uncalibrated."""
        return self.groups[0] if self.groups else None

    @property
    def shown(self) -> tuple[Likeness, ...]:
        """The groups that a page shows: of tenants the `MOST_TENANTS` with most misplaced waiting."""
        tenants = [group for group in self.groups if group.kind == "tenant"]
        left_out = sorted(tenants, key=lambda group: -group.misplaced_s)[MOST_TENANTS:]
        return tuple(group for group in self.groups if group not in left_out)

    def unexplained(self, *kinds: str) -> tuple[Likeness, ...]:
        """Groups that wait otherwise than they did, of `kinds` if some are given; the weightiest first.

        Groups of little weight are left out.
        """
        least_s = LITTLE * self.groups[0].waited_s if self.groups else 0.0
        apart = [
            group
            for group in self.groups[1:]
            if group.unlike and group.misplaced_s >= least_s and (not kinds or group.kind in kinds)
        ]
        return tuple(sorted(apart, key=lambda group: -group.misplaced_s))

    def to_dict(self) -> dict[str, object]:
        """All of it as plain values for JSON."""
        return {
            "calibrated": self.calibrated,
            "text": self.text,
            "site_policy": self.site_policy,
            "errors": self.errors,
            "agrees": self.agrees,
            "misplaced_waiting": self.error,
            "groups": [group.to_dict() for group in self.groups],
            "fit": plain(self.fit),
        }


def is_near(ours_s: float, seen_s: float) -> bool:
    """True if a figure of a replay agrees with the observed one."""
    return abs(ours_s - seen_s) <= max(WITHIN * seen_s, WITHIN_S)


def misplaced_s(ours_s: Floats, seen_s: Floats) -> float:
    """Seconds by which two distributions over equal jobs differ: place by place, both sorted (n,)."""
    return float(np.abs(np.sort(ours_s) - np.sort(seen_s)).sum())
