"""The Gittins index of a job whose total service is known as a sample of past jobs.

Source    Gittins, "Bandit Processes and Dynamic Allocation Indices", 1979; as Tiresias (NSDI 2019) uses it
Formula   G(a, D) = P(S - a <= D | S > a) / E[min(S - a, D) | S > a]: the chance to end within a quantum D
          per unit of service spent on it, for a job that has received a.  Serve the highest first.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from rota.model.columns import Array, Floats


class Gittins:
    """The index of the empirical distribution of `samples`: services of past jobs, in any order."""

    def __init__(self, samples: Array | Sequence[float]) -> None:
        self.samples: Floats = np.sort(np.asarray(samples, dtype=np.float64))
        self._sum_below: Floats = np.concatenate(([0.0], np.cumsum(self.samples)))

    def index(self, service: Array, quantum: Array | float = math.inf) -> Floats:
        """G of each service received, for a quantum each or one for all; 0 where no sample is larger."""
        service = np.asarray(service, dtype=np.float64)
        n = len(self.samples)
        low = np.searchsorted(self.samples, service, side="right")
        high = np.searchsorted(self.samples, service + quantum, side="right")
        spent = self._sum_below[high] - self._sum_below[low] - service * (high - low)
        # A difference of large sums may lose what is left to the next sample, the least that each costs.
        next_one = self.samples[np.minimum(low, n - 1)] if n else service
        spent = np.maximum(spent, (next_one - service) * (high - low))
        # Those that outlast the quantum cost all of it; with an endless quantum there are none.
        spent = spent + np.where(high < n, n - high, 0) * np.where(np.isinf(quantum), 0.0, quantum)
        index: Floats = np.where(low < n, (high - low) / np.where(low < n, spent, 1.0), 0.0)
        return index

    def best(self, service: float) -> tuple[float, float]:
        """The largest G over all quanta, and the smallest quantum that reaches it; (0, 0) beyond the samples.

        It is enough to try the distances to the samples: between two of them G only falls.
        """
        quanta = np.unique(self.samples[self.samples > service]) - service
        if not len(quanta):
            return 0.0, 0.0
        values = self.index(np.full(len(quanta), service), quanta)
        at = int(np.argmax(values))
        return float(values[at]), float(quanta[at])


class SimulatorGittins:
    """The index as the simulator of Tiresias computes it, in millionths, for one quantum.

    It differs from the definition: E takes whole sample values without subtracting what was received and
    is floored, P is rounded to five digits, the index changes only where a sample is passed, and the
    largest sample never counts as reached.
    """

    def __init__(self, samples: Array | Sequence[float], quantum: float) -> None:
        self.samples = sorted(int(sample) for sample in samples)
        self.ranks = [self._rank(first, quantum) for first in range(len(self.samples))]

    def _rank(self, first: int, quantum: float) -> float:
        """The index while `first` is the first sample not reached yet."""
        samples, n = self.samples, len(self.samples)
        first = bisect_right(samples, samples[first] - 1)
        horizon = samples[first] - 1 + quantum
        last = n - 1 if horizon > samples[-1] - 1 else bisect_right(samples, horizon)
        left = n - first
        reached = _half_up((last - first) / left, 5)
        spent = (sum(samples[first:last]) + quantum * (n - last)) // left
        return _half_up(reached * 1e6 / spent, 4)

    def index(self, service: float) -> float:
        """The index of a job that has received `service`; 0 from the largest sample on."""
        first = bisect_right(self.samples, service)
        return self.ranks[first] if first < len(self.samples) else 0.0


def _half_up(value: float, digits: int) -> float:
    """Rounded as Python 2 did: halves go away from zero."""
    scale = 10.0**digits
    return math.floor(value * scale + 0.5) / scale
