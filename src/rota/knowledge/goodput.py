"""Goodput: how much progress per second a job makes, for its devices and its batch size.

Goodput is throughput × statistical efficiency (Pollux, OSDI 2021; the same formulas serve Sia by GPU type). A
policy receives a table (`goodput_table`), which `profiles_of` reads back as profiles: by row `class`; shared
`fits` [class, GPU type, 7], NaN on types on which it cannot run, `limits` [class, 5] and `noise` [class,
phase, 3], NaN after the last phase; `stages` [class, GPU type], if there are pipelines.

Names follow the paper: M0 is the batch size a job was submitted with, m the batch of one GPU in one pass, s
the passes whose gradients are accumulated before a step.  Progress is counted in *examples at M0*: an example
of a larger batch counts for less, since its gradient tells less that is new.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from rota.knowledge.needs import Table
from rota.model.columns import Ints

SIZES = 50
"""Batch sizes that a job compares, spaced geometrically."""
CEILING = 1e-8
"""Tolerance of roundings up, as in the authors' code."""


class StepFit(NamedTuple):
    """Seconds of a step by nodes, GPUs and batch: the seven fitted parameters of the paper."""

    alpha_c: float
    beta_c: float
    """Computing: a constant, and per example of the local batch."""
    alpha_n: float
    beta_n: float
    """Synchronising across nodes: a constant, and per GPU beyond two."""
    alpha_r: float
    beta_r: float
    """Synchronising within a node: a constant, and per GPU beyond two."""
    gamma: float
    """Overlap of computing and synchronising, from 1 (none) to 10 (all)."""

    def gradient_s(self, local: float) -> float:
        return self.alpha_c + self.beta_c * local

    def sync_s(self, nodes: int, gpus: int) -> float:
        if gpus == 1:
            return 0.0
        alpha, beta = (self.alpha_r, self.beta_r) if nodes == 1 else (self.alpha_n, self.beta_n)
        return alpha + beta * max(gpus - 2, 0)

    def step_s(self, nodes: int, gpus: int, batch: BatchSplit) -> float:
        """Seconds from one update of the weights to the next."""
        gradient, sync, gamma = self.gradient_s(batch.local), self.sync_s(nodes, gpus), self.gamma
        last: float = (gradient**gamma + sync**gamma) ** (1.0 / gamma)
        return batch.accumulated * gradient + last

    def throughput(self, nodes: int, gpus: int, batch: BatchSplit) -> float:
        """Examples per second."""
        return batch.total(gpus) / self.step_s(nodes, gpus, batch)


class BatchSplit(NamedTuple):
    """How a job splits its batch."""

    local: int
    """Examples of one GPU in one pass, m."""
    accumulated: int = 0
    """Passes before the one that ends in a step, s."""

    def total(self, gpus: int) -> int:
        """Examples of one step, M."""
        return gpus * self.local * (self.accumulated + 1)


class Noise(NamedTuple):
    """Statistics of the gradient at batch size M0."""

    sqr: float
    """Squared norm of its mean."""
    var: float
    """Trace of its covariance."""

    def gain(self, batch: float, initial: float) -> float:
        """Steps with `initial` examples that one with `batch` is worth; the factor of the learning rate."""
        return (self.var + self.sqr) / (self.var * initial / batch + self.sqr)

    def efficiency(self, batch: float, initial: float) -> float:
        """Progress of an example in a batch of this size, relative to one in a batch of `initial`."""
        return self.gain(batch, initial) * initial / batch

    def scale(self, initial: float) -> float:
        """Scale of the noise in examples; infinite if a larger batch than `initial` loses nothing."""
        return self.var / self.sqr * initial if self.sqr else math.inf


@dataclass(frozen=True)
class BatchLimits:
    """Between which sizes a job may choose its batch."""

    initial: int
    """M0, the size submitted with, and the least."""
    most: int
    local_least: int
    local_most: int
    accumulates: bool = False
    """True if gradients may be accumulated over several passes."""

    def split(self, gpus: int, wanted: float) -> BatchSplit:
        """The batch of about `wanted` examples on `gpus` GPUs; its true size is `total`."""
        local, passes = wanted / gpus, 0
        if self.accumulates:
            passes = max(math.ceil(local / self.local_most - CEILING) - 1, 0)
            if gpus == 1 and local > self.initial + CEILING:
                passes = max(passes, 1)
        elif gpus == 1:
            local = float(self.initial)
        each = math.ceil(local / (passes + 1) - CEILING)
        return BatchSplit(min(max(each, self.local_least), self.local_most), passes)

    def choices(self, gpus: int) -> list[BatchSplit]:
        """The batches that a job on `gpus` GPUs compares, smallest first; none if the least is too large."""
        least = max(self.initial, self.local_least * gpus)
        if least > self.most:
            return []
        sizes = np.geomspace(least, self.most, SIZES).tolist()
        batches = dict.fromkeys(self.split(gpus, size) for size in sizes)
        return [batch for batch in batches if batch.total(gpus) >= self.initial]


