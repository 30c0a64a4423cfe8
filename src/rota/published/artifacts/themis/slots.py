"""Themis as the ElasticFlow repository has it: the worst ρ as small as possible, slot by slot.

From      pkusys/ElasticFlow, `ElasticFlow/scheduler/` (`themis`), which took the program from Gavel
Differs   1. No auction, no leases, no placement: in each slot x, the fraction of its time that each job is to
             run, makes the worst ρ least; jobs run in order of x as far as GPUs go, misfits are skipped.
          2. ρ = (seconds since submission + work left / (rate · x)) / (alone so far + work left / share);
             share is the fraction of its time that an equal part of the cluster, rounded up to whole GPUs,
             gives the job.  It stands where the rate on that share is meant: work over a share is no time,
             so that slow jobs have the larger ρ.
          3. Seconds since submission are counted up to the last slot in which a job came or went.
          4. x is where their solver ends (`solvers.ratio_walk`), among more than 150 jobs the centre of all
             that are optimal (`solvers.worst_ratio`).  Jobs that are alike keep their order.
Clock     `elasticflow-themis`: slots from the first arrival on, all that happens in one is seen at its end
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rota.knowledge.needs import Knowledge
from rota.model.columns import Floats, Ints
from rota.model.grants import Constraint, Grant
from rota.model.reasons import Code
from rota.scheduler.decision import Decision, Event, Memory, Wake
from rota.scheduler.snapshot import Snapshot
from rota.solvers.ratio_walk import walked
from rota.solvers.worst_ratio import least_worst
from rota.stages.finish_time import alone_so_far_s
from rota.stages.fit import Fitter
from rota.stages.place import consolidate
from rota.stages.remaining import remaining_s
from rota.stages.trial import admit_placed
from rota.table.occupancy import Occupancy

SLOT_S = 240.0
"""Seconds between two decisions where the world has no rounds of its own."""

MOST_WALKED = 150
"""Jobs among which x is found by the authors' steps, whose cost grows with the cube of their number."""

_BEHIND = Constraint(Code.POLICY, detail="others would finish later beside the rest: they run in this slot")


class Slots:
    """Runs jobs in order of the fraction of its time that each should run.

    Memory    `order`     live rows as they stood in the last slot
              `event_s`   moment of the last slot in which a job came or went
              `isolated`  time alone so far (`stages.finish_time.alone_so_far_s`)
    """

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        order, is_new = self._follow(snapshot, memory)
        capacity = snapshot.cluster.gpus - len(snapshot.occupancy.down)
        suffices = snapshot.plain and snapshot.jobs.gpus[order].sum() <= capacity
        # While all run, nothing depends on x, and equal parts are the same until a job comes or goes.
        if len(order) and (is_new or not suffices):
            alone = self._alone(snapshot, memory, order, capacity)
            if not suffices:
                order = order[
                    np.argsort(-self._fractions(snapshot, memory, order, capacity, alone), kind="stable")
                ]
        memory["order"] = order
        grants, preempt = _run(snapshot, order.tolist())
        runs = ({grant.job for grant in grants} | snapshot.grants.keys()) - set(preempt)
        reasons = {row: _BEHIND for row in order.tolist() if row not in runs}
        wake = Wake(snapshot.now + SLOT_S) if reasons else Wake(on=Event.ANY & ~Event.ROUND)
        return Decision(memory, grants, preempt, wake=wake, reasons=reasons)

    def _follow(self, snapshot: Snapshot, memory: Memory) -> tuple[Ints, bool]:
        """The live rows in the order of the last slot, new ones at the end; true if any job came or went."""
        live = np.sort(np.concatenate((snapshot.waiting, snapshot.running)))
        live = live[snapshot.jobs.gpus[live] > 0]
        before: Ints = memory.get("order", np.zeros(0, dtype=np.int64))
        stays = before[np.isin(before, live)]
        new = np.setdiff1d(live, stays, assume_unique=True)
        is_new = bool(len(new)) or len(stays) < len(before) or "event_s" not in memory
        if is_new:
            memory["event_s"] = snapshot.now
        return np.concatenate((stays, new)), is_new

    def _alone(self, snapshot: Snapshot, memory: Memory, order: Ints, capacity: int) -> Floats:
        """The denominator of ρ, for each row of `order`."""
        jobs = snapshot.jobs
        part = np.ceil(capacity / len(order)) / (jobs.gpus[order] * jobs.gpu_share[order])
        share = np.maximum(part / np.maximum(part, 1.0), 1e-9)
        place = np.argsort(order)
        so_far = np.empty(len(order))
        so_far[place] = alone_so_far_s(memory, order[place], jobs.work_done(order[place]), share[place])
        alone: Floats = so_far + _left(snapshot, order) / share
        return alone

    def _fractions(
        self, snapshot: Snapshot, memory: Memory, order: Ints, capacity: int, alone: Floats
    ) -> Floats:
        """The fraction of its time that each of `order` is to run."""
        jobs = snapshot.jobs
        gpus = jobs.gpus[order] * jobs.gpu_share[order]
        since_s = memory["event_s"] - jobs.submit_s[order]
        rate = _rate(snapshot, order)
        left_s = _left(snapshot, order) / rate
        fixed, over, room = since_s / alone, left_s / alone, float(max(capacity, 1))
        ended = walked(fixed, over, rate, gpus, room) if len(order) <= MOST_WALKED else None
        return least_worst(fixed, over, gpus, room) if ended is None else ended


