"""Jobs that run already: gangs put back on the cells that they hold, as remembered or as can be made out.

Source    HiveD's published code, which rebuilds its state so after a restart, and after a new configuration
"""

from __future__ import annotations

from collections.abc import Sequence

from rota.systems.hived.cells import Gang, Physical, Virtual, ancestor
from rota.systems.hived.clusters import GangPlan, VirtualClusters


def adopt(
    clusters: VirtualClusters,
    gang: Gang,
    gpus: Sequence[Physical],
    remembered: Sequence[int] | None = None,
    level: int = 0,
) -> None:
    """`gang` runs on `gpus`; its virtual ones have the numbers `remembered`, None if unknown.

    Where it cannot have cells of its virtual cluster, or not without breaking a promise, it runs on without a
    guarantee.  `level` is that of the cells it had, where it is known; 0 if any will do.
    """
    virtual: list[Virtual] | None = []
    if gang.priority >= 0 and remembered != []:
        virtual = None if remembered is None else _recalled(clusters, gang, gpus, remembered)
        if virtual is None and len({leaf.kind.name for leaf in gpus}) == 1:
            _recover(clusters, gang, gpus, level)
            return
    clusters.start(GangPlan(gang, [list(gpus)], [virtual] if virtual else [], [], []))


def _recalled(
    clusters: VirtualClusters, gang: Gang, gpus: Sequence[Physical], numbers: Sequence[int]
) -> list[Virtual] | None:
    """The virtual GPUs of these numbers, if they can still be served by `gpus`."""
    vc = clusters.vcs.get(gang.vc)
    if vc is None or len(numbers) != len(gpus):
        return None
    had = [vc.numbered(leaf.kind.name).get(n) for n, leaf in zip(numbers, gpus, strict=True)]
    virtual = [own for own in had if own is not None]
    if len(virtual) < len(gpus):
        return None
    matches: dict[int, Physical] = {}
    for own, leaf in zip(virtual, gpus, strict=True):
        if own.gang is not None or not _agree(own, leaf, matches):
            return None
    return virtual


def _agree(own: Virtual, leaf: Physical, matches: dict[int, Physical]) -> bool:
    """Whether `leaf` can serve `own`, given the matches so far: bound parents must correspond."""
    cell: Virtual | None = own
    by: Physical | None = leaf
    while cell is not None:
        if by is None or matches.setdefault(id(cell), by) is not by:
            return False
        if cell.physical is not None or by.virtual is not None:
            return cell.physical is by
        if cell.parent is None:
            return by.root_free is not None
        cell, by = cell.parent, by.parent
    return True


def _recover(clusters: VirtualClusters, gang: Gang, gpus: Sequence[Physical], level: int) -> None:
    """Cells for what `gang` holds, GPU by GPU; all of them or none.

    Its pods were cut to the cells of its tenant: smaller ones are tried where none has all of a pod.
    """
    for least in [level] if level else range(_common_level(gpus), 0, -1):
        virtual = _served(clusters, gang, gpus, least, level or gpus[0].kind.top)
        if virtual:
            break
    clusters.start(GangPlan(gang, [list(gpus)], [virtual] if virtual else [], [], []))


def _served(
    clusters: VirtualClusters, gang: Gang, gpus: Sequence[Physical], least: int, most: int
) -> list[Virtual]:
    """Virtual GPUs for all of `gpus`, in cells of those levels; none if some promise would be broken."""
    pool = clusters.pools[gpus[0].kind.name]
    started: list[Gang] = []
    virtual: list[Virtual] = []
    for leaf in gpus:
        own = _cell_for(clusters, gang, leaf, least, most)
        if own is None:
            break
        part = Gang(gang.name, gang.vc, gang.priority, (1,))
        clusters.hold_unchecked(part, [[leaf]], [[own]])
        started.append(part)
        virtual.append(own)
        if min(pool.splittable()) < 0:
            break
    is_safe = len(virtual) == len(gpus) and min(pool.splittable()) >= 0
    for part in started:
        clusters.leave_unchecked(part)
    return virtual if is_safe else []


def _common_level(gpus: Sequence[Physical]) -> int:
    """Level of the smallest cells that have all the GPUs which lie on one node: those were one pod."""
    kind = gpus[0].kind
    for level in range(1, kind.node_level):
        nodes = {id(ancestor(leaf, kind.node_level)) for leaf in gpus} if kind.top >= kind.node_level else {0}
        if len({id(ancestor(leaf, level)) for leaf in gpus}) <= len(nodes):
            return level
    return kind.node_level


def _cell_for(clusters: VirtualClusters, gang: Gang, leaf: Physical, least: int, most: int) -> Virtual | None:
    """An idle virtual GPU that `leaf` can serve: in a cell bound around it, or in one not bound yet."""
    path = [leaf]
    while path[-1].virtual is None and path[-1].parent is not None:
        path.append(path[-1].parent)
    bound = path[-1].virtual
    if bound is not None:
        own = bound if bound.vc == gang.vc and bound.pin == gang.pin else None
        return _descend(own, path) if own is not None else None
    vc = clusters.vcs.get(gang.vc)
    if vc is None or gang.pin or leaf.root_free is None:
        return None
    for level in range(least, min(most, leaf.root_free.level) + 1):
        roots = vc.roots.get(leaf.kind.name, [])
        root = next((root for root in roots if root.level == level and root.physical is None), None)
        if root is not None:
            return _descend(root, path[:level])
    return None


def _descend(own: Virtual, path: Sequence[Physical]) -> Virtual | None:
    """The first idle way down from `own`, which the last of `path` serves or is to serve."""
    for _ in range(len(path) - 1):
        child = next((child for child in own.children if child.physical is None), None)
        if child is None:
            return None
        own = child
    return own if own.gang is None else None
