"""Doomed cells: bad hardware that some tenant has to bear, shown to it as soon as that is certain.

Source    HiveD's published code

If a virtual cluster owns more idle cells of a level than there are healthy ones to be had, some of its cells
cannot be served.  They are bound to bad ones, so that its own scheduler sees which to avoid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rota.systems.hived.cells import Physical, Virtual
from rota.systems.hived.pool import FreeCells


class Doom:
    """The doomed cells of one kind; `roots` are the cells that each virtual cluster owns."""

    def __init__(self, pool: FreeCells, roots: Mapping[str, Sequence[Virtual]]) -> None:
        self.pool, self.roots = pool, roots
        self.bound: list[Virtual] = []

    def settle(self) -> None:
        """Bind the cells doomed now, and free cells that are not doomed any more."""
        if not self.bound and not any(self.pool.bad):
            return
        # A gang that runs on what is left of a doomed cell holds it as any other.
        self.bound = [root for root in self.bound if not root.busy]
        for root in reversed(self.bound):
            if root.physical is not None and not root.physical.is_bad:
                self._free(root)
        # A bad cell, bound or free, changes only how many healthy ones of lower levels are left.
        for level in range(self.pool.kind.top, 0, -1):
            for root in [root for root in reversed(self.bound) if root.level == level]:
                if self.pool.owed_to[root.vc][level] < self.pool.healthy(level):
                    self._free(root)
        for level in range(self.pool.kind.top, 0, -1):
            for vc, own in self.pool.owed_to.items():
                while own[level] > self.pool.healthy(level):
                    self._doom(vc, level)

    def _doom(self, vc: str, level: int) -> None:
        root = next(root for root in self.roots[vc] if root.level == level and root.physical is None)
        cell = min(self.pool.bad[level], key=self._preference)
        root.physical, cell.virtual = cell, root
        self.pool.take(cell)
        self.pool.owe(vc, level, -1)
        self.bound.append(root)

    def _preference(self, cell: Physical) -> tuple[int, int]:
        """Cells that need the least splitting, so that no promise of larger ones is touched."""
        free = cell.root_free
        assert free is not None
        return free.level, 0 if self.pool.swaps else cell.number

    def _free(self, root: Virtual) -> None:
        self.bound.remove(root)
        cell = root.physical
        assert cell is not None
        root.physical = cell.virtual = None
        self.pool.owe(root.vc, root.level, 1)
        self.pool.put(cell)
