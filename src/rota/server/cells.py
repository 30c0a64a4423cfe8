"""Cells of tenants, as the configuration of a live cluster names them."""

from __future__ import annotations

from typing import Any

from rota.errors import InputError
from rota.model.cluster import DEVICE, NODE
from rota.model.tenants import Cell


def cells_of(said: Any, where: str) -> tuple[Cell, ...]:
    """Units that a tenant is entitled to as a whole: `[{level: node, count: 2, type: V100}]`.

    A live cluster has the levels `node` and `device`: machines come and go, and say of none above or between.
    """
    levels, cells = (NODE, DEVICE), []
    for one in said if isinstance(said, list) else [said]:
        is_form = isinstance(one, dict) and {"level", "count"} <= set(one) <= {"level", "count", "type"}
        if not is_form or one["level"] not in levels or type(one["count"]) is not int or one["count"] < 1:
            raise InputError(
                f"{where}: {one!r} is no cell; expected {{level: node, count: 2}}, level node or device, "
                "and a type if only some will do"
            )
        cells.append(Cell(one["level"], one["count"], str(one.get("type", ""))))
    return tuple(cells)
