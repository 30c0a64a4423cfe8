"""Machines by allocation rate, and jobs on them: types by power, fractions on the fullest devices."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from enum import StrEnum

from rota.model.grants import Grant, Role
from rota.scheduler.snapshot import Cursor, Snapshot
from rota.stages.fit import Fitter, host_room
from rota.stages.place import consolidate
from rota.table.free import nodes_in
from rota.table.occupancy import EPSILON, Occupancy

POWER = ("MISC", "T4", "P100", "V100", "V100M32")
"""GPU types from the weakest to the strongest; others count as weaker, in the order of the cluster."""
STRONG = frozenset({"V100", "V100M32"})


class MachineOrder(StrEnum):
    """Which machines a job tries first."""

    RESERVE = "reserve"  # by GPU type as its need is, then the least allocated
    BALANCE = "balance"  # the least allocated, whatever its type
    PACK = "pack"  # in the order of the cluster: weak machines first if it lists them so


def rate(occupancy: Occupancy, node: int) -> float:
    """Allocation rate of a machine: mean of the shares of its CPUs and of its GPUs that are granted.

    Shares of GPUs are whole percents: what claims leave behind in the last bits decides no tie.
    """
    first, last = occupancy.free.first[node], occupancy.free.first[node + 1]
    percent = sum(percent_of(claimed) for claimed in occupancy.claimed[first:last])
    gpus = percent / (100 * (last - first)) if last > first else 0.0
    cpus = occupancy.cluster.node_cpus.item(node)
    return round((gpus + occupancy.cpus_used[node] / cpus) / 2 if cpus else gpus, 9)


def percent_of(share: float) -> int:
    """A share of a GPU as the whole percents in which PAI counts."""
    return round(100.0 * share)


class Rates:
    """All machines by allocation rate: a cache that follows the grants by what has changed."""

    def __init__(self) -> None:
        self._cursor = Cursor()
        self._nodes_of: dict[int, list[int]] = {}  # of each running row, as last seen
        self._rate: list[float] = []
        self._levels: list[float] = []  # the different rates, ascending
        self._at: dict[float, int] = {}  # mask of the machines that have each
        self._stale: set[int] = set()

    def sync(self, snapshot: Snapshot) -> None:
        """Bring the rates up to `snapshot`."""
        changed = snapshot.changes(self._cursor)
        if changed is None or len(self._rate) != snapshot.cluster.nodes:
            self._begin(snapshot.cluster.nodes)
            changed = snapshot.running_unsorted.tolist()
        for row in changed:
            self._stale.update(self._nodes_of.pop(row, ()))
            if row in snapshot.grants:
                nodes = [node for node, _ in snapshot.occupancy.parts(snapshot.grants[row])]
                self._nodes_of[row] = nodes
                self._stale.update(nodes)
        for node in self._stale:
            self._enter(node, rate(snapshot.occupancy, node))
        self._stale.clear()

    def tried(self, scratch: Occupancy, nodes: Sequence[int]) -> None:
        """Note that `nodes` of a scratch have new entries, which `sync` will remove again."""
        self._stale.update(nodes)
        for node in nodes:
            self._enter(node, rate(scratch, node))

    def of(self, node: int) -> float:
        """Allocation rate of `node`."""
        return self._rate[node]

    def ascending(self, mask: int) -> Iterator[int]:
        """The machines of a mask, least allocated first, ties by number."""
        if mask.bit_count() ** 2 <= len(self._levels):
            yield from sorted(nodes_in(mask), key=self._rate.__getitem__)
            return
        for level in self._levels:
            nodes = self._at[level] & mask
            while nodes:
                low = nodes & -nodes
                yield low.bit_length() - 1
                nodes ^= low

    def _begin(self, nodes: int) -> None:
        self._nodes_of.clear()
        self._rate, self._levels, self._at = [0.0] * nodes, [0.0], {0.0: (1 << nodes) - 1}
        self._stale = set(range(nodes))

    def _enter(self, node: int, value: float) -> None:
        before, bit = self._rate[node], 1 << node
        if value == before:
            return
        self._rate[node] = value
        self._at[before] ^= bit
        if not self._at[before]:
            del self._at[before]
            del self._levels[bisect_left(self._levels, before)]
        if value not in self._at:
            self._at[value] = 0
            insort(self._levels, value)
        self._at[value] |= bit


class PaiFitter(Fitter):
    """Places one job: types by power, machines by allocation rate, a fraction on the fullest device."""

    def __init__(self, snapshot: Snapshot, machines: MachineOrder, rates: Rates) -> None:
        super().__init__(snapshot, consolidate)
        self.machines = machines
        self.rates = rates
        self._tried: list[int] = []  # nodes of the last grant, which has been entered since
        names = self.cluster.type_names
        self._by_power = sorted(range(len(names)), key=lambda code: (_power(names[code]), code))

    def _fit(self, scratch: Occupancy, row: int) -> Grant | None:
        if self._tried:
            self.rates.tried(scratch, self._tried)
            self._tried = []
        if not self.jobs.gpus.item(row):
            grant = super()._fit(scratch, row)
        else:
            attempts = (self._on(scratch, row, nodes) for nodes in self._attempts(scratch, row))
            grant = next((grant for grant in attempts if grant is not None), None)
        if grant is not None:
            self._tried = [node for node, _ in scratch.parts(grant)]
        return grant

    def _attempts(self, scratch: Occupancy, row: int) -> Iterator[Iterator[int]]:
        """Machines to try, in order, one attempt after another; none of them mixes types."""
        masks = self._masks(scratch, row)
        codes = [code for code, mask in enumerate(masks) if mask]
        if self.machines is MachineOrder.RESERVE:
            by_power = self._by_power[::-1] if self._is_high(row) else self._by_power
            codes = [code for code in by_power if masks[code]]
        elif self.machines is MachineOrder.BALANCE:
            codes.sort(key=lambda code: self.rates.of(next(self.rates.ascending(masks[code]))))
        for code in codes:
            if self.machines is MachineOrder.PACK:
                yield iter(nodes_in(masks[code]))
            else:
                yield self.rates.ascending(masks[code])

    def _masks(self, scratch: Occupancy, row: int) -> list[int]:
        """Per type, the machines that have something free of what `row` asks for; 0 if all are too few."""
        jobs, free = self.jobs, scratch.free
        gpus, share, need = jobs.gpus.item(row), jobs.gpu_share.item(row), jobs.gpu_memory_gib.item(row)
        useful = ((1 << len(free.size)) - 1) & ~free.buckets[0]
        if share < 1.0:
            useful |= self._partly_free(scratch, share)
        elif free.total < gpus:
            useful = 0
        if need:
            useful &= self._node_sets.with_memory(need)
        return [
            nodes & useful if nodes & useful and self._within_quota(scratch, row, gpus * share, code) else 0
            for code, nodes in enumerate(self._nodes_by_type(row))
        ]

    def _partly_free(self, scratch: Occupancy, share: float) -> int:
        """Machines with a shared device that has `share` left."""
        node_of, nodes = scratch.free.node_of, 0
        for place in range(bisect_left(scratch.spares, (share - EPSILON, -1)), len(scratch.spares)):
            nodes |= 1 << node_of[scratch.spares[place][1]]
        return nodes

    def _is_high(self, row: int) -> bool:
        """True if the job needs strong GPUs: several of them, or V100 by name."""
        mask = self.jobs.gpu_types.item(row)
        named = self.jobs.types_in(mask)
        gpus = self.jobs.gpus.item(row) * self.jobs.gpu_share.item(row)
        return gpus > 1.0 or (bool(named) and named <= STRONG)

    def _on(self, scratch: Occupancy, row: int, nodes: Iterator[int]) -> Grant | None:
        """Fill machine after machine; None if the gang is not complete on these."""
        gpus, share = self.jobs.gpus.item(row), self.jobs.gpu_share.item(row)
        if share < 1.0:
            return self._parts_on(scratch, row, nodes)
        taken: tuple[int, ...] = ()
        for node in nodes:
            count = min(gpus - len(taken), scratch.free.count[node])
            while count and not host_room(scratch, node, count / gpus, row):
                count -= 1
            taken += scratch.free.take(node, count)
            if len(taken) == gpus:
                break
        scratch.free.put_all(taken)
        return Grant(row, tuple(sorted(taken))) if len(taken) == gpus else None

    def _parts_on(self, scratch: Occupancy, row: int, nodes: Iterator[int]) -> Grant | None:
        """Places of a fraction, or of a gang of them: each on a device of its own, the fullest first."""
        gpus, share = self.jobs.gpus.item(row), self.jobs.gpu_share.item(row)
        taken: list[int] = []
        for node in nodes:
            devices = self._open_to(scratch, row, node)
            count = min(gpus - len(taken), len(devices))
            while count and not host_room(scratch, node, count / gpus, row):
                count -= 1
            taken += devices[:count]
            if len(taken) == gpus:
                return Grant(row, tuple(sorted(taken)), share, Role.PACKED)
        return None

    def _open_to(self, scratch: Occupancy, row: int, node: int) -> list[int]:
        """The devices of `node` on which the fraction fits, the fullest first, ties by number."""
        share, need = self.jobs.gpu_share.item(row), self.jobs.gpu_memory_gib.item(row)
        first, last = scratch.free.first[node], scratch.free.first[node + 1]
        fits = [
            (-percent_of(scratch.claimed[device]), device)
            for device in range(first, last)
            if (device in scratch.spare and scratch.spare[device] >= share - EPSILON)
            or scratch.free.is_free(device)
        ]
        return [device for _, device in sorted(fits) if self._has_memory(scratch, device, need)]


def _power(name: str) -> int:
    return POWER.index(name) if name in POWER else -1
