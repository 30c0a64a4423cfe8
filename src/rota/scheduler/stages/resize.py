"""Size and place: as many GPUs as a policy says, keeping what jobs hold where that is no worse.

For systems that decide numbers of GPUs and not which: AFS; Optimus, ElasticFlow and Elan are to come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from rota.model.grants import Grant
from rota.model.job_columns import AllowedCounts
from rota.model.jobs import JobTable
from rota.scheduler.snapshot import Snapshot
from rota.scheduler.stages.fit import Fitter
from rota.scheduler.stages.place import Place, consolidate
from rota.scheduler.stages.trial import admit_placed
from rota.table.free import Free, mask_of
from rota.table.occupancy import Occupancy


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


def carry_out(snapshot: Snapshot, shares: dict[int, int]) -> tuple[list[Grant], list[int]]:
    """Grants and preemptions that give each row of `shares` so many GPUs.

    Who shrinks or stops makes room first, then running jobs grow, then waiting ones start, largest first.
    """
    held = {row: grant for row, grant in snapshot.grants.items() if row in shares}
    fit = Fitter(snapshot, consolidate)
    scratch = fit.scratch(snapshot)
    preempt = sorted(row for row in held if not shares[row])
    for row in preempt:
        scratch.release(held[row])
    changed = [row for row in held if shares[row] not in (0, len(held[row].devices))]
    changed.sort(key=lambda row: (shares[row] - len(held[row].devices), row))
    grants = [_resized(snapshot, scratch, held[row], shares[row]) for row in changed]
    starts = [row for row, share in shares.items() if share and row not in held]
    for row in sorted(starts, key=lambda row: (-shares[row], row)):
        grant = _started(snapshot, fit, scratch, row, shares[row])
        if grant is not None:
            scratch.hold(grant)
            grants.append(grant)
    waiting = snapshot.waiting
    idle = waiting[snapshot.jobs.gpus[waiting] == 0].tolist()
    return [*grants, *admit_placed(idle, scratch, fit)], preempt


def _resized(snapshot: Snapshot, scratch: Occupancy, old: Grant, gpus: int) -> Grant:
    """The job of `old` on so many GPUs of its type, entered in `scratch`; as it is if they do not fit."""
    kind = int(snapshot.cluster.device_type[old.devices[0]])
    scratch.release(old)
    grant = Fitter(snapshot, keeping(old.devices)).on_type(scratch, old.job, kind, gpus) or old
    scratch.hold(grant)
    return grant


def _started(snapshot: Snapshot, fit: Fitter, scratch: Occupancy, row: int, share: int) -> Grant | None:
    """A grant of `share` GPUs on the first type where they fit, or of the next smaller feasible number."""
    for gpus in reversed(feasible_counts(snapshot.jobs.table, row, share)):
        for kind in range(len(snapshot.cluster.type_names)):
            grant = fit.on_type(scratch, row, kind, gpus)
            if grant is not None:
                return grant
    return None
