"""The cluster: nodes and devices as columns, named levels above them, and how to write one down.

`80x8:V100` is 80 nodes of 8 V100s; parts are joined by commas (`8x4:v100,16x4:p100`); `FILE.yaml`
describes racks, CPU, memory and tenants as well (see `docs/cluster.md`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np

from rota.errors import InputError
from rota.model.columns import Array, Bools, Floats, Ints, read_only
from rota.model.gpu_types import GPU_TYPE
from rota.model.tenants import Tenants
from rota.model.units import plural

ANY_TYPE = "GPU"
"""Name of the device type if none is given."""


@dataclass(frozen=True)
class NodeShape:
    """Some equal nodes, as a person writes them down."""

    count: int
    gpus: int
    gpu_type: str = ANY_TYPE
    gpu_memory_gib: float = 0.0
    cpus: float = 0.0
    memory_gib: float = 0.0
    names: tuple[str, ...] = ()
    levels: Mapping[str, str] = field(default_factory=dict)
    """Level name -> name of the unit these nodes are in, for instance rack -> r1."""
    device_levels: Mapping[str, int] = field(default_factory=dict)
    """Level below the node -> devices of each unit, widest first: socket -> 4, pair -> 2."""
    capacities: Mapping[str, float] = field(default_factory=dict)
    """Further amounts of each node by name: up -> 10."""
    labels: tuple[str, ...] = ()
    """Names under which jobs may ask for these nodes, such as Slurm's partitions; they may overlap."""
    price_class: str = ""
    """Price class of these nodes: `on_demand` or `spot`; empty if unknown."""


