"""The free cells of one kind: split, merged, and never given out such that a promise cannot be kept.

Source    Zhao et al., "HiveD", OSDI 2020, section 4; the buddy rule is Knuth's (TAOCP 1, 2.5)
"""

from __future__ import annotations

from collections.abc import Sequence

from rota.errors import PolicyError
from rota.model.cells import ByLevel, CellKind, spare_cells
from rota.systems.hived.cells import Physical, ancestor, below


class FreeCells:
    """Free lists by level.  `owed` counts the cells that virtual clusters own and do not use.

    With `swaps` a list fills a hole with its last cell, as the published code does; else order is kept.
    """

    def __init__(self, kind: CellKind, tops: Sequence[Physical], *, swaps: bool = False) -> None:
        self.kind, self.tops, self.swaps = kind, list(tops), swaps
        self.free: list[list[Physical]] = [[] for _ in range(kind.top + 1)]
        self.owed: ByLevel = [0] * (kind.top + 1)
        self.owed_to: dict[str, ByLevel] = {}
        """What is owed, by virtual cluster."""
        self.bad: list[list[Physical]] = [[] for _ in range(kind.top + 1)]
        """Bad cells of each level that are free, or inside of free ones."""
        for cell in tops:
            self._append(cell)
            for part in _bad_parts(cell):
                self.bad[part.level].append(part)

    # -- counting ----------------------------------------------------------------------------------

    def left(self, level: int) -> int:
        """Cells of `level` that can still be had: free ones and parts of free ones."""
        cells = 0
        for at in range(self.kind.top, level - 1, -1):
            cells = len(self.free[at]) + (cells * self.kind.fanout(at + 1) if at < self.kind.top else 0)
        return cells

    def healthy(self, level: int) -> int:
        """The cells of `left` that are not bad."""
        return self.left(level) - len(self.bad[level])

    def splittable(self) -> ByLevel:
        """Cells of each level beyond those owed."""
        return spare_cells(self.kind, [len(cells) for cells in self.free], self.owed)

    def check(self) -> None:
        """Raise PolicyError if some promise could not be kept any more."""
        for level, spare in enumerate(self.splittable()):
            if spare < 0:
                raise PolicyError(
                    f"the safety of {self.kind.name} is broken: {-spare} too few "
                    f"{self.kind.names[level - 1]} cells are left for those that tenants own"
                )

    def owe(self, vc: str, level: int, cells: int) -> None:
        """Count `cells` more cells of `level` that belong to `vc` and are not in use."""
        self.owed[level] += cells
        self.owed_to.setdefault(vc, [0] * (self.kind.top + 1))[level] += cells

    # -- giving and taking -------------------------------------------------------------------------

    def take(self, cell: Physical) -> None:
        """Mark `cell`, free or inside a free one, as in use; parts split off for it stay free."""
        root = cell.root_free
        assert root is not None, "only what is free is taken"
        while root is not cell:
            self._remove(root)
            if root.is_bad:
                self.drop(self.bad[root.level], root)
            for child in root.children:
                self._append(child)
            root = ancestor(cell, root.level - 1)
        self._remove(cell)
        for part in _bad_parts(cell):
            self.drop(self.bad[part.level], part)

    def put(self, cell: Physical) -> None:
        """Mark `cell` as unused; it is merged with its buddies as far as they are free."""
        for part in _bad_parts(cell):
            self.bad[part.level].append(part)
        parent = cell.parent
        while parent is not None and all(child.is_free for child in parent.children if child is not cell):
            for child in parent.children:
                if child is not cell:
                    self._remove(child)
            cell, parent = parent, parent.parent
            if cell.is_bad:
                self.bad[cell.level].append(cell)
        self._append(cell)

    def _append(self, cell: Physical) -> None:
        cell.is_free = True
        self.free[cell.level].append(cell)

    def _remove(self, cell: Physical) -> None:
        cell.is_free = False
        self.drop(self.free[cell.level], cell)

    def drop(self, cells: list[Physical], cell: Physical) -> None:
        """Take `cell` out of a list, by the rule of this pool."""
        at = cells.index(cell)
        if self.swaps:
            cells[at] = cells[-1]
            cells.pop()
        else:
            del cells[at]

    # -- health ------------------------------------------------------------------------------------

    def spoil(self, leaf: Physical) -> None:
        """Mark a GPU as bad, and every cell that it is in."""
        cell: Physical | None = leaf
        while cell is not None:
            cell.bad_children += 1
            if cell.bad_children > 1:
                return
            if cell.root_free is not None:
                self.bad[cell.level].append(cell)
            cell = cell.parent

    def heal(self, leaf: Physical) -> None:
        """Mark a GPU as good again."""
        cell: Physical | None = leaf
        while cell is not None:
            cell.bad_children -= 1
            if cell.bad_children:
                return
            if cell.root_free is not None:
                self.drop(self.bad[cell.level], cell)
            cell = cell.parent


def _bad_parts(cell: Physical) -> list[Physical]:
    return [part for part in below(cell) if part.is_bad] if cell.is_bad else []
