"""Elan — admit each job that fits at its smallest size, and let jobs grow into what is left.

Paper     Xie et al., "Elan: Towards Generic and Efficient Elastic Training for Deep Learning", ICDCS 2020
Decides   order, number of GPUs; with `batch_growth` batch sizes
Needs     speed of each job by number of GPUs, with `batch_growth` by batch size too (goodput profiles)
Idea      1. Jobs wait in order of submission.  A job is admitted as soon as the smallest sizes of all
             running jobs leave room for its own: jobs that have more give GPUs back.
          2. Spare GPUs go one by one to the job whose speed grows by the largest part, if that is enough.
          3. A batch stays as it is up to the number of GPUs at which it is fastest (strong scaling); beyond,
             it doubles as often as more GPUs need (weak scaling), and never shrinks.
          4. Jobs are resized while they train: new workers get ready beside the old ones, copy the state from
             the nearest of them and take part from one step to the next.
Departs   Sizes are computed again from the smallest ones, which with concave curves gives the same as taking
          GPUs from the job that loses least.  Ours: gains below 5 % are not taken where a GPU would add
          little; a resized job does not grow again for a minute, and shrinks in that time only for a waiting
          job; room that no job used is given back.
          The learning rate follows the batch in the job's own program.  The world charges for resizes:
          `rota simulate --costs resize=elan`.  How state is copied is not modelled: a resize is a 1 s pause.
Checked   systems/elan.md, worked examples 1 to 5.  The authors' code is not public
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence, Set
from functools import partial

from rota.knowledge.needs import Knowledge
from rota.model.grants import Code, Constraint, Grant
from rota.model.units import plural
from rota.scheduler.decision import Decision, Memory, Wake
from rota.scheduler.policy import Lever, register
from rota.scheduler.snapshot import Snapshot
from rota.solvers.one_by_one import Filling, fill_largest
from rota.stages.quota_caps import caps_of
from rota.stages.resize import carry_out, settle
from rota.stages.sizes import BySize, Sizes, sizes_now
from rota.systems.elan.parameters import ElanParameters
from rota.systems.elan.speeds import Speeds, hybrid, strong


@register(
    "elan",
    "Elastic FIFO and backfill: jobs start small and grow into what is free",
    paper="Elan, ICDCS 2020",
    needs={
        Knowledge.SCALING: lambda p: p.batch_growth == 1.0,
        Knowledge.GOODPUT: lambda p: p.batch_growth > 1.0,
    },
    levers={Lever.RESIZE, Lever.MIGRATE},
    parameters=ElanParameters,
)
class Elan:
    """Elastic FIFO, and elastic backfill."""

    def __init__(self, parameters: ElanParameters | None = None) -> None:
        self.parameters = parameters or ElanParameters()
        self._ranking = BySize(lambda snapshot, row: row, strict=not self.parameters.backfill)

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        sizes = sizes_now(snapshot, memory, self.parameters.min_resize_s)
        speeds = self._speeds(snapshot, sizes)

        def shares_of(left_out: Set[int]) -> dict[int, int]:
            return self._shares(snapshot, sizes, speeds, self._taken_in(snapshot, sizes, left_out))

        shares, grants, preempt = settle(snapshot, memory, shares_of, partial(carry_out, in_order=True))
        batches = dict(zip(sizes.rows.tolist(), speeds.batches, strict=True))
        grants = [_with_batch(grant, batches.get(grant.job, {})) for grant in grants]
        reasons = _reasons(sizes, {*shares}, {grant.job for grant in grants})
        wake = Wake(sizes.again_s)
        return Decision(memory, grants, preempt, wake=wake, reasons=reasons, ranking=self._ranking)

    def _speeds(self, snapshot: Snapshot, sizes: Sizes) -> Speeds:
        if self.parameters.batch_growth == 1.0:
            return strong(snapshot, sizes)
        return hybrid(snapshot, sizes, self.parameters.batch_growth)

    def _taken_in(self, snapshot: Snapshot, sizes: Sizes, left_out: Set[int]) -> list[int]:
        """Places of jobs that run, or are to start, at their least sizes if need be.

        A `left_out` job has found no place.  In elastic FIFO no job passes it, or one that a quota keeps.
        """
        room, caps = _room(sizes), caps_of(snapshot, sizes.rows)
        taken = [place for place, has in enumerate(sizes.held) if has]
        if caps is not None:
            for place in taken:
                caps.take(place, sizes.counts[place][0])
        for place, row in enumerate(sizes.rows.tolist()):
            if sizes.held[place]:
                continue
            least = sizes.counts[place][0]
            if row not in left_out and least <= room and (caps is None or caps.admits(place, least)):
                room -= least
                if caps is not None:
                    caps.take(place, least)
                taken.append(place)
            elif not self.parameters.backfill:
                break
        return sorted(taken)

    def _shares(
        self, snapshot: Snapshot, sizes: Sizes, speeds: Speeds, taken: Sequence[int]
    ) -> dict[int, int]:
        """GPUs of the jobs taken in; no running job is without."""
        rates, counts = [speeds.rates[place] for place in taken], [speeds.counts[place] for place in taken]
        filling = Filling(rates, counts, caps_of(snapshot, sizes.rows[list(taken)]))
        gpus = sizes.gpus - sum(filling.give(job) for job in range(len(taken)))
        fill_largest(filling, gpus, _gain(filling, self.parameters.min_gain))
        rows = sizes.rows.tolist()
        return {rows[place]: share for place, share in zip(taken, filling.share, strict=True)}


def _room(sizes: Sizes) -> int:
    """GPUs that are left if every running job has its least size."""
    least = (counts[0] for counts, has in zip(sizes.counts, sizes.held, strict=True) if has)
    return sizes.gpus - sum(least)


def _reasons(sizes: Sizes, taken: Set[int], started: Set[int]) -> dict[int, Constraint]:
    """Why jobs wait that do not start; `taken` had enough GPUs, which may still not be a valid place."""
    room, reasons = _room(sizes), dict[int, Constraint]()
    for row, has, counts in zip(sizes.rows.tolist(), sizes.held, sizes.counts, strict=True):
        if has:
            continue
        if row in started:
            room -= counts[0]
        elif row in taken or counts[0] <= room:
            reasons[row] = _NO_PLACE if row in taken or not reasons else _BEHIND
        else:
            free = f"{max(room, 0)} of the {plural(counts[0], 'GPU')} that it needs at least"
            reasons[row] = Constraint(Code.POLICY, detail=f"would find {free} if all had their least sizes")
    return reasons


_NO_PLACE = Constraint(Code.POLICY, detail="finds no place now, although there is room for it by number")
_BEHIND = Constraint(Code.POLICY, detail="stands behind a job that came earlier, and nobody passes it by")


def _gain(filling: Filling, least: float) -> Callable[[int], float]:
    """Part of its speed that a further GPU adds to a job; minus infinity if that is too little."""

    def gain(job: int) -> float:
        slow, fast = filling.speeds(job)
        if not slow > 0.0:
            return math.inf
        part, step = (fast - slow) / slow, filling.step(job)
        is_worth_it = part >= least or part * filling.share[job] / step >= _GOOD
        return part / step if is_worth_it else -math.inf

    return gain


_GOOD = 0.5
"""Part of what a GPU of a job brings on average, from which a further one is worth it in any case."""


def _with_batch(grant: Grant, batches: dict[int, float]) -> Grant:
    """`grant` with the batch for its number of GPUs, where that is not the one that the job asks for."""
    batch = batches.get(len(grant.devices))
    return grant if batch is None else grant._replace(batch_size=batch)
