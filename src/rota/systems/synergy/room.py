"""What the nodes have left of GPUs, cores, memory and storage bandwidth, and how much each job takes.

Amounts of a job are for each of its GPUs, [cores, GiB, MB/s]; what it takes of a node is in proportion to its
GPUs there.  A node may state no limit to an amount; then no job is short of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rota.model.cluster import Cluster
from rota.model.columns import Bools, Floats, Ints
from rota.model.grants import Grant
from rota.table.free import Free
from rota.table.occupancy import EPSILON

AMOUNTS = ("CPU cores", "GiB of host memory", "MB/s of storage")
Parts = Sequence[tuple[int, int]]
"""Nodes, and GPUs on each."""


class Ask(NamedTuple):
    """A job that is to run, and what it wants."""

    row: int
    gpus: int
    wants: Floats
    """For each GPU, [amount]; NaN is its share in proportion."""
    grant: Grant
    """What the inner policy gave it, or what it holds."""
    allowed: Bools
    """Nodes on which it may be placed."""
    held: tuple[int, ...] = ()
    """Devices on which it runs already; empty if it may be placed anywhere."""
    share: float = 1.0
    """The share of each GPU."""
    parts: Parts = ()
    """`held` as parts."""


@dataclass(slots=True)
class Seat:
    """Where a job is, and how much it has."""

    ask: Ask
    devices: tuple[int, ...]
    parts: Parts
    each: Floats
    """For each whole GPU, [amount]."""


def parts_on(node_of: Sequence[int], devices: Sequence[int]) -> Parts:
    """Nodes of `devices`, and the number on each; `node_of` has the node of each device."""
    counts: dict[int, int] = {}
    for device in devices:
        counts[node_of[device]] = counts.get(node_of[device], 0) + 1
    return sorted(counts.items())


def capacities(cluster: Cluster) -> Floats:
    """What each node has, [node, amount]; 0 is no limit."""
    disk = cluster.capacities.get("disk", np.zeros(cluster.nodes))
    return np.stack((cluster.node_cpus, cluster.node_memory_gib, disk), axis=1).astype(np.float64)


class Room:
    """The books of one decision."""

    def __init__(self, cluster: Cluster, free: Free, taken: Floats, stated: Floats | None = None) -> None:
        """`taken` is what jobs other than the new ones hold of each node, [node, amount].

        `stated` are the `capacities` of `cluster`, where they are known.
        """
        self.free = free
        stated = capacities(cluster) if stated is None else stated
        self.unlimited: Bools = stated == 0.0
        self.is_endless = bool(self.unlimited.all())
        """True if no node is ever short of anything."""
        capacity = np.maximum(stated - taken, 0.0)
        self.capacity = np.where(self.unlimited, np.inf, capacity)
        gpus = np.maximum(cluster.node_gpus, 1)[:, None]
        self.share = np.where(self.unlimited, 0.0, capacity / gpus)
        """For each GPU of each node, in proportion; 0 where there is no limit."""
        self.ceiling = np.where(self.unlimited, np.inf, self.share) + EPSILON
        self.left = self.capacity.copy()
        self.count: Ints = np.array(free.count)
        """Free GPUs of each node."""
        self.seats: dict[int, Seat] = {}
        self.scatters = False
        """True if jobs take the first GPUs that come with what they want, whichever nodes these are on."""
        self.claims: dict[int, int] = {}
        """Devices of running jobs that are yet to be seated, and the position at which each is seated."""
        self._on_node: dict[int, list[int]] = {}
        self._wanted: dict[bytes, tuple[Floats, Floats]] = {}

    # -- what a job would have where ---------------------------------------------------------------

    def wanted(self, wants: Floats) -> Floats:
        """What the job wants on each node, [node, amount]."""
        return self._amounts(wants)[0]

    def cut(self, wants: Floats) -> Floats:
        """`wants`, cut to the proportional share on nodes where it exceeds that share in any amount."""
        return self._amounts(wants)[1]

    def _amounts(self, wants: Floats) -> tuple[Floats, Floats]:
        key = wants.tobytes()
        if key not in self._wanted:
            whole = np.where(np.isnan(wants), self.share, wants)
            over = np.any(whole > self.ceiling, axis=1, keepdims=True)
            share = np.where(self.unlimited, whole, self.share)
            self._wanted[key] = whole, np.where(over, share, whole)
        return self._wanted[key]

    # -- where it would fit ------------------------------------------------------------------------

    def place(self, ask: Ask, each: Floats) -> Parts | None:
        """Nodes for the job with `each` [node, amount] for each GPU: one, the fullest that does, or several,
        the fullest first; None if there are none."""
        if self.scatters:
            return self._several(ask, each)
        fits = ask.allowed & (self.count >= ask.gpus)
        fits &= (ask.gpus * each <= self.left + EPSILON).all(axis=1)
        nodes = np.flatnonzero(fits)
        if len(nodes):
            return [(int(nodes[self.count[nodes].argmin()]), ask.gpus)]
        return self._several(ask, each) if ask.gpus > 1 else None

    def _several(self, ask: Ask, each: Floats) -> Parts | None:
        fed = np.divide(self.left + EPSILON, each, out=np.full_like(each, np.inf), where=each > 0.0)
        most = np.minimum(np.floor(fed.min(axis=1)), self.count)
        return self._fill(ask.gpus, np.where(ask.allowed, most, 0.0))

    def _fill(self, gpus: int, most: Floats) -> Parts | None:
        """`gpus` of nodes that give at most `most`: the fullest first, or as they come if it `scatters`."""
        nodes = np.flatnonzero(most >= 1.0)
        if not self.scatters:
            nodes = nodes[np.argsort(self.count[nodes], kind="stable")]
        parts: list[tuple[int, int]] = []
        for node in nodes.tolist():
            parts.append((node, min(gpus, int(most[node]))))
            gpus -= parts[-1][1]
            if not gpus:
                return parts
        return None

    def with_gpus(self, ask: Ask) -> Parts | None:
        """Nodes with free GPUs enough, whatever else they have: one if possible, else the fullest first."""
        free = np.where(ask.allowed, self.count, 0)
        whole = np.flatnonzero(free >= ask.gpus)
        if ask.gpus > 1 and len(whole):
            return [(int(whole[0]), ask.gpus)]
        return self._fill(ask.gpus, free.astype(np.float64))

    def parts_of(self, devices: Sequence[int]) -> Parts:
        """Nodes of `devices`, and how many are on each."""
        return parts_on(self.free.node_of, devices)

    def fits(self, ask: Ask, parts: Parts, each: Floats) -> bool:
        """True if `parts`, whose GPUs the job has already, have `each` left for it."""
        return self.is_endless or all(
            (ask.share * gpus * each[node] <= self.left[node] + EPSILON).all() for node, gpus in parts
        )

    def feeds_empty(self, ask: Ask) -> bool:
        """True if the job would get what it wants if no other job ran."""
        each = self.wanted(ask.wants)
        fed = np.divide(self.capacity + EPSILON, each, out=np.full_like(each, np.inf), where=each > 0.0)
        most = np.minimum(np.floor(fed.min(axis=1)), self.free.size)
        return bool(most[ask.allowed].sum() >= ask.gpus)

    # -- taking ------------------------------------------------------------------------------------

    def is_free(self, devices: Sequence[int]) -> bool:
        return all(map(self.free.is_free, devices))

    def seat(self, ask: Ask, parts: Parts, each: Floats) -> None:
        """Give the job GPUs of `parts`, with what the node that gives least has in `each` [node, amount]."""
        devices: tuple[int, ...] = ()
        for node, gpus in parts:
            devices += self._take(node, gpus, ask.held)
            self.count[node] -= gpus
        self._enter(Seat(ask, tuple(sorted(devices)), parts, _least(parts, each)))

    def _take(self, node: int, gpus: int, held: tuple[int, ...]) -> tuple[int, ...]:
        """Devices of `node` for a job that holds `held`: its own, then unclaimed ones, the lowest
        first, then those claimed by the job whose turn is last."""
        if not self.claims:
            return self.free.take(node, gpus)
        claims = self.claims
        devices = self.free.lowest(node, int(self.count[node]))
        ranked = sorted(devices, key=lambda one: (one not in held, one in claims, -claims.get(one, 0), one))
        taken = tuple(sorted(ranked[:gpus]))
        self.free.remove_all(taken)
        return taken

    def keep(self, ask: Ask, devices: tuple[int, ...], parts: Parts, each: Floats) -> None:
        """Keep the job on `devices`, which are `parts`; some of them may not be free for others."""
        if self.is_free(devices):
            self.free.remove_all(devices)
            for node, gpus in parts:
                self.count[node] -= gpus
        else:
            for device in filter(self.free.is_free, devices):
                self.free.remove(device)
                self.count[self.free.node_of[device]] -= 1
        self._enter(Seat(ask, devices, parts, _least(parts, each)))

    def _enter(self, seat: Seat) -> None:
        self.seats[seat.ask.row] = seat
        for node, gpus in seat.parts:
            if not self.is_endless:  # else there is as much left as before
                self.left[node] -= seat.ask.share * gpus * seat.each
            self._on_node.setdefault(node, []).append(seat.ask.row)

    # -- taking back -------------------------------------------------------------------------------

    def make_room(self, parts: Parts, each: Floats, share: float = 1.0) -> None:
        """Cut jobs with more than their share until the GPUs of `parts` find `each` [node, amount].

        Every job ends with exactly its share in proportion: jobs on fewer nodes first, then those with more
        cores, with more memory, and those seated first.  A cut job may rise in what it has less of than
        its share, on all of its nodes, so that there is less left on nodes that were looked at before.
        """
        needs = [(node, share * gpus * each[node]) for node, gpus in parts]
        while sum(self._make_room(node, need) for node, need in needs):
            pass

    def _make_room(self, node: int, need: Floats) -> bool:
        """Cut jobs on `node` until it has `need`, or none has more than its share; returns if any was cut."""
        rows, cut = self._on_node.get(node, []), False
        rows.sort(key=self._order)
        for row in rows.copy():
            if (need <= self.left[node] + EPSILON).all():
                break
            if (self.seats[row].each > self.ceiling[node]).any():
                self._cut(self.seats[row])
                cut = True
        return cut

    def _order(self, row: int) -> tuple[int, float, float]:
        seat = self.seats[row]
        return len(seat.parts), -seat.each.item(0), -seat.each.item(1)

    def _cut(self, seat: Seat) -> None:
        """Give `seat` its share in proportion, on all its nodes; amounts below it are raised to it."""
        new = _least(seat.parts, np.where(self.unlimited, seat.each, self.share))
        for node, gpus in seat.parts:
            self.left[node] += seat.ask.share * gpus * (seat.each - new)
        seat.each = new
        for node, _ in seat.parts:
            if (self.left[node] < -EPSILON).any():
                self._make_room(node, np.zeros(len(AMOUNTS)))


def _least(parts: Parts, each: Floats) -> Floats:
    """Amounts on the node of `parts` that gives least: a job is as fast as there."""
    least: Floats = each[[node for node, _ in parts]].min(axis=0) if len(parts) > 1 else each[parts[0][0]]
    return least
