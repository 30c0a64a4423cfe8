"""Configurations of a cluster (section 3.3), and which of them each job may have.

A configuration is GPUs of one type: a power of two in a node, or whole nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rota.model.columns import Bools, Floats, Ints
from rota.model.grants import Can
from rota.model.job_columns import AllowedCounts
from rota.scheduler.snapshot import Snapshot

_NO_GRANT = -1


class Configurations(NamedTuple):
    """Configurations, one a place, by type and then by size."""

    kind: Ints
    """Code of the GPU type."""
    nodes: Ints
    gpus: Ints


class TypeShape(NamedTuple):
    """The nodes of one GPU type that are up."""

    nodes: int
    per_node: int
    """GPUs of the largest of them; only such nodes count as whole ones."""
    gpus: int
    """GPUs of all of them."""

    def nodes_for(self, gpus: Ints) -> Ints:
        """Nodes that this many GPUs need."""
        return -(-gpus // max(self.per_node, 1))


def shapes_of(node_type: Ints, healthy: Ints, types: int) -> list[TypeShape]:
    """The shape of each type: `healthy` GPUs of each node, 0 on one that is down."""
    shapes = []
    for kind in range(types):
        sizes = healthy[(node_type == kind) & (healthy > 0)]
        largest = int(sizes.max(initial=0))
        shapes.append(TypeShape(int((sizes == largest).sum()) if largest else 0, largest, int(sizes.sum())))
    return shapes


def sizes_of(shape: TypeShape, most: int) -> list[tuple[int, int]]:
    """Nodes and GPUs of each configuration on nodes of one shape, none with more than `most` GPUs.

    Powers of two up to the GPUs of a node, that number, and multiples of it (Sia, section 3.3).
    """
    if not shape.nodes:
        return []
    inside = [1 << power for power in range(shape.per_node.bit_length()) if 1 << power < shape.per_node]
    whole = [(nodes, nodes * shape.per_node) for nodes in range(1, shape.nodes + 1)]
    return [(nodes, gpus) for nodes, gpus in [*((1, gpus) for gpus in inside), *whole] if gpus <= most]


def configurations(shapes: Sequence[TypeShape], most: int) -> Configurations:
    """All configurations of a cluster."""
    rows = [(kind, *size) for kind, shape in enumerate(shapes) for size in sizes_of(shape, most)]
    table = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return Configurations(*table.T)


def restart_factor(age_s: Floats, restarts: Ints, restart_s: Floats) -> Floats:
    """Part of another configuration's value that a restart leaves (section 3.4): 1 for a very young job."""
    worked = np.maximum(age_s - restarts * restart_s, 0.0)
    factor: Floats = np.where(age_s < restart_s, 1.0, worked / (age_s + restart_s))
    return factor


def power_cost(value: Floats, power: float, lost: float, *, most: float = 3000.0) -> Floats:
    """Cost of a configuration where nothing costs 0, rounded as the authors round it.

    `value` is in multiples of the least useful configuration, `lost` the cost of nothing.  Below 0 the power
    of the value is a cost, above 0 a gain.
    """
    with np.errstate(divide="ignore"):
        powered = np.minimum(np.round(value**power, 2), most)
    return powered - lost if power < 0.0 else -powered - lost


class Menu(NamedTuple):
    """Configurations of jobs, one a place, by job and then by type and size."""

    job: Ints
    """Place among the rows asked for."""
    kind: Ints
    nodes: Ints
    gpus: Ints
    is_held: Bools
    """True for what the job holds now."""

    def take(self, places: Ints | Bools) -> Menu:
        job, kind, nodes, gpus, is_held = self
        return Menu(job[places], kind[places], nodes[places], gpus[places], is_held[places])


class HeldGpus(NamedTuple):
    """GPUs that each row holds, one a place; -1 for a row with none, or with GPUs of several types."""

    kind: Ints
    gpus: Ints
    runs: Bools
    """True if it holds anything at all."""

    @classmethod
    def of(cls, snapshot: Snapshot, rows: Ints) -> HeldGpus:
        kinds, gpus = np.full(len(rows), _NO_GRANT), np.full(len(rows), _NO_GRANT)
        runs = np.zeros(len(rows), dtype=bool)
        device_type = snapshot.cluster.device_type
        for place, row in enumerate(rows.tolist()):
            grant = snapshot.grants.get(row)
            if grant is None:
                continue
            runs[place] = True
            own = {device_type.item(device) for device in grant.devices}
            if len(own) == 1:
                kinds[place], gpus[place] = own.pop(), len(grant.devices)
        return cls(kinds, gpus, runs)


