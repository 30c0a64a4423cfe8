"""Place by buddies: jobs on powers of two of GPUs, one node or whole nodes each, moved together where needed.

Source    Gu et al., "ElasticFlow", ASPLOS 2023, section 4.4; the buddy rule is Knuth's (TAOCP 1, 2.5)

With nodes and jobs that are powers of two, all jobs that fit by the number of their GPUs have a place:
scattered room is joined by moving the smallest jobs.  Where nodes or jobs are not, or jobs may not be moved,
a job is placed as closely as is possible.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from rota.model.gpu_counts import feasible_counts
from rota.model.grants import Can, Grant
from rota.scheduler.snapshot import Snapshot
from rota.stages.fit import FitterWithin
from rota.stages.place import consolidate
from rota.stages.resize import keeping
from rota.stages.trial import admit_placed
from rota.table.free import Free, mask_of, nodes_in
from rota.table.occupancy import Occupancy


def buddy(free: Free, gpus: int, within: int = -1) -> tuple[int, ...] | None:
    """Devices on one node, best fit; if none is that large, on whole free nodes; else None."""
    node = free.best_fit(gpus, within)
    if node >= 0:
        return free.take(node, gpus)
    nodes = _whole(free, gpus, within)
    taken: tuple[int, ...] = ()
    for node in nodes:
        taken += free.take(node, free.size[node])
    return taken or None


def _whole(free: Free, gpus: int, within: int) -> list[int]:
    """Free nodes of one size that make up `gpus`; empty if there are too few, or one node could be enough."""
    sizes = {free.size[node] for node in nodes_in(within & mask_of([*range(len(free.size))]))}
    for size in sorted(sizes, reverse=True):
        if not size or gpus % size or gpus <= size:
            continue
        nodes = [node for node in nodes_in(free.buckets[size] & within) if free.size[node] == size]
        if len(nodes) * size >= gpus:
            return nodes[: gpus // size]
    return []


def carry_out_whole(
    snapshot: Snapshot, shares: dict[int, int], stays: Set[int] = frozenset()
) -> tuple[list[Grant], list[int]]:
    """Grants and preemptions that give each row of `shares` its GPUs, in whole blocks where possible.

    Jobs that stop or shrink make room first; then the largest jobs are placed first.  Jobs that hold what
    they shall are moved only to make room, and those of `stays` not at all.
    """
    return _Layout(snapshot, shares, stays).settle()


class _Layout:
    """The devices of every job while one decision is carried out."""

    def __init__(self, snapshot: Snapshot, shares: dict[int, int], stays: Set[int]) -> None:
        self.snapshot, self.shares, self.stays = snapshot, shares, stays
        self.fit = FitterWithin(snapshot, buddy)
        self.near = FitterWithin(snapshot, consolidate)
        self.scratch: Occupancy = self.fit.scratch(snapshot)
        self.before = {row: grant for row, grant in snapshot.grants.items() if row in shares}
        self.now = dict(self.before)
        """What each job of `shares` holds on the scratch."""

    def settle(self) -> tuple[list[Grant], list[int]]:
        preempt = sorted(row for row in self.before if not self.shares[row])
        for row in preempt:
            self._lift(row)
        self._shrink()
        asking = [row for row, gpus in self.shares.items() if gpus and gpus != self._held(row)]
        for row in sorted(asking, key=lambda row: (-self.shares[row], row not in self.before, row)):
            self._seat(row)
        waiting = self.snapshot.waiting
        idle = waiting[self.snapshot.jobs.gpus[waiting] == 0].tolist()
        grants = [grant for row, grant in sorted(self.now.items()) if grant != self.before.get(row)]
        return [*grants, *admit_placed(idle, self.scratch, self.fit)], preempt

    # -- single steps ------------------------------------------------------------------------------

    def _held(self, row: int) -> int:
        return len(self.now[row].devices) if row in self.now else 0

    def _lift(self, row: int) -> Grant:
        grant = self.now.pop(row)
        self.scratch.release(grant)
        return grant

    def _put(self, grant: Grant) -> None:
        self.scratch.hold(grant)
        self.now[grant.job] = grant

    def _shrink(self) -> None:
        """Each job that shall have fewer GPUs gives up the rest of its block."""
        for row in sorted(self.before):
            if 0 < self.shares[row] < self._held(row):
                old = self._lift(row)
                self._put(self._kept(old, self.shares[row]) or old)

    def _kept(self, old: Grant, gpus: int) -> Grant | None:
        """`gpus` of the devices of `old`, or those and others close to them."""
        kind = int(self.snapshot.cluster.device_type[old.devices[0]])
        return FitterWithin(self.snapshot, keeping(old.devices)).on_type(self.scratch, old.job, kind, gpus)

    def _seat(self, row: int) -> None:
        """Place `row` on the GPUs it shall have, else on fewer, else on what it had."""
        gpus, old = self.shares[row], None
        if row in self.now:
            old = self._lift(row)
            beside = self._kept(old, gpus) if gpus <= self._node_size(old) else None
            if beside is not None and self._nodes(beside) == self._nodes(old):
                self._put(beside)
                return
        grant = self._block(row, gpus) or self._made_room(row, gpus) or self._anywhere(row, gpus)
        if grant is None:
            has = 0 if old is None else len(old.devices)
            counts = feasible_counts(self.snapshot.jobs.table, row, gpus)
            smaller = (self._anywhere(row, count) for count in reversed(counts) if has < count < gpus)
            grant = next((one for one in smaller if one is not None), None)
        grant = grant or old
        if grant is not None:
            self._put(grant)

    def _block(self, row: int, gpus: int, within: int = -1) -> Grant | None:
        self.fit.within = within
        return self._first_type(self.fit, row, gpus)

    def _anywhere(self, row: int, gpus: int) -> Grant | None:
        self.near.within = -1
        return self._first_type(self.near, row, gpus)

    def _first_type(self, fit: FitterWithin, row: int, gpus: int) -> Grant | None:
        for kind in range(len(self.snapshot.cluster.type_names)):
            grant = fit.on_type(self.scratch, row, kind, gpus)
            if grant is not None:
                return grant
        return None

    def _nodes(self, grant: Grant) -> set[int]:
        return {self.scratch.free.node_of[device] for device in grant.devices}

    def _node_size(self, grant: Grant) -> int:
        """GPUs of the node a grant is on; 0 if it is on several."""
        nodes = self._nodes(grant)
        return self.scratch.free.size[nodes.pop()] if len(nodes) == 1 else 0

    # -- making room -------------------------------------------------------------------------------

    def _made_room(self, row: int, gpus: int) -> Grant | None:
        """A block for `row` after moving small jobs together; if that fails, None, and no job is moved."""
        free = self.scratch.free
        if free.total < gpus:
            return None
        undo = dict(self.now)
        for node in self._least_used():
            wanted = min(gpus, free.size[node])
            if not self._clear(node, wanted):
                continue
            grant = self._block(row, gpus)
            if grant is not None:
                return grant
            self._emptied |= 1 << node
        self._restore(undo)
        return None

    def _least_used(self) -> Sequence[int]:
        """Nodes whose jobs can be moved, ascending by GPUs in use; among equals the last first."""
        free = self.scratch.free
        self._emptied = mask_of(
            [node for node in range(len(free.size)) if free.count[node] == free.size[node]]
        )
        used = [(free.size[node] - free.count[node], -node, node) for node in range(len(free.size))]
        return [node for busy, _, node in sorted(used) if busy and free.count[node]]

    def _clear(self, node: int, gpus: int) -> bool:
        """Move jobs away until `gpus` devices of `node` are free; False, and no job moved, if that fails."""
        free, moved = self.scratch.free, list[Grant]()
        while free.count[node] < gpus:
            row = self._smallest(node)
            grant = None
            if row is not None:
                old = self._lift(row)
                moved.append(old)
                grant = self._block(row, len(old.devices), ~(self._emptied | 1 << node))
            if grant is None:
                for old in reversed(moved):
                    if old.job in self.now:
                        self._lift(old.job)
                for old in moved:
                    self._put(old)
                return False
            self._put(grant)
        return True

    def _smallest(self, node: int) -> int | None:
        """The smallest job on `node` that can be moved; None if there is none."""
        can = self.snapshot.jobs.can
        rows = [
            row
            for row, grant in self.now.items()
            if row not in self.stays
            and grant.share == 1.0
            and self._nodes(grant) == {node}
            and (row not in self.before or can(row) & (Can.SUSPEND | Can.CHECKPOINT | Can.RESIZE))
        ]
        return min(rows, key=lambda row: (self._held(row), row), default=None)

    def _restore(self, undo: dict[int, Grant]) -> None:
        for row in [row for row, grant in self.now.items() if undo.get(row) != grant]:
            self._lift(row)
        for row, grant in undo.items():
            if row not in self.now:
                self._put(grant)
