"""The layout of a live cluster's machines, as its operator states it: racks above them, sockets inside.

Agents report neither, so the configuration does: entries with patterns of names; the first that fits counts.
Machines join one by one and may differ from the plan, which stops no machine: one without an entry stands
alone on each level above; if the size of a unit does not divide its devices, it is one unit inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Any

from rota.errors import InputError
from rota.model.cluster import DEVICE, NODE
from rota.model.tenants import Tenants

FIELDS = ("nodes", "levels", "device_levels")


@dataclass(frozen=True)
class LayoutEntry:
    """Where some machines stand."""

    nodes: tuple[str, ...]
    """Patterns of their names: `gpu-7`, `gpu-r0-*`."""
    levels: Mapping[str, str]
    """Level above the node -> the unit they are in, widest first."""
    device_levels: Mapping[str, int]
    """Level below the node -> devices of each unit, widest first."""


@dataclass(frozen=True)
class NodeLayout:
    """The setting `layout`."""

    entries: tuple[LayoutEntry, ...] = ()

    @property
    def above(self) -> tuple[str, ...]:
        """Levels above the node, widest first."""
        return tuple(dict.fromkeys(name for entry in self.entries for name in entry.levels))

    @property
    def below(self) -> tuple[str, ...]:
        """Levels below the node, widest first."""
        return tuple(dict.fromkeys(name for entry in self.entries for name in entry.device_levels))

    def levels_of(self, node: str) -> dict[str, str]:
        """The unit of each level above the node that `node` is in; its own where the layout does not say."""
        entry = self._entry(node)
        return {name: node if entry is None else entry.levels.get(name, node) for name in self.above}

    def units_of(self, node: str) -> tuple[str, ...]:
        """The units above `node` that the layout names: jobs may ask for them as for nodes."""
        entry = self._entry(node)
        return () if entry is None else tuple(dict.fromkeys(entry.levels.values()))

    def device_levels_of(self, node: str, devices: int) -> dict[str, int]:
        """Devices of each unit inside `node`; a unit that does not divide the wider one becomes all of it."""
        entry = self._entry(node)
        sizes: dict[str, int] = {}
        around = devices
        for name in self.below:
            size = around if entry is None else entry.device_levels.get(name, around)
            around = around if around % size else size
            sizes[name] = around
        return sizes if devices else {}

    def _entry(self, node: str) -> LayoutEntry | None:
        fits = (e for e in self.entries if any(fnmatchcase(node, pattern) for pattern in e.nodes))
        return next(fits, None)


def layout_of(said: Any, where: str = "layout") -> NodeLayout:
    """The setting `layout`; InputError, which begins with `where`, names what is wrong."""
    if not isinstance(said or [], list):
        raise InputError(f"{where}: {said!r} is no list; expected `- {{nodes: gpu-*, levels: {{rack: r0}}}}`")
    entries = (_entry(one, f"{where}: entry {n}") for n, one in enumerate(said or [], start=1))
    layout = NodeLayout(tuple(entries))
    for above in (True, False):
        orders = [tuple(e.levels if above else e.device_levels) for e in layout.entries]
        _check_order([order for order in orders if order], "levels" if above else "device_levels", where)
    twice = {*layout.above, NODE}.intersection({*layout.below, DEVICE}) or {NODE, DEVICE}.intersection(
        {*layout.above, *layout.below}
    )
    if twice:
        raise InputError(f"{where}: {min(twice)} names two levels; expected another name for one of them")
    return layout


def _check_order(orders: list[tuple[str, ...]], field: str, where: str) -> None:
    """Check that all entries name equal levels in equal order, so that it is clear which level is wider."""
    for order in orders:
        if order != orders[0]:
            raise InputError(
                f"{where}: {field}: one entry has {', '.join(order)} and another {', '.join(orders[0])}; "
                "expected the same in all that have any, widest first"
            )


def _entry(said: Any, where: str) -> LayoutEntry:
    fields = said if isinstance(said, dict) else {}
    for name in fields:
        if name not in FIELDS:
            close = get_close_matches(str(name), FIELDS, n=1)
            hint = f"did you mean {close[0]}?" if close else f"expected {', '.join(FIELDS)}"
            raise InputError(f"{where}: {str(name)!r} is no setting; {hint}")
    names = fields.get("nodes")
    patterns = [names] if isinstance(names, str) else names
    if not isinstance(patterns, list) or not patterns or not all(_is_name(one) for one in patterns):
        raise InputError(f"{where}: nodes: {names!r} is wrong; expected a name or pattern, or a list of them")
    levels, inside = fields.get("levels") or {}, fields.get("device_levels") or {}
    if not isinstance(levels, dict) or not all(_is_name(one) for pair in levels.items() for one in pair):
        raise InputError(
            f"{where}: levels: {levels!r} is wrong; expected units by level, such as {{rack: r0}}"
        )
    whole = isinstance(inside, dict) and all(_is_name(k) and type(v) is int for k, v in inside.items())
    sizes = list(inside.values()) if whole else [0]
    if any(size < 1 for size in sizes) or any(a % b for a, b in pairwise(sizes)):
        raise InputError(
            f"{where}: device_levels: {inside!r} is wrong; expected devices of each unit, each dividing "
            "the one before it, such as {socket: 4, pair: 2}"
        )
    return LayoutEntry(tuple(patterns), levels, inside)


def _is_name(said: Any) -> bool:
    return isinstance(said, str) and bool(said)


def check_levels(layout: NodeLayout, tenants: Tenants, where: str) -> None:
    """InputError, which begins with `where`, if a tenant has a cell of a level that there is not."""
    levels = (*layout.above, NODE, *layout.below, DEVICE)
    for tenant in tenants.by_path.values():
        for cell in tenant.cells:
            if cell.level not in levels:
                close = get_close_matches(cell.level, levels, n=1)
                hint = f"did you mean {close[0]}?" if close else f"expected {', '.join(levels)}"
                raise InputError(
                    f"{where}: {tenant.path}: cells: the setting `layout` has no level {cell.level}; {hint}"
                )
