"""Regimes: the batch sizes that a job goes through as it trains, and how fast it is with each.

Programs that adapt their batch size (Accordion, gradient noise, rules of their users) change their throughput
while they train (Shockwave, NSDI 2023).  A *mode* is one of the batch sizes a job may use, a *regime* a
stretch of epochs in one mode.  A policy receives a table, read again before each decision, which `Regimes.of`
reads:

    by row    class, epochs, per_epoch, mode, seen [job, mode]
    shared    modes [class, mode], seconds [class, mode], until [class, regime], regime [class, regime]

`until` and `regime` are the schedule, the future included: what the job was profiled with, or its user says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rota.knowledge.given import Given
from rota.knowledge.needs import Knowledge, Provenance, Provider, Table
from rota.knowledge.registry import Setup, provides
from rota.model.columns import Floats, Ints


class Regime(NamedTuple):
    """A stretch of epochs with one batch size."""

    first: float
    """Epochs done when it begins."""
    batch: float
    """Samples of a step, as the table of throughputs counts them."""


@dataclass(frozen=True)
class Course:
    """Which batch sizes a job goes through."""

    samples: float
    """Samples of an epoch."""
    epochs: float
    """Epochs in all."""
    regimes: tuple[Regime, ...]
    """The schedule that it was profiled with, or its user states; the first regime begins at 0."""
    asks: tuple[Regime, ...] = ()
    """When its program asks for another batch size, where it does so at the end of a round; empty if by
    `regimes`."""
    doubles: bool = False
    """True if it asks only for twice its batch size, and does so an epoch ahead."""

    def at(self, epoch: float) -> float:
        """The batch size after `epoch` epochs."""
        return _batch_at(self.regimes, epoch)

    def wish(self, epoch: int, batch: float) -> float | None:
        """The batch size that its program, in its `epoch`-th epoch with `batch`, asks for, if any."""
        asks = self.asks or self.regimes
        if self.doubles:
            return 2.0 * batch if max(_batch_at(asks, epoch), _batch_at(asks, epoch + 1)) > batch else None
        wanted = _batch_at(asks, epoch)
        return None if wanted == batch else wanted

    @property
    def batches(self) -> tuple[float, ...]:
        """The batch sizes of its epochs, in the order in which they come."""
        return tuple(dict.fromkeys(one.batch for one in self.regimes if one.first < max(self.epochs, 1e-9)))

    @property
    def modes(self) -> tuple[float, ...]:
        """The batch sizes of its epochs, then the others that it may ask for."""
        asked = [regime.batch for regime in self.asks if regime.first <= self.epochs + 1]
        return tuple(dict.fromkeys((*self.batches, *asked)))


def _batch_at(regimes: Sequence[Regime], epoch: float) -> float:
    return next(regime.batch for regime in reversed(regimes) if regime.first <= epoch)


# -- as a table ------------------------------------------------------------------------------------


class Profile(NamedTuple):
    """The regimes of a class of jobs."""

    modes: tuple[float, ...]
    """Batch sizes."""
    seconds: tuple[float, ...]
    """Seconds of an epoch with each, at the request."""
    regimes: tuple[tuple[float, int], ...]
    """After how many epochs each regime ends, and its mode."""


def profile_of(course: Course, seconds: Sequence[float]) -> Profile:
    """The profile of a course whose modes take `seconds` an epoch."""
    place = {batch: i for i, batch in enumerate(course.modes)}
    ahead = [regime for regime in course.regimes if regime.first < course.epochs]
    ends = [*(regime.first for regime in ahead[1:]), math.inf]
    told = tuple((end, place[regime.batch]) for regime, end in zip(ahead, ends, strict=True))
    return Profile(course.modes, tuple(seconds), told)


class Classes(NamedTuple):
    """The different profiles, each once."""

    of_row: Ints
    shared: dict[str, Floats | Ints]


def classes_of(profiles: Sequence[Profile]) -> Classes:
    """The classes of jobs with these profiles, one a row."""
    number = {profile: i for i, profile in enumerate(dict.fromkeys(profiles))}
    of_row: Ints = np.array([number[profile] for profile in profiles], dtype=np.int64)
    modes = max((len(profile.modes) for profile in number), default=1)
    regimes = max((len(profile.regimes) for profile in number), default=1)
    sizes, seconds = (np.full((len(number), modes), math.nan) for _ in range(2))
    until, regime = np.full((len(number), regimes), math.nan), np.full((len(number), regimes), -1)
    for i, profile in enumerate(number):
        sizes[i, : len(profile.modes)] = profile.modes
        seconds[i, : len(profile.modes)] = profile.seconds
        for j, (end, mode) in enumerate(profile.regimes):
            until[i, j], regime[i, j] = end, mode
    return Classes(of_row, {"modes": sizes, "seconds": seconds, "until": until, "regime": regime})


@dataclass(frozen=True)
class Regimes:
    """What is known of the regimes of jobs; columns run over the rows of the job table."""

    classes: Ints
    """Class of each job."""
    epochs: Floats
    """Epochs in all."""
    per_epoch: Floats
    """Work of an epoch at the present batch size: `work_done / per_epoch` is how many epochs are done."""
    mode: Ints
    """The present batch size, as a place in `modes`."""
    seen: Floats
    """Epochs in each mode so far, the current one included, [job, mode]."""
    modes: Floats
    """Batch sizes, [class, mode]; NaN after the last, and for an unknown one."""
    seconds: Floats
    """Seconds of an epoch in each mode, at the request on the fastest type, [class, mode]; NaN if unknown."""
    until: Floats
    """Epochs after which each regime of the schedule ends, [class, regime]; the last never; then NaN."""
    regime: Ints
    """Mode of each regime, [class, regime]; -1 after the last."""

    @classmethod
    def of(cls, table: Table) -> Regimes:
        """The regimes in `table`."""
        row, shared = table.by_row, table.shared
        return cls(
            row["class"], row["epochs"], row["per_epoch"], row["mode"], row["seen"],
            shared["modes"], shared["seconds"], shared["until"], shared["regime"],
        )  # fmt: skip

    def mode_at(self, row: int, epoch: float) -> int:
        """Mode of the schedule of `row` after `epoch` epochs."""
        of_class = self.classes.item(row)
        place = int(np.searchsorted(self.until[of_class], epoch, side="right"))
        return self.regime.item(of_class, place)


@provides(Knowledge.REGIMES, Provenance.ASSUMED, "every job keeps its batch size, and is one epoch long")
def one_regime(setup: Setup) -> Provider:
    """Assumes a single regime, so that progress is counted by the duration of a job."""
    jobs = len(setup.jobs)
    by_row = {
        "class": np.zeros(jobs, dtype=np.int64),
        "epochs": np.ones(jobs),
        "per_epoch": np.full(jobs, math.nan),
        "mode": np.zeros(jobs, dtype=np.int64),
        "seen": np.ones((jobs, 1)),
    }
    unknown = Profile((math.nan,), (math.nan,), ((math.inf, 0),))
    return Given(Knowledge.REGIMES, Table(by_row, classes_of([unknown]).shared), Provenance.ASSUMED)
