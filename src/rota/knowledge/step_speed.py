"""Steps per second by workers and parameter servers, fitted to what was measured: Optimus' speed models.

Source    Peng et al., "Optimus", EuroSys 2018, section 3.2.  With p servers, w workers and batch M

    synchronous    1 / (t0 M / w + t1 + t2 w / p + t3 w + t4 p)
    asynchronous   w / (t0 + t1 w / p + t2 w + t3 p)
    all-reduce     1 / (t0 M / w + t1 + t2 w)          (ours: no servers, and links as many as workers)

with all t at least 0: forward and backward pass, transfer, and what each connection costs.  Inverted they are
linear in the t, so that these come from non-negative least squares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from rota.model.columns import Floats


class Training(StrEnum):
    """How workers agree on the next step."""

    SYNCHRONOUS = "synchronous"
    ASYNCHRONOUS = "asynchronous"
    ALL_REDUCE = "all-reduce"


PARAMETERS = {Training.SYNCHRONOUS: 5, Training.ASYNCHRONOUS: 4, Training.ALL_REDUCE: 3}
"""How many t each model has: with fewer measurements nothing is fitted."""


@dataclass(frozen=True)
class StepSpeed:
    """A fitted model."""

    training: Training
    t: tuple[float, ...]
    batch: float = 1.0
    """M, over all workers."""

    def at(self, workers: float, servers: float = 1.0) -> float:
        """Steps per second; of all workers together where they do not wait for each other."""
        seconds = float(_terms(self.training, self.batch, [servers], [workers])[0] @ np.array(self.t))
        steps = workers if self.training is Training.ASYNCHRONOUS else 1.0
        return steps / seconds


def fit_speed(
    training: Training,
    workers: Sequence[float],
    speeds: Sequence[float],
    servers: Sequence[float] | None = None,
    batch: float = 1.0,
) -> StepSpeed | None:
    """The model through speeds measured on given workers and servers; None if they are too few.

    Errors count relative to what was measured: a step of an hour and one of a second count alike.
    """
    if len(set(zip(workers, servers or workers, strict=True))) < PARAMETERS[training]:
        return None
    from scipy.optimize import nnls

    steps = np.array(workers) if training is Training.ASYNCHRONOUS else np.ones(len(workers))
    seconds = steps / np.array(speeds)
    terms = _terms(training, batch, servers or [1.0] * len(workers), workers) / seconds[:, None]
    scale = np.linalg.norm(terms, axis=0)
    scale = np.where(scale > 0.0, scale, 1.0)
    t, _ = nnls(terms / scale, np.ones(len(workers)))
    return StepSpeed(training, tuple((t / scale).tolist()), batch) if t.any() else None


def _terms(training: Training, batch: float, servers: Sequence[float], workers: Sequence[float]) -> Floats:
    """What each t is multiplied with, [measurement, t]."""
    p, w = np.array(servers, dtype=np.float64), np.array(workers, dtype=np.float64)
    one = np.ones(len(w))
    if training is Training.SYNCHRONOUS:
        return np.stack((batch / w, one, w / p, w, p), axis=1)
    if training is Training.ASYNCHRONOUS:
        return np.stack((one, w / p, w, p), axis=1)
    return np.stack((batch / w, one, w), axis=1)
