"""Cluster files: nodes, levels and tenants in YAML (format in docs/cluster.md)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from difflib import get_close_matches
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from rota.errors import InputError
from rota.model.cells import check_cells
from rota.model.cluster import ANY_TYPE, Cluster, NodeShape
from rota.model.once import refuse_twice
from rota.model.tenants import CellQuota, Tenant, Tenants
from rota.model.units import parse_memory_gib

Location = tuple[int | str, ...]
"""Where in the file: keys and positions from the top, such as ("nodes", 0, "gpus")."""


def _memory_gib(value: object) -> float:
    try:
        return parse_memory_gib(str(value))
    except InputError:
        raise ValueError(f"{value!r} is not an amount of memory; expected a unit: 16GiB or 16GB") from None


def _path(value: str) -> str:
    if not value or any(not part.strip() for part in value.split("/")):
        raise ValueError(f"{value!r} is not a tenant; expected names joined by slashes, such as vision/alice")
    return value


def _label(value: str) -> str:
    if not value or value.startswith("!") or "|" in value:
        raise ValueError(f"{value!r} is not a label; expected a name without | that does not begin with !")
    return value


def _type(value: object) -> object:
    """YAML makes a number of a type such as 3090."""
    return str(value) if type(value) is int else value


TypeName = Annotated[str, BeforeValidator(_type)]
MemoryGiB = Annotated[float, BeforeValidator(_memory_gib)]
Quota = Annotated[float, Field(ge=0)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Nodes(_Strict):
    count: int = Field(default=1, ge=1)
    gpus: int = Field(ge=0)
    type: Annotated[TypeName, Field(min_length=1)] = ANY_TYPE
    gpu_memory: MemoryGiB = 0.0
    cpus: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    memory: MemoryGiB = 0.0
    names: list[str] = []
    levels: dict[str, str] = {}
    device_levels: dict[str, Annotated[int, Field(ge=1)]] = {}
    capacities: dict[str, Amount] = {}
    labels: list[Annotated[str, AfterValidator(_label)]] = []
    price_class: Literal["", "on_demand", "spot"] = ""

    def shape(self) -> NodeShape:
        return NodeShape(
            count=self.count,
            gpus=self.gpus,
            gpu_type=self.type,
            gpu_memory_gib=self.gpu_memory,
            cpus=self.cpus,
            memory_gib=self.memory,
            names=tuple(self.names),
            levels=self.levels,
            device_levels=self.device_levels,
            capacities=self.capacities,
            labels=tuple(self.labels),
            price_class=self.price_class,
        )


class _Cell(_Strict):
    level: str = Field(min_length=1)
    count: int = Field(default=1, ge=1)
    type: TypeName = ""
    gpus: int = Field(default=0, ge=0)
    at: str = ""

    def cell(self) -> CellQuota:
        return CellQuota(self.level, self.count, self.type, self.gpus, self.at)


class _Tenant(_Strict):
    path: Annotated[str, AfterValidator(_path)]
    quota: Quota = math.inf
    hard: bool = False
    weight: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    quota_by_type: dict[TypeName, Quota] = {}
    cells: list[_Cell] = []

    def tenant(self) -> Tenant:
        cells = tuple(cell.cell() for cell in self.cells)
        return Tenant(self.path, self.quota, self.hard, self.weight, self.quota_by_type, cells)


class _Prices(_Strict):
    on_demand: Amount | None = None
    spot: Amount | None = None

    def classes(self) -> dict[str, float]:
        return {name: price for name, price in self.model_dump().items() if price is not None}


class _ClusterFile(_Strict):
    nodes: list[_Nodes] = Field(min_length=1)
    tenants: list[_Tenant] = []
    prices: dict[TypeName, _Prices] = {}


_FIELDS: Mapping[str, tuple[str, ...]] = {
    "": tuple(_ClusterFile.model_fields),
    "nodes": tuple(_Nodes.model_fields),
    "tenants": tuple(_Tenant.model_fields),
    "cells": tuple(_Cell.model_fields),
    "prices": tuple(_Prices.model_fields),
}


def load_cluster(path: str | PathLike[str]) -> Cluster:
    """The cluster that a YAML file describes.

    Raises `InputError` naming file, row and field of the first thing that is not as docs/cluster.md says.
    """
    file = Path(path)
    tree, values = _parse(file)
    try:
        content = _ClusterFile.model_validate(values)
    except ValidationError as error:
        where, problem = _explain(error)
        raise InputError.at(problem, file=file, row=_row_of(tree, where)) from None
    _check_tenants(content, file, tree)
    try:
        shapes = [nodes.shape() for nodes in content.nodes]
        tenants = Tenants.of(*(tenant.tenant() for tenant in content.tenants))
        prices = {gpu_type: classes.classes() for gpu_type, classes in content.prices.items()}
        cluster = Cluster.build(shapes, tenants, prices)
        check_cells(cluster)
    except InputError as error:
        raise InputError.at(str(error), file=file) from None
    return cluster


def _parse(file: Path) -> tuple[yaml.Node, object]:
    """The file as a tree of YAML nodes, which know their rows, and as plain values."""
    try:
        text = file.read_text(encoding="utf-8")
        tree, values = yaml.compose(text, Loader=yaml.SafeLoader), yaml.safe_load(text)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InputError.at(f"cannot read the cluster file: {reason}", file=file) from None
    except (yaml.YAMLError, RecursionError) as error:  # the latter where it is nested too deep
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "something is misplaced"
        row = mark.line + 1 if mark else None
        raise InputError.at(f"this is not YAML: {problem}", file=file, row=row) from None
    if not isinstance(tree, yaml.MappingNode):
        raise InputError.at("this describes no cluster", file=file, expected="a list under `nodes:`")
    refuse_twice(tree, file)
    return tree, values


def _explain(error: ValidationError) -> tuple[Location, str]:
    """Place and message of the first problem that pydantic reports, in our words.

    A misspelt name leaves its field missing; the name is then what matters.
    """
    first: Any = min(error.errors(), key=lambda one: one["type"] != "extra_forbidden")
    where: Location = first["loc"]
    name = _name(where)
    if first["type"] == "extra_forbidden":
        known = _FIELDS["cells" if "cells" in where[:-1] else str(where[0]) if len(where) > 1 else ""]
        near = get_close_matches(str(where[-1]), known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"expected one of {', '.join(known)}"
        return where, f"{name} is not a field of a cluster file; {hint}"
    if first["type"] == "missing":
        return where, f"{name} is missing"
    if first["type"] == "too_short":
        return where, f"{name} is empty; expected at least one entry"
    if first["type"] == "value_error":
        return where, f"{name}: {first['ctx']['error']}"
    return where, f"{name} is {first['input']!r}; {first['msg'].replace('Input should', 'it should')}"


def _name(where: Location) -> str:
    """`nodes[0].gpus`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in where)
    return text.removeprefix(".")