@dataclass(frozen=True)
class Cluster:
    """Nodes and devices as read-only columns; device ids are consecutive node by node.

    CPU and memory of 0 mean unlimited (most traces do not record them).
    """

    node_names: tuple[str, ...]
    first_device: Ints
    """First device id of each node, and one past the last: node n owns first[n] .. first[n+1]-1."""
    node_type: Ints
    """Type code of each node's devices (index into `type_names`)."""
    node_cpus: Floats
    node_memory_gib: Floats
    device_node: Ints
    device_type: Ints
    device_memory_gib: Floats
    type_names: tuple[str, ...]
    levels: Mapping[str, Array] = field(default_factory=dict)
    """Named levels above the node, widest first: code of the unit each node is in."""
    level_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    device_levels: Mapping[str, Array] = field(default_factory=dict)
    """Named levels below the node, widest first: number of the unit each device is in, over all nodes."""
    capacities: Mapping[str, Floats] = field(default_factory=dict)
    """Further amounts of each node by name (up, down, disk); 0 where a node states none."""
    labels: Mapping[str, Ints] = field(default_factory=dict)
    """Nodes behind each name under which jobs may ask for them, ascending; one node may be behind several."""
    prices: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Price of a GPU-hour in each class (`on_demand`, `spot`), by GPU type."""
    price_classes: Mapping[str, Ints] = field(default_factory=dict)
    """Nodes that are paid for in each class, ascending; the class of the others is unknown."""
    tenants: Tenants = field(default_factory=Tenants.none)
    gone: tuple[int, ...] = ()
    """Nodes that never come back: they are closed, and here only for the numbers of the others."""

    @cached_property
    def answers(self) -> dict[Any, Any]:
        """Cached answers to questions about the cluster when empty: `rota.model.feasible` keeps them."""
        return {}

    @property
    def nodes(self) -> int:
        return len(self.node_names)

    @property
    def gpus(self) -> int:
        return len(self.device_node)

    @property
    def node_gpus(self) -> Ints:
        """GPUs of each node."""
        return np.diff(self.first_device)

    @cached_property
    def kinds(self) -> tuple[int, ...]:
        """Type codes of its nodes, ascending: a part of a cluster may have none of some that it names."""
        return tuple(np.unique(self.node_type).tolist())

    def gpus_of_type(self, type_code: int) -> int:
        return int((self.device_type == type_code).sum())

    def admitted(self, node_set: str) -> Bools:
        """The nodes that a job with `node_set`, such as `gpu|n7`, may use; all if it is empty.

        A part names a label or a node; one that names neither stands for no node.  Parts with `!` are taken
        away from what the others give, or from all nodes if there are no others.
        """
        parts = [part for part in node_set.split("|") if part]
        wanted = [part for part in parts if not part.startswith("!")]
        admitted = np.full(self.nodes, not wanted)
        for part in wanted:
            admitted[self._named(part)] = True
        for part in parts:
            if part.startswith("!"):
                admitted[self._named(part[1:])] = False
        return admitted

    def _named(self, name: str) -> Ints:
        """Nodes of a label, or the node of that name."""
        if name in self.labels:
            return self.labels[name]
        return np.array([node for node, own in enumerate(self.node_names) if own == name], dtype=np.int64)

    def take(self, nodes: Ints, tenants: Tenants | None = None) -> Cluster:
        """The cluster of `nodes` only, in that order; devices are renumbered from 0."""
        gpus = self.node_gpus[nodes]
        devices = np.concatenate(
            [np.arange(self.first_device[node], self.first_device[node + 1]) for node in nodes]
        )
        return replace(
            self,
            node_names=tuple(self.node_names[node] for node in nodes),
            first_device=read_only(np.concatenate(([0], np.cumsum(gpus)))),
            node_type=read_only(self.node_type[nodes]),
            node_cpus=read_only(self.node_cpus[nodes]),
            node_memory_gib=read_only(self.node_memory_gib[nodes]),
            device_node=read_only(np.repeat(np.arange(len(nodes)), gpus)),
            device_type=read_only(self.device_type[devices]),
            device_memory_gib=read_only(self.device_memory_gib[devices]),
            levels={name: read_only(codes[nodes]) for name, codes in self.levels.items()},
            device_levels={
                name: read_only(_renumbered(codes[devices], gpus))
                for name, codes in self.device_levels.items()
            },
            capacities={name: read_only(amounts[nodes]) for name, amounts in self.capacities.items()},
            labels={
                name: read_only(np.flatnonzero(np.isin(nodes, own))) for name, own in self.labels.items()
            },
            price_classes={
                name: read_only(np.flatnonzero(np.isin(nodes, own)))
                for name, own in self.price_classes.items()
            },
            tenants=tenants or Tenants.none(),
            gone=tuple(place for place, node in enumerate(nodes) if node in self.gone),
        )

    def coded_as(self, type_names: tuple[str, ...]) -> Cluster:
        """This cluster with the type codes of another one, whose names include all of its own."""
        codes = np.array([type_names.index(name) for name in self.type_names], dtype=np.int64)
        return replace(
            self,
            type_names=type_names,
            node_type=read_only(codes[self.node_type]),
            device_type=read_only(codes[self.device_type]),
        )

    def gpu_price(self, type_code: int) -> float:
        """Price of a GPU-hour on one type, the mean over its GPUs; NaN if the cluster states none.

        A node without a class is on demand if that has a price, else in the cheapest class.
        """
        classes = self.prices.get(self.type_names[type_code])
        if not classes:
            return math.nan
        usual = classes.get("on_demand", min(classes.values()))
        of_node = np.full(self.nodes, usual)
        for name, nodes in self.price_classes.items():
            of_node[nodes] = classes.get(name, usual)
        gpus = self.node_gpus * (self.node_type == type_code)
        return float(of_node @ gpus / gpus.sum()) if gpus.any() else usual

    def units(self, level: str, type_code: int | None = None) -> int:
        """The number of units of a level; with a type, of those whose devices are all of it."""
        devices = np.arange(self.gpus) if type_code is None else np.flatnonzero(self.device_type == type_code)
        if level == DEVICE:
            return len(devices)
        nodes = self.device_node if level == NODE else None
        if level in self.levels:
            nodes = self.levels[level][self.device_node]
        codes = self.device_levels[level] if nodes is None else nodes
        others = np.setdiff1d(np.arange(self.gpus), devices)
        return len(np.setdiff1d(codes[devices], codes[others]))

    def describe(self) -> str:
        """`80x8:V100 (640 GPUs in 80 nodes)`."""
        shapes = zip(self.node_gpus.tolist(), self.node_type.tolist(), strict=True)
        runs = [(sum(1 for _ in run), *shape) for shape, run in groupby(shapes)]
        text = ",".join(_shape_text(count, gpus, self.type_names[code]) for count, gpus, code in runs[:4])
        text += ",..." if len(runs) > 4 else ""
        return f"{text} ({plural(self.gpus, 'GPU')} in {plural(self.nodes, 'node')})"

    @classmethod
    def build(
        cls,
        shapes: Sequence[NodeShape],
        tenants: Tenants | None = None,
        prices: Mapping[str, Mapping[str, float]] | None = None,
    ) -> Cluster:
        """A cluster from groups of equal nodes, in the given order."""
        _check(shapes)
        spread = [shape for shape in shapes for _ in range(shape.count)]
        types = tuple(dict.fromkeys(shape.gpu_type for shape in shapes))
        names: list[str] = []
        for shape in shapes:
            names += shape.names or [f"n{len(names) + i}" for i in range(shape.count)]
        if len(set(names)) != len(names):
            raise InputError("two nodes of the cluster have the same name; names must be unique")
        gpus = np.array([shape.gpus for shape in spread], dtype=np.int64)
        node_type = np.array([types.index(shape.gpu_type) for shape in spread], dtype=np.int64)
        memory = np.array([shape.gpu_memory_gib for shape in spread], dtype=np.float64)
        device_node = np.repeat(np.arange(len(spread)), gpus)
        levels, level_names = _levels(spread)
        return cls(
            node_names=tuple(names),
            first_device=read_only(np.concatenate(([0], np.cumsum(gpus)))),
            node_type=read_only(node_type),
            node_cpus=read_only(np.array([shape.cpus for shape in spread], dtype=np.float64)),
            node_memory_gib=read_only(np.array([s.memory_gib for s in spread], dtype=np.float64)),
            device_node=read_only(device_node),
            device_type=read_only(node_type[device_node]),
            device_memory_gib=read_only(memory[device_node]),
            type_names=types,
            levels=levels,
            level_names=level_names,
            device_levels=_device_levels(spread),
            capacities=_capacities(spread),
            labels=_named_nodes(spread, lambda shape: shape.labels),
            prices=prices or {},
            price_classes=_named_nodes(
                spread, lambda shape: (shape.price_class,) if shape.price_class else ()
            ),
            tenants=tenants or Tenants.none(),
        )


NODE, DEVICE = "node", "device"
"""The two levels that every cluster has."""
MOST_DEVICES = 10_000_000
"""The largest cluster that is accepted, so that a typing mistake does not fill the memory."""


def _check(shapes: Sequence[NodeShape]) -> None:
    """Refuse groups of nodes that do not describe nodes."""
    if not shapes:
        raise InputError("a cluster needs at least one node")
    devices = sum(shape.count * max(shape.gpus, 1) for shape in shapes)
    if devices > MOST_DEVICES:
        raise InputError(f"a cluster of {devices:,} GPUs is too large; expected at most {MOST_DEVICES:,}")
    for number, shape in enumerate(shapes, start=1):
        group = f"group {number} of the cluster"
        if shape.count < 1 or shape.gpus < 0:
            raise InputError.at(
                f"{group} has {plural(shape.count, 'node')} of {plural(shape.gpus, 'GPU')}",
                expected="at least 1 node, of 0 GPUs or more",
            )
        if shape.names and len(shape.names) != shape.count:
            raise InputError.at(
                f"{group} names {plural(len(shape.names), 'node')} but has {shape.count}",
                expected="a name for each node, or none",
            )
    _check_device_levels(shapes)


def _levels(spread: Sequence[NodeShape]) -> tuple[dict[str, Array], dict[str, tuple[str, ...]]]:
    """Codes and names of each level; a level must name a unit for every node or for none."""
    codes: dict[str, Array] = {}
    names: dict[str, tuple[str, ...]] = {}
    for level in dict.fromkeys(name for shape in spread for name in shape.levels):
        missing = next((i for i, shape in enumerate(spread) if level not in shape.levels), None)
        if missing is not None:
            raise InputError(
                f"node {missing} of the cluster is in no {level}, others are; expected all or none"
            )
        units = tuple(dict.fromkeys(shape.levels[level] for shape in spread))
        names[level] = units
        codes[level] = read_only(np.array([units.index(shape.levels[level]) for shape in spread]))
    return codes, names


def _device_levels(spread: Sequence[NodeShape]) -> dict[str, Array]:
    """Number of each device's unit in each level below the node."""
    levels: dict[str, list[int]] = {name: [] for shape in spread for name in shape.device_levels}
    for shape in spread:
        for name, units in levels.items():
            first = units[-1] + 1 if units else 0
            units += [first + device // shape.device_levels[name] for device in range(shape.gpus)]
    return {name: read_only(np.array(units, dtype=np.int64)) for name, units in levels.items()}


def _check_device_levels(shapes: Sequence[NodeShape]) -> None:
    """Every node with GPUs names the same levels; each divides the one before it, the first the node."""
    names = list(dict.fromkeys(name for shape in shapes for name in shape.device_levels))
    for number, shape in enumerate(shapes, start=1):
        if not shape.gpus:
            continue
        if list(shape.device_levels) != names:
            raise InputError.at(
                f"group {number} of the cluster has the device levels "
                f"{', '.join(shape.device_levels) or 'none'}",
                expected=f"{', '.join(names)}, as the others, in this order",
            )
        whole, inside = shape.gpus, "its nodes"
        for name, size in shape.device_levels.items():
            if size < 1 or whole % size:
                raise InputError.at(
                    f"group {number} of the cluster: a {name} of {plural(size, 'GPU')} does not divide "
                    f"{inside} of {plural(whole, 'GPU')}",
                    expected=f"a divisor of {whole}",
                )
            whole, inside = size, f"a {name}"


def _capacities(spread: Sequence[NodeShape]) -> dict[str, Floats]:
    """Each named amount of all nodes."""
    names = dict.fromkeys(name for shape in spread for name in shape.capacities)
    return {
        name: read_only(np.array([shape.capacities.get(name, 0.0) for shape in spread], dtype=np.float64))
        for name in names
    }


def _named_nodes(
    spread: Sequence[NodeShape], names_of: Callable[[NodeShape], tuple[str, ...]]
) -> dict[str, Ints]:
    """Nodes of each name."""
    names = dict.fromkeys(name for shape in spread for name in names_of(shape))
    return {
        name: read_only(np.array([n for n, shape in enumerate(spread) if name in names_of(shape)]))
        for name in names
    }


def _renumbered(units: Ints, gpus: Ints) -> Ints:
    """Units of some nodes, one node after the other, as numbers from 0; a node taken twice has them twice."""
    nodes = np.repeat(np.arange(len(gpus)), gpus)
    changes = (np.diff(units) != 0) | (np.diff(nodes) != 0)
    numbers: Ints = np.concatenate(([0], np.cumsum(changes))) if len(units) else units
    return numbers


def _shape_text(count: int, gpus: int, gpu_type: str) -> str:
    """`80x8:V100`: equal nodes as `parse_cluster` reads them."""
    return f"{count}x{gpus}" + ("" if gpu_type == ANY_TYPE else f":{gpu_type}")


_SHAPE = re.compile(rf"(\d+)x(\d+)(?::({GPU_TYPE}))?")


def parse_cluster(text: str) -> Cluster:
    """The cluster that `80x8:V100` or `8x4:v100,16x4:p100` describes."""
    shapes = []
    for part in text.split(","):
        match = _SHAPE.fullmatch(part.strip())
        if not match or int(match[1]) == 0:
            raise InputError.at(
                f"{part.strip()!r} does not describe nodes",
                field="--cluster",
                expected=(
                    "NODESxGPUS[:TYPE] such as 80x8:V100, several joined by commas, auto, or a .yaml file"
                ),
            )
        shapes.append(NodeShape(count=int(match[1]), gpus=int(match[2]), gpu_type=match[3] or ANY_TYPE))
    if not any(shape.gpus for shape in shapes):
        raise InputError.at(f"{text!r} has no GPU", field="--cluster", expected="at least one, as in 1x1")
    return Cluster.build(shapes)
