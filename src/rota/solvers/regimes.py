"""Forecast of a job's run time whose epochs change pace: which regimes of batch size are still to come.

A job has a number of epochs and a few modes (batch sizes), each with its seconds per epoch; the moments of
change are unknown.  Shockwave (NSDI 2023, section 5) holds a Dirichlet prior of equal parts over the modes
and updates it with the epochs seen.  `posterior` is the Bayesian mean, as the authors' code has it;
`restated` is the paper's rule: modes that have ended are known exactly, the other modes share the rest
evenly, because the plain posterior trusts early regimes too long.

Arrays run over jobs, and modes where they have two axes; `seen` counts epochs by mode, the current one
included, and `exists` says which modes a job has.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rota.model.columns import Bools, Floats, Ints


class Epochs(NamedTuple):
    """What is known of the epochs of some jobs."""

    total: Floats
    """Epochs in all, [job]."""
    done: Floats
    """Whole epochs finished, [job]; at most `total`."""
    seen: Floats
    """Epochs begun in each mode so far, the current one included, [job, mode]."""
    mode: Ints
    """Mode of the current epoch, [job]."""
    seconds: Floats
    """Seconds of an epoch, [job, mode]; NaN where the job has no such mode."""

    @property
    def exists(self) -> Bools:
        return ~np.isnan(self.seconds)

    @property
    def known_seconds(self) -> Floats:
        """Seconds of an epoch, 0 where there is no such mode."""
        return np.nan_to_num(self.seconds, nan=0.0)

    @property
    def mean_s(self) -> Floats:
        """Mean seconds of the epochs seen, [job]."""
        mean: Floats = (self.seen * self.known_seconds).sum(axis=1) / np.maximum(self.seen.sum(axis=1), 1.0)
        return mean

    @property
    def spent_s(self) -> Floats:
        """Seconds of the finished epochs, [job]."""
        begun = (self.seen * self.known_seconds).sum(axis=1)
        current = self.known_seconds[np.arange(len(self.mode)), self.mode]
        more = np.maximum(self.seen.sum(axis=1) - self.done, 0.0)
        spent: Floats = np.maximum(begun - more * current, 0.0)
        return spent


NOTHING_LEFT_S = 1.0
"""Run time left of a job that has no epoch to go, and still runs."""


def posterior_left_s(epochs: Epochs) -> Floats:
    """Run time left by the posterior mean of epochs per mode, [job].

    Seen epochs are taken off each mode's mean while a whole one is left, and the rest is scaled to the epochs
    to go, as the authors' code does.
    """
    modes = epochs.exists.sum(axis=1)
    prior = np.where(epochs.exists, (epochs.total / modes)[:, None], 0.0)
    weight = prior + epochs.seen
    mean = epochs.total[:, None] * weight / weight.sum(axis=1)[:, None]
    ahead = mean - np.minimum(epochs.seen, np.floor(mean))
    to_go = epochs.total - epochs.done
    scale = np.maximum(np.floor(ahead.sum(axis=1) + 1.0), to_go)
    left = (ahead * epochs.known_seconds).sum(axis=1) * to_go / np.maximum(scale, 1.0)
    return np.where(left > 0.0, left, NOTHING_LEFT_S)


def restated_left_s(epochs: Epochs) -> Floats:
    """Run time left if finished regimes are exact and the others share the rest evenly, [job]."""
    left: Floats = (epochs_ahead(epochs) * epochs.known_seconds).sum(axis=1)
    return left


def epochs_ahead(epochs: Epochs) -> Floats:
    """Epochs still to come in each mode by the restated rule, [job, mode].

    The regime that runs keeps what its even share has over the epochs it has finished; what is left goes
    evenly to the modes not seen yet, and all of it to the running one if there are none.
    """
    jobs = np.arange(len(epochs.mode))
    is_current = np.zeros_like(epochs.exists)
    is_current[jobs, epochs.mode] = True
    ended = np.where(~is_current & epochs.exists, epochs.seen, 0.0)
    unseen = epochs.exists & ~is_current & (epochs.seen == 0.0)
    open_modes = epochs.exists.sum(axis=1) - (ended > 0.0).sum(axis=1)
    share = (epochs.total - ended.sum(axis=1)) / np.maximum(open_modes, 1)
    to_go = np.maximum(epochs.total - epochs.done, 0.0)
    ran = np.maximum(epochs.done - ended.sum(axis=1), 0.0)
    keeps = np.where(unseen.any(axis=1), np.clip(share - ran, 0.0, to_go), to_go)
    each = (to_go - keeps) / np.maximum(unseen.sum(axis=1), 1)
    ahead = np.where(unseen, each[:, None], 0.0)
    ahead[jobs, epochs.mode] = keeps
    return ahead