def _row_of(node: yaml.Node, where: Location) -> int:
    """Row of the deepest part of `where` that is in the file."""
    row = node.start_mark.line + 1
    for part in where:
        if isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            node = node.value[part]
            row = node.start_mark.line + 1
        elif isinstance(node, yaml.MappingNode):
            pair = next(((key, value) for key, value in node.value if key.value == part), None)
            if pair is None:
                break
            row, node = pair[0].start_mark.line + 1, pair[1]
    return row


def _check_tenants(content: _ClusterFile, file: Path, tree: yaml.Node) -> None:
    """Refuse a tenant given twice and quotas on GPU types that no node has."""
    types = {nodes.type for nodes in content.nodes}
    for gpu_type in content.prices.keys() - types:
        raise InputError.at(
            f"prices names {gpu_type}, which no node has; the nodes have {', '.join(sorted(types))}",
            file=file,
            row=_row_of(tree, ("prices", gpu_type)),
        )
    _check_classes(content, file, tree)
    seen: set[str] = set()
    for number, tenant in enumerate(content.tenants):
        if tenant.path in seen:
            row = _row_of(tree, ("tenants", number, "path"))
            raise InputError.at(f"tenant {tenant.path} is given twice", file=file, row=row)
        seen.add(tenant.path)
        for gpu_type in tenant.quota_by_type.keys() - types:
            near = get_close_matches(gpu_type, types, n=1)
            hint = f"did you mean {near[0]}?" if near else f"the nodes have {', '.join(sorted(types))}"
            row = _row_of(tree, ("tenants", number, "quota_by_type", gpu_type))
            raise InputError.at(
                f"tenants[{number}].quota_by_type names {gpu_type}, which no node has; {hint}",
                file=file,
                row=row,
            )


def _check_classes(content: _ClusterFile, file: Path, tree: yaml.Node) -> None:
    """Refuse nodes of a class for which the prices of their type have none."""
    for number, nodes in enumerate(content.nodes):
        stated = content.prices[nodes.type].classes() if nodes.type in content.prices else {}
        if nodes.price_class and nodes.price_class not in stated:
            raise InputError.at(
                f"nodes[{number}].price_class is {nodes.price_class}, and prices has no such of {nodes.type}",
                file=file,
                row=_row_of(tree, ("nodes", number, "price_class")),
            )
