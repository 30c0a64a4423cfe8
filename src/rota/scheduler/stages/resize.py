"""Place: other numbers of GPUs for jobs that run, keeping what they hold where that is no worse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from rota.model.job_columns import AllowedCounts
from rota.model.jobs import JobTable
from rota.scheduler.stages.place import Place, consolidate
from rota.table.free import Free, mask_of


def feasible_counts(jobs: JobTable, row: int, most: int | None = None) -> tuple[int, ...]:
    """Numbers of GPUs that `row` can use, ascending; at most `most`, but always its least."""
    least, largest = jobs.gpus_min.item(row), jobs.gpus_max.item(row)
    if most is not None:
        largest = max(least, min(largest, most))
    counts: Iterable[int] = range(least, largest + 1, jobs.gpus_step.item(row))
    if jobs.counts[row] == AllowedCounts.POWERS_OF_TWO and least < largest:
        counts = (count for count in counts if count & (count - 1) == 0)
    return tuple(counts) or (least,)


def keeping(own: tuple[int, ...]) -> Place:
    """A placement for a job whose devices `own` are free again: close to them, if that needs no more nodes.

    A smaller share stays on the nodes where the job holds most; a larger one takes what is free beside it,
    or moves as a whole if the job would then stand on fewer nodes.
    """

    def place(free: Free, gpus: int, within: int = -1) -> tuple[int, ...] | None:
        if gpus <= len(own):
            return _fewer(free, own, gpus)
        beside = _more(free, own, gpus, within)
        fresh = consolidate(free.copy(), gpus, within)
        if fresh is None:
            return None
        chosen = beside if beside and _nodes(free, beside) <= _nodes(free, fresh) else fresh
        free.remove_all(chosen)
        return chosen

    return place


def _nodes(free: Free, devices: tuple[int, ...]) -> int:
    return len({free.node_of[device] for device in devices})


def _fewer(free: Free, own: tuple[int, ...], gpus: int) -> tuple[int, ...]:
    held = Counter(free.node_of[device] for device in own)
    order = sorted(own, key=lambda device: (-held[free.node_of[device]], free.node_of[device], device))
    kept = tuple(sorted(order[:gpus]))
    free.remove_all(kept)
    return kept


def _more(free: Free, own: tuple[int, ...], gpus: int, within: int) -> tuple[int, ...] | None:
    """All own devices and further ones on the same nodes; None if there are too few."""
    trial = free.copy()
    trial.remove_all(own)
    extra = consolidate(trial, gpus - len(own), mask_of(sorted({free.node_of[d] for d in own})) & within)
    return tuple(sorted(own + extra)) if extra is not None else None
