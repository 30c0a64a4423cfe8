"""The goodput of each configuration on a menu: measured, stated, or taken over from another GPU type."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rota.knowledge.goodput import stages_of
from rota.knowledge.goodput_sizes import GoodputSizes
from rota.knowledge.needs import Table
from rota.model.columns import Bools, Floats, Ints
from rota.systems.sia.configurations import Menu, TypeShape

_NEVER = np.iinfo(np.int64).max


class SizesByType:
    """Best batches by number of GPUs on the nodes of each type, remembered."""

    def __init__(self, *, clips: bool = True) -> None:
        """`clips` as in `GoodputSizes`."""
        self._clips = clips
        self._of: dict[tuple[int, int, bytes], GoodputSizes] = {}

    def on(self, per_node: int, gpus: Ints, stages: int = 1) -> GoodputSizes:
        """For these numbers of `gpus` (each once) on nodes of `per_node`, as few as possible.

        A replica takes `stages` of them.
        """
        key = per_node, stages, gpus.tobytes()
        if key not in self._of:
            if len(self._of) > 16:
                self._of.clear()
            nodes = -(-gpus // max(per_node, 1))
            self._of[key] = GoodputSizes(nodes, gpus // stages, clips=self._clips)
        return self._of[key]


class Goodputs:
    """The known goodput of some jobs."""

    def __init__(
        self, table: Table, rows: Ints, done: Floats, batch: Floats, most: Floats | None = None
    ) -> None:
        """Note the work done by `rows`; `batch` is the batch size of jobs that may not choose, else NaN.

        `most` is the largest batch of the others, where it is not NaN.
        """
        shared, classes = table.shared, table.by_row["class"][rows]
        self._fits = shared["fits"][classes]
        self.limits = _limits(table, classes, batch, np.full(len(rows), np.nan) if most is None else most)
        """[job, type, 5]"""
        self._noise = noise_scales(table, classes, done)
        self.stages = stages_of(table, classes)
        """[job, type]: GPUs of one replica."""
        self.has_fit: Bools = np.isnan(self._fits).sum(axis=2) == 0
        """[job, type]"""
        alone = shared.get("alone")
        self.alone: Floats = np.full(self.has_fit.shape, np.nan) if alone is None else alone[classes]
        """[job, type] examples per second on the least GPUs, NaN where not measured."""

    def of(self, menu: Menu, shapes: Sequence[TypeShape], sizes: SizesByType, *, alone_known: bool) -> Floats:
        """Examples at M0 per second of each configuration; 0 where a job cannot run with it.

        On a type without a fit it is that of the same number of GPUs of the first type with one, times the
        ratio of what one GPU of each does (section 3.2).  For a job with no known speeds only its least
        size has a value: what it does there if that is known (`alone_known`), else 1 on every type.
        """
        knows: Bools = self.has_fit.sum(axis=1) > 0
        source = np.where(self.has_fit[menu.job, menu.kind], menu.kind, self.has_fit.argmax(axis=1)[menu.job])
        goodput = np.zeros(len(menu.job))
        for kind, shape in enumerate(shapes):
            of_kind = (source == kind) & knows[menu.job]
            stages = self.stages[menu.job, menu.kind]
            for each in np.unique(stages[of_kind]).tolist():
                asked = np.flatnonzero(of_kind & (stages == each))
                gpus = menu.gpus[asked]
                goodput[asked] = self._measured(menu.job[asked], kind, gpus, shape, sizes, each)
        taken = np.flatnonzero((source != menu.kind) & knows[menu.job])
        goodput[taken] *= self._ratio(menu.job[taken], menu.kind[taken], source[taken])
        blank = np.flatnonzero(~knows[menu.job])
        goodput[blank] = self._unknown(menu.take(blank), alone_known=alone_known)
        return goodput

    def _measured(
        self, job: Ints, kind: int, gpus: Ints, shape: TypeShape, sizes: SizesByType, stages: int
    ) -> Floats:
        """Goodput of jobs on numbers of GPUs of a type for which they have a fit."""
        jobs, row = np.unique(job, return_inverse=True)
        each, column = np.unique(gpus, return_inverse=True)
        best = sizes.on(shape.per_node, each, stages).best(
            self._fits[jobs, kind], self.limits[jobs, kind], self._noise[jobs]
        )
        goodput: Floats = best.goodput[row, column]
        return goodput

    def _ratio(self, job: Ints, kind: Ints, source: Ints) -> Floats:
        """Speed of one GPU of `kind` over that of one of `source`; 1 unless both were measured."""
        ratio = self.alone[job, kind] / self.alone[job, source]
        return np.where(np.isnan(ratio), 1.0, ratio)

    def _unknown(self, menu: Menu, *, alone_known: bool) -> Floats:
        """What jobs with no known speeds do on their least size of each type."""
        least = np.full(self.has_fit.shape, _NEVER)
        np.minimum.at(least, (menu.job, menu.kind), menu.gpus)
        is_least = menu.gpus == least[menu.job, menu.kind]
        measured: Bools = (~np.isnan(self.alone)).sum(axis=1) > 0
        alone = np.nan_to_num(self.alone[menu.job, menu.kind], nan=0.0)
        value = np.where(measured[menu.job], alone, 1.0) if alone_known else np.ones(len(menu.job))
        goodput: Floats = np.where(is_least | menu.is_held, value, 0.0)
        return goodput


def noise_scales(table: Table, classes: Ints, done: Floats) -> Floats:
    """Noise scale in examples [job] after `done` work of each job of `classes`."""
    phases = table.shared["noise"][classes]
    phase = np.argmax(~(phases[:, :, 0] <= done[:, None]), axis=1)
    sqr, var = phases[np.arange(len(classes)), phase, 1:].T
    scale = np.divide(var, sqr, out=np.full(len(sqr), np.inf), where=sqr > 0.0)
    scales: Floats = scale * table.shared["limits"][classes, 0]
    return scales


def _limits(table: Table, classes: Ints, batch: Floats, most: Floats) -> Floats:
    """Limits of the batch by job and type [job, type, 5]; for a fixed batch it is the least and the most.

    Then its efficiency is the same on all configurations, and counts as 1.
    """
    fits, limits, local = (table.shared.get(name) for name in ("fits", "limits", "local"))
    assert fits is not None
    assert limits is not None
    by_type = np.repeat(limits[classes][:, None, :], fits.shape[1], axis=1)
    if local is not None:
        by_type[:, :, 2:4] = local[classes]
    capped = ~np.isnan(most)
    by_type[capped, :, 1] = np.maximum(most[capped, None], by_type[capped, :, 0])
    fixed = ~np.isnan(batch)
    by_type[fixed, :, :2] = batch[fixed][:, None, None]
    return by_type
