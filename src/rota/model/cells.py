"""Cells: which units of a cluster are alike, and whether all units that tenants are promised exist.

Source    Zhao et al., "HiveD", OSDI 2020, section 3

Nodes of one GPU type with the same number of GPUs in the same units below are of one kind.  Levels above the
node count for a kind if all their units hold the same number of its nodes.  Levels of a kind are numbered
from 1, a GPU.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from rota.errors import InputError
from rota.model.cluster import DEVICE, NODE, Cluster
from rota.model.columns import Array
from rota.model.tenants import CellQuota
from rota.model.units import number, plural

MOST_UNITS = 4
"""Named units in a message, beside the smallest."""
ByLevel = list[int]
"""A number for each level; place 0 is not used."""


@dataclass(frozen=True)
class CellKind:
    """One shape of cells (the paper's chain): `names` and `fanouts` by level, level 1 at place 0."""

    name: str
    gpu_type: str
    names: tuple[str, ...]
    fanouts: tuple[int, ...]
    """Children of a cell of each level; 0 for a GPU."""
    node_level: int

    @property
    def top(self) -> int:
        return len(self.names)

    def fanout(self, level: int) -> int:
        """Children of a cell of `level`."""
        return self.fanouts[level - 1]

    def gpus(self, level: int) -> int:
        """GPUs of a cell of `level`."""
        count = 1
        for fanout in self.fanouts[1:level]:
            count *= fanout
        return count


Kinds = Mapping[CellKind, Sequence[tuple[int, ...]]]
"""The nodes of each cell of the top level, by kind, in the order in which they are split."""


class Owned(NamedTuple):
    """Cells of a tenant, with the kind that they are of."""

    tenant: str
    kind: CellKind
    level: int
    cells: int
    at: str
    """Name of the fixed unit, empty if any will do."""


# -- which units are alike ---------------------------------------------------------------------------


def kinds_of(cluster: Cluster) -> Kinds:
    """The kinds of cells that `cluster` has, in the order of their first nodes."""
    groups: dict[tuple[str, tuple[int, ...]], list[int]] = {}
    for node in range(cluster.nodes):
        gpus = int(cluster.node_gpus[node])
        if gpus and node not in cluster.gone:
            shape = (cluster.type_names[cluster.node_type[node]], (gpus, *_units_below(cluster, node)))
            groups.setdefault(shape, []).append(node)
    return dict(_kind(cluster, *shape, nodes) for shape, nodes in groups.items())


def _units_below(cluster: Cluster, node: int) -> tuple[int, ...]:
    """GPUs of each unit below the node, level by level."""
    devices = slice(cluster.first_device[node], cluster.first_device[node + 1])
    gpus = int(cluster.node_gpus[node])
    return tuple(gpus // len(np.unique(units[devices])) for units in cluster.device_levels.values())


def _kind(
    cluster: Cluster, gpu_type: str, sizes: tuple[int, ...], nodes: list[int]
) -> tuple[CellKind, list[tuple[int, ...]]]:
    """The kind of equal nodes, and the nodes of each of its top cells."""
    below = [DEVICE, *reversed(list(cluster.device_levels)), NODE]
    steps = [1, *reversed(sizes)]
    fanouts = [0, *(wide // narrow for narrow, wide in pairwise(steps))]
    names = list(below)
    parts: list[tuple[int, ...]] = [(node,) for node in nodes]
    for name, codes in reversed(list(cluster.levels.items())):
        joined = _joined(parts, codes)
        if joined is not None:
            fanouts.append(len(joined[0]) // len(parts[0]))
            names.append(name)
            parts = joined
    described = f"{gpu_type} nodes of {plural(sizes[0], 'GPU')}"
    return CellKind(described, gpu_type, tuple(names), tuple(fanouts), len(below)), parts


def _joined(parts: Sequence[tuple[int, ...]], codes: Array) -> list[tuple[int, ...]] | None:
    """The parts of each unit put together; None if units hold unequal numbers of them, or some lie in two."""
    units: dict[int, list[tuple[int, ...]]] = {}
    for part in parts:
        inside = {int(codes[node]) for node in part}
        if len(inside) > 1:
            return None
        units.setdefault(inside.pop(), []).append(part)
    if len({len(members) for members in units.values()}) > 1:
        return None
    return [tuple(node for part in members for node in part) for members in units.values()]


# -- which of them tenants own -----------------------------------------------------------------------


def owned_cells(cluster: Cluster, kinds: Kinds) -> list[Owned]:
    """The cells of all tenants with their kinds; InputError where a tenant names none, or several."""
    return [
        _owned(cluster, kinds, tenant.path, cell)
        for tenant in cluster.tenants.by_path.values()
        for cell in tenant.cells
    ]


def _owned(cluster: Cluster, kinds: Kinds, tenant: str, cell: CellQuota) -> Owned:
    whose = f"a cell of tenant {tenant}"
    levels = (*cluster.levels, NODE, *cluster.device_levels, DEVICE)
    _known(cell.level, levels, f"{whose} has the level")
    if cell.gpu_type:
        _known(cell.gpu_type, cluster.type_names, f"{whose} has the type")
    typed = [kind for kind in kinds if cell.gpu_type in ("", kind.gpu_type)]
    if not typed:
        raise InputError(f"{whose} is of {cell.gpu_type or 'GPUs'}, of which the cluster has no nodes now")
    kinds_with = [kind for kind in typed if cell.level in kind.names]
    if not kinds_with:
        raise InputError(
            f"{whose} has the level {cell.level}, whose units hold unequal numbers of nodes"
            f"{_unequal(cluster, typed, cell.level)}; expected a level whose units are alike"
        )
    if cell.gpus:
        fit = [kind for kind in kinds_with if kind.gpus(kind.names.index(cell.level) + 1) == cell.gpus]
        if not fit:
            sizes = " or ".join(str(kind.gpus(kind.names.index(cell.level) + 1)) for kind in kinds_with)
            raise InputError(
                f"{whose} is a {cell.level} of {plural(cell.gpus, 'GPU')}; the cluster has some of {sizes}"
            )
        kinds_with = fit
    if cell.at:
        nodes = _nodes_at(cluster, cell, whose)
        kinds_with = [kind for kind in kinds_with if any(nodes[0] in top for top in kinds[kind])]
        if not kinds_with:
            raise InputError(f"{whose} is at {cell.at}, which is not part of the cluster now")
    if len(kinds_with) != 1:
        names = ", ".join(kind.name for kind in kinds_with)
        raise InputError(
            f"{whose} may be of several kinds ({names}); name its type, and gpus: its number of GPUs"
        )
    if cell.at and cell.count != 1:
        raise InputError(
            f"{whose} is at {cell.at} and has the count {cell.count}; a fixed cell is one: expected 1"
        )
    return Owned(tenant, kinds_with[0], kinds_with[0].names.index(cell.level) + 1, cell.count, cell.at)


def _unequal(cluster: Cluster, kinds: Kinds | Sequence[CellKind], level: str) -> str:
    """` (r0 2, r1 1)`: some units of a level with their nodes of the types of `kinds`."""
    types = {kind.gpu_type for kind in kinds}
    there = [
        node
        for node in range(cluster.nodes)
        if node not in cluster.gone
        and cluster.node_gpus[node]
        and cluster.type_names[cluster.node_type[node]] in types
    ]
    counts = Counter(cluster.level_names[level][int(cluster.levels[level][node])] for node in there)
    if len(set(counts.values())) < 2:  # as many each, but not alike: it cuts through another level
        return ""
    by_size = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    shown = by_size if len(by_size) <= MOST_UNITS else [*by_size[:MOST_UNITS], by_size[-1]]
    return f" ({', '.join(f'{name} {nodes}' for name, nodes in shown)})"


def _known(name: str, names: Sequence[str], problem: str) -> None:
    if name not in names:
        near = get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]}?" if near else f"the cluster has {', '.join(names)}"
        raise InputError(f"{problem} {name}, which the cluster has not; {hint}")


def _nodes_at(cluster: Cluster, cell: CellQuota, whose: str) -> list[int]:
    """Nodes of the unit that a fixed cell is at; the first of them has its GPUs."""
    name = cell.at.partition("/")[0]
    if cell.level in cluster.levels:
        _known(cell.at, cluster.level_names[cell.level], f"{whose} is at the {cell.level}")
        code = cluster.level_names[cell.level].index(cell.at)
        return np.flatnonzero(cluster.levels[cell.level] == code).tolist()
    _known(name, cluster.node_names, f"{whose} is at the node")
    return [cluster.node_names.index(name)]


def place_of(cluster: Cluster, kinds: Kinds, cell: Owned) -> int:
    """Number of a fixed cell among those of its level and kind, when all top cells are split.

    `n3` is a node, `n3/1` the second unit in it, `r1` a unit above.  InputError if there is no such unit.
    """
    nodes = [node for top in kinds[cell.kind] for node in top]
    kind, level = cell.kind, cell.level
    name, slash, inner = cell.at.partition("/")
    where = CellQuota(kind.names[level - 1], 1, at=cell.at)
    first = next(
        node for node in _nodes_at(cluster, where, f"a cell of tenant {cell.tenant}") if node in nodes
    )
    size, in_node = kind.gpus(level), kind.gpus(kind.node_level)
    if level >= kind.node_level:
        return nodes.index(first) * in_node // size
    parts = in_node // size
    if not slash or not inner.isdecimal() or int(inner) >= parts:
        raise InputError(
            f"a cell of tenant {cell.tenant} is at {cell.at}, which is no {where.level}; "
            f"expected {name}/0 to {name}/{parts - 1}"
        )
    return nodes.index(first) * parts + int(inner)


# Number of units that a message names, beside the smallest.


def spare_cells(kind: CellKind, free: Sequence[int], owed: Sequence[int]) -> ByLevel:
    """Cells of each level beyond those `owed`, of it and of higher levels; negative where they are too few.

    A spare cell is split, so that fanout x spare of the level above counts for the level below (the paper's
    condition of safety).
    """
    spare = [0] * (kind.top + 2)
    for level in range(kind.top, 0, -1):
        above = kind.fanout(level + 1) * spare[level + 1] if level < kind.top else 0
        spare[level] = free[level] - owed[level] + above
    return spare[: kind.top + 1]


def check_cells(cluster: Cluster) -> None:
    """Raise InputError unless all cells that tenants are promised can be had at once, whichever others use.

    The sentence names the first level, from above, that has too few.
    """
    if not any(tenant.cells for tenant in cluster.tenants.by_path.values()):
        return
    kinds = kinds_of(cluster)
    owned = owned_cells(cluster, kinds)
    for kind, tops in kinds.items():
        own = [cell for cell in owned if cell.kind == kind]
        fixed = [(cell.level, place_of(cluster, kinds, cell)) for cell in own if cell.at]
        _refuse_overlaps(kind, own, fixed)
        owed = [0] * (kind.top + 1)
        for cell in own:
            owed[cell.level] += 0 if cell.at else cell.cells
        _check_kind(kind, _free_beside(kind, len(tops), fixed), owed)


def _check_kind(kind: CellKind, free: Sequence[int], owed: Sequence[int]) -> None:
    for level, spare in reversed(list(enumerate(spare_cells(kind, free, owed)))):
        if spare < 0:
            name = kind.names[level - 1]
            raise InputError(
                f"tenants are promised {plural(owed[level], f'{name} cell')} of {kind.name}; beside the "
                f"fixed and the larger cells that they own the cluster has {number(owed[level] + spare)}"
            )


def _refuse_overlaps(kind: CellKind, own: Sequence[Owned], fixed: Sequence[tuple[int, int]]) -> None:
    names = [cell.at for cell in own if cell.at]
    spans = sorted(
        (place * kind.gpus(level), (place + 1) * kind.gpus(level), name)
        for (level, place), name in zip(fixed, names, strict=True)
    )
    for (_, end, name), (begin, _, other) in pairwise(spans):
        if begin < end:
            raise InputError(f"two fixed cells of tenants, at {name} and at {other}, have GPUs in common")


def _free_beside(kind: CellKind, tops: int, fixed: Sequence[tuple[int, int]]) -> ByLevel:
    """Free cells of each level without the fixed ones, by level and place, around which cells are split."""
    free = [0] * (kind.top + 1)
    present = list(range(tops))
    for level in range(kind.top, 0, -1):
        split = {place // (kind.gpus(level) // kind.gpus(low)) for low, place in fixed if low < level}
        taken = {place for low, place in fixed if low == level}
        free[level] = len([cell for cell in present if cell not in split and cell not in taken])
        fanout = kind.fanout(level)
        present = [cell * fanout + i for cell in sorted(split) for i in range(fanout)]
    return free
