"""Step functions of time, exact, and the coarser pictures of them that a figure can show."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rota.model.columns import Floats


@dataclass(frozen=True)
class Steps:
    """`value[i]` holds from `time_s[i]` (included) to `time_s[i+1]`; it is 0 before the first."""

    time_s: Floats
    value: Floats

    @classmethod
    def from_events(cls, time_s: Floats, delta: Floats) -> Steps:
        """The running sum of `delta`; what happens at one moment counts as one step."""
        if len(time_s) == 0:
            return cls(np.zeros(0), np.zeros(0))
        order = np.argsort(time_s, kind="stable")
        times, first = np.unique(time_s[order], return_index=True)
        return cls(times, np.cumsum(np.add.reduceat(delta[order], first)))

    @classmethod
    def held(cls, start_s: Floats, end_s: Floats, amount: Floats) -> Steps:
        """How much is held at each moment by stretches from `start_s` to `end_s`, arrays of one length."""
        return cls.from_events(np.concatenate((start_s, end_s)), np.concatenate((amount, -amount)))

    def at(self, time_s: Floats) -> Floats:
        """The value at each moment of `time_s`."""
        padded = np.concatenate(([0.0], self.value))
        return padded[np.searchsorted(self.time_s, time_s, side="right")]

    def within(self, start_s: float, end_s: float) -> Steps:
        """The part from `start_s` to `end_s`, beginning with a step at `start_s`."""
        inside = (self.time_s > start_s) & (self.time_s < end_s)
        times = np.concatenate(([start_s], self.time_s[inside]))
        return Steps(times, self.at(times))

    def integral(self, start_s: float, end_s: float) -> float:
        """Value times seconds between two moments."""
        if end_s <= start_s:
            return 0.0
        part = self.within(start_s, end_s)
        return float(np.sum(part.value * np.diff(part.time_s, append=end_s)))


@dataclass(frozen=True)
class Binned:
    """A step function over equal bins of time: its mean, lowest and highest value in each."""

    edges_s: Floats
    """One more than there are bins."""
    mean: Floats
    low: Floats
    high: Floats


def binned(steps: Steps, start_s: float, end_s: float, bins: int) -> Binned:
    """`steps` from `start_s` to `end_s` in `bins` bins; no extreme is lost."""
    edges = np.linspace(start_s, end_s, bins + 1)
    inside = (steps.time_s >= start_s) & (steps.time_s < edges[-1])
    times = np.union1d(steps.time_s[inside], edges[:-1])
    values = steps.at(times)
    first = np.searchsorted(times, edges[:-1])
    seconds = np.diff(times, append=edges[-1])
    return Binned(
        edges_s=edges,
        mean=np.add.reduceat(values * seconds, first) / np.add.reduceat(seconds, first),
        low=np.minimum.reduceat(values, first),
        high=np.maximum.reduceat(values, first),
    )


@dataclass(frozen=True)
class Cdf:
    """Share of values at or below each `value`; both columns ascend."""

    value: Floats
    share: Floats


def cdf(values: Floats, points: int = 400) -> Cdf:
    """The empirical distribution of `values`, in at most `points` quantiles with both ends kept."""
    ordered = np.sort(values)
    n = len(ordered)
    ranks = np.arange(n) if n <= points else np.unique(np.linspace(0, n - 1, points).round().astype(np.int64))
    return Cdf(ordered[ranks], (ranks + 1) / max(n, 1))
