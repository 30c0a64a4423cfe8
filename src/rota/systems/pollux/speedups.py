"""Value of each size to a job: goodput there over that on a fair share, less the cost of a restart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rota.knowledge.goodput import BatchLimits, BatchSplit, Noise, StepFit, stages_of
from rota.knowledge.goodput_sizes import GoodputSizes
from rota.knowledge.needs import Knowledge, Table
from rota.model.columns import Array, Bools, Floats, Ints
from rota.model.gpu_counts import feasible_counts
from rota.model.grants import Can
from rota.scheduler.snapshot import Snapshot
from rota.systems.pollux.parameters import PolluxParameters

_LEAST = 1e-3
"""Added to each speedup, so that a job with nothing does not make all others worthless."""


@dataclass(frozen=True)
class Models:
    """What is known of some rows."""

    rows: Ints
    fits: Floats
    """[row, 7]; NaN where nothing is."""
    limits: Floats
    """[row, 5], as in `goodput_table`."""
    noises: Floats
    """[row], scales in examples."""
    profiled: Floats
    """[row]: the most GPUs that it was measured on; infinite if all is known."""
    stages: Ints
    """[row]: GPUs of one replica, the unit of fits and limits."""

    @property
    def known(self) -> Bools:
        known = np.isfinite(self.fits).all(axis=1)
        return np.asarray(known, dtype=bool)


def models_of(snapshot: Snapshot, rows: Ints, kinds: Ints) -> Models:
    """Models of `rows` on the GPU types `kinds`, with the noise of the epoch in which each is."""
    told: Table = snapshot.know(Knowledge.GOODPUT)
    number = told.by_row["class"][rows]
    shared = told.shared
    profiled = told.by_row.get("profiled")
    most = np.full(len(rows), math.inf) if profiled is None else profiled[rows].max(axis=1).astype(float)
    limits = shared["limits"][number]
    phases = shared["noise"][number]
    done = snapshot.jobs.work_done(rows)
    phase = np.minimum((phases[:, :, 0] <= done[:, None]).sum(axis=1), phases.shape[1] - 1)
    noise = phases[np.arange(len(rows)), phase]
    scale = [Noise(sqr, var).scale(first) for (_, sqr, var), first in zip(noise, limits[:, 0], strict=True)]
    stages = stages_of(told, number)[np.arange(len(rows)), kinds]
    return Models(rows, shared["fits"][number, kinds], limits, np.array(scale), most, stages)


class Speedups:
    """Speedups by size, and the best batches that give them."""

    clips: ClassVar[bool] = True
    """As in `GoodputSizes`."""

    def __init__(self, parameters: PolluxParameters, node_gpus: int, gpus: int) -> None:
        """For nodes of up to `node_gpus` in a cluster of `gpus`."""
        self.parameters = parameters
        self.most = max(1, min(parameters.most_gpus, gpus))
        """The most GPUs of one job."""
        self.node_gpus, self.gpus = node_gpus, gpus
        self.local = self.most_local()
        """GPUs up to which goodput on one node is worked out."""
        self.unit = 1.0
        """The speedup that counts as 1."""
        across = np.arange(2, self.most + 1)
        self.sizes = GoodputSizes(
            np.concatenate((np.ones(self.local, int), np.full(len(across), 2))),
            np.concatenate((np.arange(1, self.local + 1), across)),
            clips=self.clips,
        )

    def most_local(self) -> int:
        """The most GPUs that are looked at on one node: the GPUs of the largest node."""
        return min(self.node_gpus, self.most)

    def goodputs(self, models: Models) -> Floats:
        """[row, one node or several, GPUs]; NaN for a row with no known speeds."""
        best = self.sizes.best(models.fits, models.limits, models.noises).goodput
        table = np.zeros((len(models.rows), 2, self.most + 1))
        table[:, 1, 2:] = best[:, self.local :]
        table[:, 0, 1 : self.local + 1] = best[:, : self.local]
        table[:, 0, self.local + 1 :] = table[:, 1, self.local + 1 :]
        table[:, 1, 1] = table[:, 0, 1]
        for row in np.flatnonzero(models.stages > 1).tolist():
            table[row] = table[row][:, np.arange(self.most + 1) // models.stages[row]]
            table[row, 0, self.local + 1 :] = table[row, 1, self.local + 1 :]
        table[~models.known] = math.nan
        return table

    def speedups(self, models: Models, jobs: int) -> Floats:
        """[row, one node or several, GPUs], with `jobs` sharing the cluster."""
        fair = min(max(1, math.ceil(self.gpus / max(jobs, 1))), self.most)
        across = int(fair > self.local)
        goodputs = self.goodputs(models)
        at_fair = goodputs[:, across, fair]
        for row in np.flatnonzero(at_fair == 0.0).tolist():  # a fair share cannot split its largest batch
            below = goodputs[row, across, :fair]
            at_fair[row] = below[below > 0.0][-1] if (below > 0.0).any() else math.nan
        with np.errstate(invalid="ignore"):
            speedups: Floats = goodputs / at_fair[:, None, None]
        in_proportion = np.arange(self.most + 1) / fair
        return np.where(np.isnan(speedups), in_proportion, speedups)

    def alone(self, models: Models) -> Floats:
        """[row, one node or several, GPUs]: speedup over one GPU; 0 where a job cannot run."""
        goodputs = self.goodputs(models)
        positive = goodputs[:, 0] > 0.0
        least = positive.argmax(axis=1)  # so few GPUs that they still do something
        one = goodputs[np.arange(len(goodputs)), 0, least] / np.maximum(least, 1)
        with np.errstate(invalid="ignore", divide="ignore"):
            alone: Floats = goodputs / np.where(positive.any(axis=1), one, math.nan)[:, None, None]
        in_proportion = np.arange(self.most + 1.0)
        return np.where(models.known[:, None, None], np.nan_to_num(alone), in_proportion)

    def worth(self, speedups: Floats, restart: Floats) -> Floats:
        """[row, kept or changed, one node or several, GPUs]: what each adds to the fitness.

        `restart` [row] is the part of the speedup that is left to a job that is changed.
        """
        both = np.stack((speedups, speedups * restart[:, None, None]), axis=1)
        both /= self.unit
        both += _LEAST
        p = self.parameters.p
        if p == 0.0:
            return np.log(both)
        powers: Floats = both**p
        return powers if p > 0.0 else -powers

    # -- sizes -------------------------------------------------------------------------------------

    def limits(self, snapshot: Snapshot, models: Models) -> Array:
        """[row, GPUs]: the largest number that each can use and that is no more than these; else 0."""
        table, can = snapshot.jobs.table, snapshot.jobs.can(models.rows)
        most = np.maximum(np.minimum(self.parameters.growth * models.profiled, self.most), 1)
        most = np.minimum(most, models.limits[:, 1] // np.maximum(models.limits[:, 2], 1) * models.stages)
        limits = np.zeros((len(models.rows), self.most + 1), dtype=np.int16)
        known: dict[tuple[object, ...], Array] = {}
        for place, row in enumerate(models.rows.tolist()):
            grant = snapshot.grants.get(row)
            largest = self.largest(snapshot, row, int(most[place]))
            held = len(grant.devices) if grant is not None and not can[place] & Can.RESIZE else 0
            asked = [column.item(row) for column in (table.gpus_min, table.gpus_max, table.gpus_step)]
            key = held, largest, *asked, table.counts.item(row)
            if key not in known:
                counts = (held,) if held else feasible_counts(table, row, largest)
                known[key] = self._floor(counts)
            limits[place] = known[key]
        return limits

    def _floor(self, counts: Sequence[int]) -> Array:
        """By number of GPUs, the largest of `counts` that is no more."""
        floor = np.zeros(self.most + 1, dtype=np.int16)
        for count in counts:
            floor[count:] = count
        return floor

    def largest(self, snapshot: Snapshot, row: int, most: int) -> int:
        """The most GPUs that a job may have, given what it was measured on and its largest batch."""
        return most

    # -- batches -----------------------------------------------------------------------------------

    def batch_size(self, models: Models, place: int, nodes: int, gpus: int, now: float) -> float:
        """Batch for one of the rows on such a size; NaN if it has no choice.

        `now` is the batch that it works with, which it keeps if the best gains too little; NaN for none.
        """
        row, limits = models.limits[place], _limits(models.limits[place])
        gpus //= int(models.stages[place])
        if limits.most == limits.initial or not gpus:
            return math.nan
        if not models.known[place]:
            usual = max(limits.initial, limits.local_least * gpus)
            return now if now == now else float(limits.split(gpus, usual).total(gpus))
        best = self.sizes.of(models.fits[place], row, float(models.noises[place]))
        size = (gpus if nodes == 1 else self.local + gpus - 1) - 1
        if size >= len(best.goodput) or not best.goodput[size] > 0.0:
            return now
        chosen = BatchSplit(int(best.local[size]), int(best.passes[size])).total(gpus)
        if now == now:
            fit, batch = StepFit(*models.fits[place].tolist()), limits.split(gpus, now)
            noise = models.noises[place] / limits.initial
            efficiency = Noise(1.0, noise).efficiency(batch.total(gpus), limits.initial)
            kept = fit.throughput(nodes, gpus, batch) * efficiency
            if best.goodput[size] <= kept * (1.0 + self.parameters.batch_gain):
                return now
        return float(chosen)


def _limits(row: Floats) -> BatchLimits:
    initial, most, least, local_most, accumulates = (int(size) for size in row.tolist())
    return BatchLimits(initial, most, least, local_most, bool(accumulates))


def restart_factor(age_s: Floats, restarts: Floats | Ints, restart_s: float) -> Floats:
    """Part of its speedup that is left to a job of this age if it is changed once more."""
    after = np.maximum(age_s - restarts * restart_s, 0.0)
    factor: Floats = np.divide(after, age_s + restart_s, out=np.ones(len(after)), where=age_s + restart_s > 0)
    return factor


def fitness(speedups: Floats, p: float) -> float:
    """The power mean of speedups, as the paper defines it."""
    raised = np.asarray(speedups, float) + _LEAST
    return float(np.exp(np.log(raised).mean()) if p == 0.0 else (raised**p).mean() ** (1.0 / p))
