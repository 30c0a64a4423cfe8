"""Cells: trees of equal units over GPUs, physical and promised ones; gangs, which use them.

Source    Zhao et al., "HiveD", OSDI 2020, section 3

A virtual cell is bound to the physical one that serves it, and its children to children of that one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from rota.model.cells import CellKind

FREE = -2
"""Priority of a GPU that no job uses; an opportunistic job has -1, guaranteed ones 0 or more."""
OPPORTUNISTIC = -1


@dataclass(eq=False)
class Gang:
    """A job: all its pods run, or none (the paper's affinity group)."""

    name: str
    vc: str
    priority: int
    """-1 is opportunistic: no guarantee, any idle GPUs."""
    pods: tuple[int, ...]
    """GPUs of each pod; none is spread over nodes."""
    gpu_types: tuple[str, ...] = ()
    """Suitable GPU types; any if empty."""
    kind: str = ""
    """The one kind of cells that its pods are made for; empty for any."""
    pin: str = ""
    """The fixed cell that it asks for."""
    lazy: bool = False
    """True if a job that needs its virtual cells takes only those, as long as there are other GPUs."""
    most_per_node: int = 1 << 30
    """GPUs of it that one node can feed."""

    physical: list[list[Physical]] = field(default_factory=list)
    """GPUs of each pod, in the order of `pods`; empty while it does not run."""
    virtual: list[list[Virtual]] = field(default_factory=list)
    """What they are in the virtual cluster; empty for a gang without a guarantee."""

    numbers: list[int] = field(default_factory=list)
    """Numbers of its virtual GPUs in the order of its devices, once that has been made out."""

    @property
    def gpus(self) -> int:
        return sum(self.pods)

    def like(self, name: str) -> Gang:
        """Another one that asks for the same, and does not run."""
        asks = self.priority, self.pods, self.gpu_types, self.kind, self.pin, self.lazy, self.most_per_node
        return Gang(name, self.vc, *asks)

    def in_order(self) -> list[list[Virtual]]:
        """Its virtual GPUs in the order of the devices that serve them; none without a guarantee."""
        if not self.virtual:
            return []
        return [sorted((own for pod in self.virtual for own in pod), key=_device)]


def _device(own: Virtual) -> int:
    assert own.physical is not None
    return own.physical.device


class Cell:
    """A cell of either tree; usage in it is counted by priority."""

    __slots__ = ("busy", "changed", "gang", "kind", "level", "number", "priority", "size", "used")

    def __init__(self, kind: CellKind, level: int, number: int) -> None:
        self.kind, self.level, self.number = kind, level, number
        self.used: dict[int, int] = {}
        """GPUs in use by priority."""
        self.busy = 0
        """GPUs in use."""
        self.size = kind.gpus(level)
        self.priority = FREE
        """Priority of the gang on a GPU."""
        self.changed: dict[Cell, None] | None = None
        """Records cells whose use has changed; None if no caller wants to know."""
        self.gang: Gang | None = None

    def free_for(self, priority: int) -> int:
        """GPUs that are free, or used by jobs of less than `priority`."""
        free = self.size - self.busy
        if priority > OPPORTUNISTIC or OPPORTUNISTIC in self.used:
            for at, used in self.used.items():
                if at < priority:
                    free += used
        return free


class Physical(Cell):
    """A cell of the cluster."""

    __slots__ = ("bad_children", "children", "device", "is_free", "leaves", "nodes", "parent", "virtual")

    def __init__(self, kind: CellKind, level: int, number: int, parent: Physical | None) -> None:
        super().__init__(kind, level, number)
        self.parent = parent
        self.children: list[Physical] = []
        self.leaves: list[Physical] = []
        """Its GPUs, in the order of the tree."""
        self.nodes: tuple[int, ...] = ()
        self.device = -1
        self.virtual: Virtual | None = None
        """The virtual cell that it serves."""
        self.bad_children = 0
        """Number of bad children; for a GPU 1 if it is bad itself."""
        self.is_free = False
        """True while it is whole in a free list."""

    @property
    def is_bad(self) -> bool:
        return self.bad_children > 0

    @property
    def root_free(self) -> Physical | None:
        """The free cell that this one is, or is inside of; None if it is in use or split."""
        cell: Physical | None = self
        while cell is not None and not cell.is_free:
            cell = cell.parent
        return cell


class Virtual(Cell):
    """A cell of a virtual cluster; one without parent was promised as it is (preassigned)."""

    __slots__ = ("children", "leaves", "parent", "physical", "pin", "vc")

    def __init__(self, kind: CellKind, level: int, number: int, parent: Virtual | None, vc: str) -> None:
        super().__init__(kind, level, number)
        self.parent = parent
        self.children: list[Virtual] = []
        self.leaves: list[Virtual] = []
        self.vc = vc
        self.physical: Physical | None = None
        self.pin = ""
        """Name of the fixed cell that its root is; empty for the others."""


AnyCell = TypeVar("AnyCell", Physical, Virtual)


def below(cell: AnyCell) -> Iterator[AnyCell]:
    """The cell and everything in it, a parent before its children."""
    yield cell
    for child in cell.children:
        yield from below(child)


def ancestor(cell: AnyCell, level: int) -> AnyCell:
    """The cell of `level` that `cell` is in."""
    while cell.level < level:
        assert cell.parent is not None, "a level above the top is asked for"
        cell = cell.parent
    return cell


def physical_cell(
    kind: CellKind, level: int, nodes: Sequence[int], devices: Sequence[int], first: int = 0
) -> Physical:
    """A tree over `devices`, which lie on `nodes` in equal parts; `first` trees like it come before."""
    numbers = dict.fromkeys(range(1, level + 1), 0)
    for below_level in numbers:
        numbers[below_level] = first * (kind.gpus(level) // kind.gpus(below_level))
    return _physical(kind, level, tuple(nodes), tuple(devices), None, numbers)


def _physical(
    kind: CellKind,
    level: int,
    nodes: tuple[int, ...],
    devices: tuple[int, ...],
    parent: Physical | None,
    numbers: dict[int, int],
) -> Physical:
    cell = Physical(kind, level, numbers[level], parent)
    numbers[level] += 1
    cell.nodes = nodes
    if level == 1:
        cell.device = devices[0]
        cell.leaves = [cell]
        return cell
    fanout = kind.fanout(level)
    size, hosts = len(devices) // fanout, max(len(nodes) // fanout, 1)
    for i in range(fanout):
        at = i * hosts if level > kind.node_level else 0
        own = devices[i * size : (i + 1) * size]
        cell.children.append(_physical(kind, level - 1, nodes[at : at + hosts], own, cell, numbers))
    cell.leaves = [leaf for child in cell.children for leaf in child.leaves]
    return cell


def virtual_cell(
    kind: CellKind, level: int, vc: str, numbers: dict[int, int], parent: Virtual | None = None
) -> Virtual:
    """A tree of `level` as it is promised to `vc`; `numbers` counts the cells of each level."""
    number = numbers.get(level, 0)
    numbers[level] = number + 1
    cell = Virtual(kind, level, number, parent, vc)
    if level > 1:
        cell.children = [virtual_cell(kind, level - 1, vc, numbers, cell) for _ in range(kind.fanout(level))]
    cell.leaves = [leaf for child in cell.children for leaf in child.leaves] or [cell]
    return cell


def count(cell: Physical | Virtual, priority: int, by: int) -> None:
    """`by` more GPUs of `cell`, a GPU, and all that it is in, are used at `priority`."""
    up: Physical | Virtual | None = cell
    while up is not None:
        up.busy += by
        left = up.used.get(priority, 0) + by
        if left:
            up.used[priority] = left
        else:
            del up.used[priority]
        if up.changed is not None:
            up.changed[up] = None
        up = up.parent