def _rate(snapshot: Snapshot, rows: Ints) -> Floats:
    """Work per second at the GPUs asked for."""
    rate: Floats = np.maximum(snapshot.know(Knowledge.THROUGHPUT)[rows].max(axis=1), 1e-12)
    return rate


def _left(snapshot: Snapshot, rows: Ints) -> Floats:
    """Work left, in the unit of the rates."""
    left: Floats = np.maximum(remaining_s(snapshot, rows) * _rate(snapshot, rows), 1e-9)
    return left


def _run(snapshot: Snapshot, order: Sequence[int]) -> tuple[list[Grant], list[int]]:
    """Jobs that run in `order` as far as there is room, each where it was if no job before it is there."""
    fit = Fitter(snapshot, consolidate)
    scratch = fit.scratch(snapshot)
    held = {row: grant for row, grant in snapshot.grants.items() if grant.devices}
    if snapshot.plain:
        chosen = _by_count(snapshot, order, scratch.free.total + sum(len(g.devices) for g in held.values()))
        for row in held.keys() - chosen:
            scratch.release(held[row])
        starts = sorted(chosen - held.keys(), key=lambda row: (-snapshot.gpus_of[row], row))
        grants = admit_placed(starts, scratch, fit)
        return grants, sorted(held.keys() - chosen)
    for present in held.values():
        scratch.release(present)
    grants = list[Grant]()
    runs = set[int]()
    for row in order:
        own = held.get(row)
        is_back = own is not None and _is_free(scratch, fit, own)
        grant: Grant | None = own if is_back else fit(scratch, row)
        if grant is not None:
            scratch.hold(grant)
            runs.add(row)
            if grant != own:
                grants.append(grant)
    idle = snapshot.waiting[snapshot.jobs.gpus[snapshot.waiting] == 0].tolist()
    return grants + admit_placed(idle, scratch, fit), sorted(held.keys() - runs)


def _by_count(snapshot: Snapshot, order: Sequence[int], free: int) -> set[int]:
    """The rows for which GPUs suffice, each in its turn."""
    chosen: set[int] = set()
    for row in order:
        if snapshot.gpus_of[row] <= free:
            free -= snapshot.gpus_of[row]
            chosen.add(row)
    return chosen


def _is_free(scratch: Occupancy, fit: Fitter, own: Grant) -> bool:
    """True if a job may have back what it had."""
    if own.share < 1.0:
        return False
    return all(map(scratch.free.is_free, own.devices)) and fit.admits(scratch, own)