def menu_of(
    snapshot: Snapshot,
    rows: Ints,
    held: HeldGpus,
    most: Ints,
    sets: Configurations,
    shapes: Sequence[TypeShape],
    stages: Ints,
) -> Menu:
    """All that `rows` may have; `most` is how far each may grow, but its least size is always allowed.

    `stages` [row, type] are the GPUs of a replica: only multiples of them will do, and one replica always.

    A job that can use no configuration, such as one of three GPUs, has its least size on every type, and a
    job that holds what is no configuration may keep that.
    """
    jobs = snapshot.jobs
    least, largest, step = jobs.gpus_min[rows], jobs.gpus_max[rows], jobs.gpus_step[rows]
    size = sets.gpus[None, :]
    usable = (size >= least[:, None]) & (size <= largest[:, None])
    usable &= (size - least[:, None]) % step[:, None] == 0
    usable &= size % stages[:, sets.kind] == 0
    powers = (jobs.counts[rows] == AllowedCounts.POWERS_OF_TWO) & (least < largest)
    usable &= ~powers[:, None] | (size & (size - 1) == 0)
    accepts = _accepted(snapshot, rows)
    usable &= accepts[:, sets.kind]
    first = np.where(usable, size, np.iinfo(np.int64).max).min(axis=1, initial=np.iinfo(np.int64).max)
    usable &= size <= np.maximum(np.maximum(most, first)[:, None], stages[:, sets.kind])
    odd = ~usable.any(axis=1)
    job, column = np.nonzero(usable)
    parts = [np.stack((job, sets.kind[column], sets.nodes[column], size[0, column]))]
    parts.append(_of_least_size(np.flatnonzero(odd), least, accepts, shapes))
    known = {(j, k, g) for j, k, _, g in np.concatenate(parts, axis=1).T.tolist()}
    parts.append(_held_besides(held, known, shapes))
    job, kind, nodes, gpus = np.concatenate(parts, axis=1)
    order = np.lexsort((gpus, kind, job))
    job, kind, nodes, gpus = job[order], kind[order], nodes[order], gpus[order]
    menu = Menu(job, kind, nodes, gpus, (held.kind[job] == kind) & (held.gpus[job] == gpus))
    return menu.take(_may_move(snapshot, rows, menu))


def _accepted(snapshot: Snapshot, rows: Ints) -> Bools:
    """Which types each row accepts, [row, type]."""
    names, table = snapshot.cluster.type_names, snapshot.jobs.table
    wanted, place = np.unique(snapshot.jobs.gpu_types[rows], return_inverse=True)
    by_request = [[not code or name in table.types_in(code) for name in names] for code in wanted.tolist()]
    accepts: Bools = np.array(by_request, dtype=bool).reshape(-1, len(names))[place]
    return accepts


def _of_least_size(places: Ints, least: Ints, accepts: Bools, shapes: Sequence[TypeShape]) -> Ints:
    """The least size of the jobs at `places` on each type with enough GPUs: [4, option]."""
    rows = [
        (place, kind, -(-least.item(place) // shape.per_node), least.item(place))
        for place in places.tolist()
        for kind, shape in enumerate(shapes)
        if accepts[place, kind] and 0 < least.item(place) <= shape.gpus
    ]
    return np.array(rows, dtype=np.int64).reshape(-1, 4).T


def _held_besides(held: HeldGpus, known: set[tuple[int, int, int]], shapes: Sequence[TypeShape]) -> Ints:
    """Held configurations that are not on the menu yet: [4, option]."""
    rows = [
        (place, kind, -(-gpus // max(shapes[kind].per_node, 1)), gpus)
        for place, (kind, gpus) in enumerate(zip(held.kind.tolist(), held.gpus.tolist(), strict=True))
        if gpus > 0 and (place, kind, gpus) not in known
    ]
    return np.array(rows, dtype=np.int64).reshape(-1, 4).T


def _may_move(snapshot: Snapshot, rows: Ints, menu: Menu) -> Bools:
    """Mask of allowed entries: a running job that would lose its work by a resize keeps its size."""
    runs = np.array([row in snapshot.grants for row in rows.tolist()], dtype=bool)
    fixed = runs & ((snapshot.jobs.can(rows) & Can.RESIZE) == 0)
    same = np.zeros(len(rows), dtype=np.int64)
    np.maximum.at(same, menu.job[menu.is_held], menu.gpus[menu.is_held])
    may: Bools = ~fixed[menu.job] | (menu.gpus == same[menu.job])
    return may


def values(menu: Menu, goodput: Floats, unit: Ints) -> Floats:
    """Goodputs of the menu in multiples of each job's least useful configuration, times its `unit` of GPUs.

    0 stays 0: a job cannot run with that.
    """
    jobs = len(unit)
    least = np.full(jobs, np.inf)
    useful = goodput > 0.0
    np.minimum.at(least, menu.job[useful], goodput[useful])
    scaled: Floats = np.where(useful, goodput / least[menu.job] * unit[menu.job], 0.0)
    return scaled
