"""Size and place: as many GPUs as a policy says, keeping what jobs hold where that is no worse.

For systems that decide numbers of GPUs and not which, such as AFS and Elan.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Set
from itertools import takewhile
from typing import Any

from rota.model.gpu_counts import feasible_counts
from rota.model.grants import Can, Grant
from rota.scheduler.decision import Event, Memory
from rota.scheduler.snapshot import Snapshot
from rota.stages.feeding import FeedingFitter
from rota.stages.place import Place, consolidate
from rota.stages.trial import admit_placed
from rota.table.free import Free, mask_of


def keeping(held: tuple[int, ...]) -> Place:
    """A placement for a job whose devices `held` are free again: close to them, if that needs no more nodes.

    A smaller share stays on the nodes where the job holds most; a larger one takes what is free beside it, or
    moves as a whole if the job would then stand on fewer nodes.  Devices of `held` that are not free are
    passed by: a node may have too little CPU or memory for all that it has.
    """

    def place(free: Free, gpus: int, within: int = -1) -> tuple[int, ...] | None:
        own = held if all(map(free.is_free, held)) else tuple(filter(free.is_free, held))
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


def carry_out(
    snapshot: Snapshot, shares: Mapping[int, int], *, in_order: bool = False
) -> tuple[list[Grant], list[int]]:
    """Grants and preemptions that give each row of `shares` its GPUs, or as many as find a place.

    Jobs that shrink or stop make room first, then running jobs grow, then waiting ones start, largest first
    or `in_order` of submission. A job whose room no other job takes keeps what it has: such a resize would
    only cost.
    """
    return _CarryingOut(snapshot, shares).grants(in_order)


Settled = tuple[dict[int, int], list[Grant], list[int]]
"""Shares, and the grants and preemptions that bring them about."""
Carry = Callable[[Snapshot, dict[int, int]], tuple[list[Grant], list[int]]]
"""How shares become grants and preemptions."""


def settle(
    snapshot: Snapshot,
    memory: Memory,
    shares_of: Callable[[Set[int]], dict[int, int]],
    carry: Carry = carry_out,
) -> Settled:
    """Shares, and the grants and preemptions by which `carry` brings them about.

    Waiting rows that find no place are left out and the rest is computed again, as often as that may let
    other jobs have what they were meant to have.

    Memory    `no_place`  the moment, and the rows that found no place at it
    """
    known: list[Any] = memory.get("no_place", [-math.inf, []])
    # A second call at the same moment leaves out the same rows: jobs started since are elsewhere.
    is_asked_again = known[0] == snapshot.now and not snapshot.cause & MAKES_PLACE
    left_out = {row for row in known[1] if row not in snapshot.grants} if is_asked_again else set[int]()
    for _ in range(_TRIES):
        shares = shares_of(left_out)
        grants, preempt = carry(snapshot, shares)
        placed = {grant.job for grant in grants}
        misfits = {row for row, n in shares.items() if n and row not in placed and row not in snapshot.grants}
        if not misfits:
            break
        left_out |= misfits
    memory["no_place"] = [snapshot.now, sorted(left_out)]
    return shares, grants, preempt


MAKES_PLACE = Event.END | Event.FAILURE | Event.CAPACITY
"""Events at one and the same moment that may give a place to a job that found none."""
_TRIES = 10
"""At most; each leaves out further jobs, so that there is an end, but a large cluster cannot wait for it."""


class _CarryingOut:
    """Shares on their way to devices, on one scratch."""

    def __init__(self, snapshot: Snapshot, shares: Mapping[int, int]) -> None:
        self.snapshot = snapshot
        self.shares = shares
        self.fit = FeedingFitter(snapshot, consolidate)
        self.scratch = self.fit.scratch(snapshot)
        self._type_of = snapshot.cluster.device_type
        self._free: Counter[int] = Counter()
        """Free devices of each type."""
        free = self.scratch.free
        if len(snapshot.cluster.type_names) == 1:
            self._free[0] = free.total
            return
        for node, count in enumerate(free.count):
            if count:
                self._free[self._type_of.item(free.first[node])] += count

    def grants(self, in_order: bool) -> tuple[list[Grant], list[int]]:
        snapshot, shares, held = self.snapshot, self.shares, self.snapshot.grants
        starts, stopped, changed = self._who_changes()
        for row in stopped:
            self._release(held[row])
        resized = {row: self._resized(held[row], shares[row]) for row in changed}
        started: list[Grant] = []
        for row in sorted(starts, key=lambda row: (0 if in_order else -shares[row], row)):
            grant = self._started(row, shares[row])
            if grant is not None:
                self._hold(grant)
                started.append(grant)
        resized = {row: grant for row, grant in resized.items() if not self._takes_back(held[row], grant)}
        stopped = [row for row in stopped if not self._takes_back(held[row])]
        waiting = snapshot.waiting
        idle = waiting[snapshot.jobs.gpus[waiting] == 0].tolist()
        return [*resized.values(), *started, *admit_placed(idle, self.scratch, self.fit)], stopped

    def _who_changes(self) -> tuple[list[int], list[int], list[int]]:
        """The jobs that start, those that stop and those that get another number, the most shrunk first."""
        held, starts, stopped, changed = (
            self.snapshot.grants,
            list[int](),
            list[int](),
            list[tuple[int, int]](),
        )
        for row, share in self.shares.items():
            grant = held.get(row)
            if grant is None:
                if share:
                    starts.append(row)
            elif not share:
                stopped.append(row)
            elif share != len(grant.devices):
                changed.append((share - len(grant.devices), row))
        return starts, sorted(stopped), [row for _, row in sorted(changed)]

    def _hold(self, grant: Grant) -> None:
        free = self.scratch.free.total
        self.scratch.hold(grant)
        self._changed(grant, self.scratch.free.total - free)

    def _release(self, grant: Grant) -> None:
        free = self.scratch.free.total
        self.scratch.release(grant)
        self._changed(grant, self.scratch.free.total - free)

    def _changed(self, grant: Grant, freed: int) -> None:
        self.fit.touch(grant)
        if abs(freed) == len(grant.devices):
            self._free.update({kind: n if freed > 0 else -n for kind, n in self._types(grant).items()})
        else:  # parts of devices: those that are shared stay as they were
            self._free[self._type_of.item(grant.devices[0])] += freed

    def _types(self, grant: Grant) -> Counter[int]:
        return Counter(self._type_of[list(grant.devices)].tolist())

    def _takes_back(self, old: Grant, new: Grant | None = None) -> bool:
        """Give a job `old` back, if what it gave up is still free; False otherwise."""
        if new is not None and not set(new.devices) < set(old.devices):
            return False
        if new is not None:
            self._release(new)
        is_free = all(self.scratch.free.is_free(device) for device in old.devices)
        if is_free and self.fit.admits(self.scratch, old):
            self._hold(old)
            return True
        if new is not None:
            self._hold(new)
        return False

    def _resized(self, old: Grant, gpus: int) -> Grant:
        """A grant of `gpus` GPUs of its type for the job of `old`, or of as many as fit; at least `old`."""
        kind = self._type_of.item(old.devices[0])
        self._release(old)
        self.fit.place = keeping(old.devices)
        least = min(gpus, len(old.devices) + 1)
        counts = reversed(feasible_counts(self.snapshot.jobs.table, old.job, gpus))
        tries = (self._on(old.job, kind, count) for count in takewhile(lambda count: count >= least, counts))
        grant = next((grant for grant in tries if grant is not None), old)
        self.fit.place = consolidate
        self._hold(grant)
        return grant

    def _started(self, row: int, share: int) -> Grant | None:
        """A grant of `share` GPUs on the first type where they fit, or of the next smaller number.

        A job that bears no other size than the one it has worked on has no smaller number.
        """
        jobs = self.snapshot.jobs
        kinds = range(len(self.snapshot.cluster.type_names))
        is_bound = jobs.work_done(row) > 0.0 and not jobs.can(row) & Can.RESIZE
        counts = (share,) if is_bound else reversed(feasible_counts(jobs.table, row, share))
        tries = (self._on(row, kind, count) for count in counts for kind in kinds)
        return next((grant for grant in tries if grant is not None), None)

    def _on(self, row: int, kind: int, gpus: int) -> Grant | None:
        """A grant of `gpus` GPUs of one type, if they fit."""
        if gpus > self._free[kind] and self.snapshot.jobs.table.gpu_share.item(row) == 1.0:
            return None
        return self.fit.on_type(self.scratch, row, kind, gpus)
