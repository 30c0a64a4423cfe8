"""Binding: physical cells for virtual ones, by buddies, and around what is bad or will not do.

Source    Zhao et al., "HiveD", OSDI 2020, section 4; HiveD's published code for what is bad
"""

from __future__ import annotations

from collections.abc import Sequence

from rota.model.cells import ByLevel, spare_cells
from rota.systems.hived.cells import OPPORTUNISTIC, Physical, Virtual, ancestor
from rota.systems.hived.packing import GangNodes
from rota.systems.hived.pool import FreeCells

Bound = dict[int, Physical]
"""GPU by the `id` of its virtual one."""


class Binder:
    """Looks for physical GPUs that serve virtual ones of one kind, on one state of its pool.

    `suggested` are the suitable nodes; None for all.
    """

    def __init__(self, pool: FreeCells, suggested: GangNodes | None) -> None:
        self.pool, self.suggested = pool, suggested
        self._wanted: dict[int, list[Virtual]] = {}  # by id of a cell: children of it that need a partner
        self._found: Bound = {}
        self._free: list[list[Physical]] = []
        self._owed: ByLevel = []

    def bind(self, wanted: Sequence[Virtual]) -> Bound | None:
        """A physical GPU for each of the virtual GPUs `wanted`; None if there are none that will do."""
        roots: list[Virtual] = []
        inside: dict[int, Virtual] = {}
        self._wanted, self._found = {}, {}
        for leaf in wanted:
            self._trace(leaf, roots, inside)
        for parent in inside.values():
            assert parent.physical is not None
            if not self._serve(self._wanted[id(parent)], parent.physical.children):
                return None
        if roots:
            self._free = [list(cells) for cells in self.pool.free]
            self._owed = list(self.pool.owed)
        for root in roots:
            if not self._buddy(root, self._lowest(root.level)) and not self._relaxed(root):
                return None
            self._owed[root.level] -= 1
        return self._found

    def _trace(self, leaf: Virtual, roots: list[Virtual], inside: dict[int, Virtual]) -> None:
        """Note what has to be bound above `leaf`: up to a cell that is, or to one without parent."""
        if leaf.physical is not None:
            self._found[id(leaf)] = leaf.physical
            return
        cell = leaf
        while cell.parent is not None:
            known = id(cell.parent) in self._wanted
            self._wanted.setdefault(id(cell.parent), []).append(cell)
            if known:
                return
            cell = cell.parent
            if cell.physical is not None:
                inside[id(cell)] = cell
                return
        roots.append(cell)

    # -- a whole cell ------------------------------------------------------------------------------

    def _lowest(self, level: int) -> int:
        """The lowest level from `level` on that has a free cell; one above the top if there is none."""
        while level <= self.pool.kind.top and not self._free[level]:
            level += 1
        return level

    def _buddy(self, root: Virtual, level: int) -> bool:
        """Serve `root` from the free cells of `level`, splitting one where they are larger."""
        if level > self.pool.kind.top:
            return False
        for cell in self._usable(self._free[level]):
            if level == root.level:
                if self._descend(root, cell):
                    self.pool.drop(self._free[level], cell)
                    return True
                continue
            self._free[level - 1] = list(cell.children)
            if self._buddy(root, level - 1):
                self.pool.drop(self._free[level], cell)
                return True
            self._free[level - 1] = []
        return False

    def _relaxed(self, root: Virtual) -> bool:
        """Serve `root` by splitting higher cells than need be, as many as no promise needs whole."""
        spare = spare_cells(self.pool.kind, [len(cells) for cells in self._free], self._owed)
        if min(spare) < 0:
            return False
        for level in range(root.level + 1, self.pool.kind.top + 1):
            count = min(len(self._free[level]), spare[level])
            if not self.pool.swaps:  # one is split, and any of them may be that one, or none
                count = len(self._free[level]) if self._may_split(level, root.level) else 0
            parts = self._free[level][:count]
            for _ in range(level - root.level):
                parts = [child for part in parts for child in part.children]
            for cell in self._usable(parts + self._free[root.level]):
                if self._descend(root, cell):
                    if self.pool.swaps:
                        del self._free[level][:count]
                        self._free[root.level] = parts + self._free[root.level]
                        self.pool.drop(self._free[root.level], cell)
                    else:
                        self._split(ancestor(cell, level), cell)
                    return True
        return False

    def _may_split(self, level: int, to: int) -> bool:
        """Whether one of `level` may be split for one of level `to` and all that is owed can still be had.

        The published code splits the first of those that are not owed as a whole, also where they are needed
        for their parts.
        """
        if not self._free[level]:
            return False
        kind, free, owed = self.pool.kind, [len(cells) for cells in self._free], list(self._owed)
        free[level] -= 1
        for below in range(to, level):
            free[below] += kind.fanout(below + 1) - 1
        owed[to] -= 1
        return min(spare_cells(kind, free, owed)) >= 0

    def _split(self, whole: Physical, cell: Physical) -> None:
        """Take `cell` out of `whole`, which was free; the rest stays free."""
        self.pool.drop(self._free[whole.level], whole)
        while whole is not cell:
            part = ancestor(cell, whole.level - 1)
            self._free[part.level] += [child for child in whole.children if child is not part]
            whole = part

    # -- inside of cells ---------------------------------------------------------------------------

    def _usable(self, cells: Sequence[Physical]) -> list[Physical]:
        """Cells that may serve, those first in which the fewest GPUs have to be taken from opportunists."""
        usable = [
            cell
            for cell in cells
            if cell.virtual is None
            and not (cell.is_bad and len(cell.nodes) == 1)
            and (self.suggested is None or not self.suggested.isdisjoint(cell.nodes))
        ]
        if self.pool.swaps:
            usable.sort(key=lambda cell: cell.used.get(OPPORTUNISTIC, 0))
        else:
            usable.sort(key=lambda cell: (cell.used.get(OPPORTUNISTIC, 0), cell.number))
        return usable

    def _descend(self, virtual: Virtual, cell: Physical) -> bool:
        """Whether `cell` can serve all that is wanted in `virtual`; it is noted which GPU serves which."""
        if virtual.level == 1:
            self._found[id(virtual)] = cell
            return True
        return self._serve(self._wanted[id(virtual)], cell.children)

    def _serve(self, wanted: Sequence[Virtual], cells: Sequence[Physical]) -> bool:
        """A cell for each of `wanted`, brothers: in order the first that will do, or any that do together."""
        usable = self._usable(cells)
        if len(usable) < len(wanted):
            return False
        picked: set[int] = set()
        for virtual in wanted:
            cell = next((c for c in usable if id(c) not in picked and self._descend(virtual, c)), None)
            if cell is None:
                return self._match(wanted, usable)
            picked.add(id(cell))
        return True

    def _match(self, wanted: Sequence[Virtual], usable: Sequence[Physical]) -> bool:
        """Match by augmenting paths where the first choice takes a cell that another needs."""
        fits = [[at for at, cell in enumerate(usable) if self._descend(one, cell)] for one in wanted]
        owner: dict[int, int] = {}

        def place(one: int, seen: set[int]) -> bool:
            for at in fits[one]:
                if at not in seen:
                    seen.add(at)
                    if at not in owner or place(owner[at], seen):
                        owner[at] = one
                        return True
            return False

        if not all(place(one, set()) for one in range(len(wanted))):
            return False
        return all(self._descend(wanted[one], usable[at]) for at, one in owner.items())


def bind(virtual: Virtual, physical: Physical, pool: FreeCells) -> None:
    """Bind the virtual GPU to the physical one, and their parents too, up to what is already bound."""
    cell, by = virtual, physical
    while cell.physical is None:
        cell.physical, by.virtual = by, cell
        if cell.parent is None:
            pool.take(by)
            pool.owe(cell.vc, cell.level, -1)
            return
        assert by.parent is not None
        cell, by = cell.parent, by.parent
    assert cell.physical is by, "cells are bound as their parents are"


def unbind(virtual: Virtual, pool: FreeCells) -> None:
    """Release the GPU, and cells in which nothing else is in use.  A fixed cell stays bound."""
    cell: Virtual | None = virtual
    while cell is not None and not any(child.physical for child in cell.children):
        if cell.parent is None and cell.pin:
            return
        physical = cell.physical
        assert physical is not None
        cell.physical = physical.virtual = None
        if cell.parent is None:
            pool.owe(cell.vc, cell.level, 1)
            pool.put(physical)
        cell = cell.parent
