"""How far each job is, how long it has to go: by its regimes where they are known, else by its duration."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rota.knowledge.needs import Knowledge
from rota.knowledge.regimes import Regimes
from rota.model.columns import Floats, Ints
from rota.scheduler.snapshot import Snapshot
from rota.solvers.regimes import Epochs, posterior_left_s, restated_left_s
from rota.systems.shockwave.parameters import Predictor, ShockwaveParameters

OFF = 1.4
"""Factor: a job slower or faster than its profile by this has its forecast corrected by measurement."""


class Outlook(NamedTuple):
    """Forecasts of some jobs, one after the other."""

    rows: Ints
    progress: Floats
    """Part of the job that is done, 0 to 1."""
    whole_s: Floats
    """Seconds that all of it would take at the mean pace so far."""
    left_s: Floats
    """Run time left, above 0."""
    spent_s: Floats
    """Run time that the work done so far took."""
    mode: Ints
    """Batch size now, as a place among those of its class."""


def outlook(snapshot: Snapshot, rows: Ints, parameters: ShockwaveParameters) -> Outlook:
    """What is foreseen of `rows` now.

    A job that has outlived its forecast is taken to need another round: it looks the same as one that is
    about to end, and must not be without anything to gain.  In the authors' code it has one second left and
    nothing to gain, so that it gets what all others leave.
    """
    regimes = Regimes.of(snapshot.know(Knowledge.REGIMES))
    done_s, total_s = snapshot.jobs.work_s(rows), snapshot.know(Knowledge.DURATION)[rows]
    left_s, spent_s, whole_s = total_s - done_s, done_s, total_s
    progress = np.divide(done_s, total_s, out=np.zeros(len(rows)), where=total_s > 0.0)
    known = ~np.isnan(regimes.seconds[regimes.classes[rows], regimes.mode[rows]])
    if known.any():
        among = rows[known]
        epochs = _epochs(snapshot, regimes, among, parameters)
        left_of = restated_left_s if parameters.predictor is Predictor.RESTATE else posterior_left_s
        progress[known] = epochs.done / epochs.total
        whole_s, left_s, spent_s = whole_s.copy(), left_s.copy(), spent_s.copy()
        whole_s[known] = epochs.mean_s * epochs.total
        left_s[known], spent_s[known] = left_of(epochs), epochs.spent_s
    outlived, whole_s = (left_s <= 0.0) | (progress >= 1.0), np.maximum(whole_s, 1e-9)
    left_s = np.where(outlived, 1.0 if parameters.whole_epochs else parameters.round_s, left_s)
    if parameters.whole_epochs:
        progress = np.where(outlived, 1.0, progress)
    else:
        whole_s = np.where(outlived, spent_s + parameters.round_s, whole_s)
        progress = np.where(outlived, spent_s / whole_s, progress)
    pace = _pace(snapshot, rows, parameters)
    return Outlook(rows, progress, whole_s * pace, left_s * pace, spent_s, regimes.mode[rows])


def _epochs(snapshot: Snapshot, regimes: Regimes, rows: Ints, parameters: ShockwaveParameters) -> Epochs:
    """The epochs of jobs whose regimes are known."""
    of_class, total = regimes.classes[rows], regimes.epochs[rows]
    done = np.clip(snapshot.jobs.work_done(rows) / regimes.per_epoch[rows], 0.0, total)
    seconds, seen, mode = regimes.seconds[of_class], regimes.seen[rows], regimes.mode[rows]
    if parameters.whole_epochs:
        done = np.floor(done + 1e-9)
        seconds, seen, mode = _scheduled(regimes, of_class, np.minimum(done, total - 1.0))
    return Epochs(total, done, seen, mode, seconds)


def _scheduled(regimes: Regimes, of_class: Ints, epoch: Floats) -> tuple[Floats, Floats, Ints]:
    """Whole seconds of an epoch in each mode, epochs seen and mode, as the profiled schedule has them.

    The authors' code counts what was seen by the schedule that the job was profiled with, and takes as its
    modes the modes of the whole schedule.
    """
    until, regime = regimes.until[of_class], regimes.regime[of_class]
    begins = np.concatenate((np.zeros((len(until), 1)), until[:, :-1]), axis=1)
    begun = np.clip(np.minimum(until, epoch[:, None] + 1.0) - begins, 0.0, None)
    seen = np.zeros((len(until), regimes.seconds.shape[1]))
    occurs = np.zeros(seen.shape, dtype=bool)
    job, place = np.nonzero(regime >= 0)
    np.add.at(seen, (job, regime[job, place]), np.nan_to_num(begun[job, place], nan=0.0))
    occurs[job, regime[job, place]] = True
    current = (np.nan_to_num(begun, nan=0.0) > 0.0).sum(axis=1) - 1
    mode = regime[np.arange(len(regime)), np.maximum(current, 0)]
    seconds = np.where(occurs, np.maximum(np.round(regimes.seconds[of_class]), 1.0), np.nan)
    return seconds, seen, mode


def _pace(snapshot: Snapshot, rows: Ints, parameters: ShockwaveParameters) -> Floats:
    """Seconds that a job takes for what its profile says takes one, 1 unless it is far off."""
    ran_s, work_s = snapshot.jobs.ran_s(rows), snapshot.jobs.work_s(rows)
    told = (ran_s >= parameters.round_s) & (work_s > 0.0)
    pace = np.divide(ran_s, work_s, out=np.ones(len(rows)), where=told)
    return np.where((pace > OFF) | (pace < 1.0 / OFF), pace, 1.0)