class TrainingPhase(NamedTuple):
    """A part of a job's life in which its gradient's statistics are the same: one epoch, or several."""

    until: float
    """Progress at its end, in examples at M0; infinite for the last."""
    noise: Noise


@dataclass(frozen=True)
class GoodputProfile:
    """All there is to know about the goodput of one workload."""

    limits: BatchLimits
    fits: Mapping[str, StepFit]
    """Fits by GPU type, in lower case; `*` for all others."""
    phases: tuple[TrainingPhase, ...]
    examples: float = math.nan
    """Progress after which the workload is done; NaN if unknown."""
    stages: Mapping[str, int] = field(default_factory=dict)
    """GPUs of one replica by GPU type, as in `fits`: the stages of a pipeline; 1 for a type that is missing.
    Fits and limits are then those of replicas."""

    @cached_property
    def ends(self) -> list[float]:
        """Progress at the end of each phase."""
        return [phase.until for phase in self.phases]

    def fit_on(self, gpu_type: str) -> StepFit | None:
        """Times on one type of GPU; None if it cannot run there."""
        return self.fits.get(gpu_type.casefold(), self.fits.get("*"))

    def stages_on(self, gpu_type: str) -> int:
        """GPUs of one replica on one type of GPU."""
        return self.stages.get(gpu_type.casefold(), self.stages.get("*", 1))

    def goodput(self, fit: StepFit, noise: Noise, nodes: int, gpus: int, batch: BatchSplit) -> float:
        """Examples at M0 per second."""
        efficiency = noise.efficiency(batch.total(gpus), self.limits.initial)
        return fit.throughput(nodes, gpus, batch) * efficiency

    def best(
        self, fit: StepFit, noise: Noise, nodes: int, gpus: int, least: float = 0.0
    ) -> tuple[BatchSplit, float] | None:
        """The batch of at least `least` examples with the best goodput, and that; the first of equals.

        None if no batch will do.
        """
        best: tuple[BatchSplit, float] | None = None
        for batch in self.limits.choices(gpus):
            if batch.total(gpus) < least:
                continue
            goodput = self.goodput(fit, noise, nodes, gpus, batch)
            if best is None or goodput > best[1]:
                best = batch, goodput
        return best


@dataclass(frozen=True)
class GoodputTable:
    """Profiles by workload."""

    profiles: Mapping[str, GoodputProfile]
    source: str = "profiles"
    """File they came from, for messages."""


# -- as a table ------------------------------------------------------------------------------------


def goodput_table(profiles: Sequence[GoodputProfile], of_row: Ints, types: Sequence[str]) -> Table:
    """The table of `profiles`, of which each row has one, on the GPU types of a cluster."""
    fits = np.full((len(profiles), len(types), len(StepFit._fields)), math.nan)
    phases = max((len(profile.phases) for profile in profiles), default=1)
    noise = np.full((len(profiles), phases, 3), math.nan)
    for number, profile in enumerate(profiles):
        for column, gpu_type in enumerate(types):
            fit = profile.fit_on(gpu_type)
            if fit is not None:
                fits[number, column] = fit
        for place, (until, (sqr, var)) in enumerate(profile.phases):
            noise[number, place] = until, sqr, var
    limits = np.array([_limits_row(profile.limits) for profile in profiles]).reshape(-1, 5)
    shared = {"fits": fits, "limits": limits, "noise": noise}
    if any(profile.stages for profile in profiles):
        shared["stages"] = np.array([[one.stages_on(kind) for kind in types] for one in profiles])
    return Table({"class": of_row}, shared)


def stages_of(table: Table, classes: Ints) -> Ints:
    """GPUs of one replica of `classes` on each type, [job, type]."""
    stages = table.shared.get("stages")
    if stages is None:
        return np.ones((len(classes), table.shared["fits"].shape[1]), dtype=np.int64)
    told: Ints = stages[classes]
    return told


def _limits_row(limits: BatchLimits) -> list[float]:
    return [limits.initial, limits.most, limits.local_least, limits.local_most, float(limits.accumulates)]


def profiles_of(table: Table, types: Sequence[str]) -> list[GoodputProfile]:
    """The profile of each class of `table`, on GPU types in the order of the cluster's."""
    shared = table.shared
    profiles = []
    stages = stages_of(table, np.arange(len(shared["fits"]))).tolist()
    for fits, limits, noise, each in zip(
        shared["fits"], shared["limits"], shared["noise"], stages, strict=True
    ):
        initial, most, least, local_most, accumulates = (int(size) for size in limits.tolist())
        known = {
            gpu_type.casefold(): StepFit(*fit.tolist())
            for gpu_type, fit in zip(types, fits, strict=True)
            if not np.isnan(fit).any()
        }
        phases = [
            TrainingPhase(until, Noise(sqr, var)) for until, sqr, var in noise.tolist() if until == until
        ]
        sizes = BatchLimits(initial, most, least, local_most, bool(accumulates))
        of_type = {name.casefold(): gpus for name, gpus in zip(types, each, strict=True) if gpus > 1}
        profiles.append(GoodputProfile(sizes, known, tuple(phases), stages=of_type))
    return profiles
