"""Tenants of a live cluster, as users write them down: quotas, weights and cells by path.

They are read when the controller starts, when they are changed on a running cluster, and from the store.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from rota.errors import InputError
from rota.model.tenants import CellQuota, Tenant, Tenants
from rota.model.units import plural
from rota.wire.job import check_tenant

SETTINGS = ("quota", "hard", "weight", "quota_by_type", "cells")
OLD_NAMES = {"by_type": "quota_by_type"}
"""Former names of settings, which are still read."""
MOST_UNITS = 10_000
"""Of a tenant's cell, and devices of each."""
CELL = ("level", "count", "type", "gpus", "at")
_WORDS = {
    "yes": True,
    "true": True,
    "on": True,
    "1": True,
    "no": False,
    "false": False,
    "off": False,
    "0": False,
}


def parse_tenants(said: Any, where: str = "tenants") -> Tenants:
    """The tenants of a mapping by path, or of a list with paths as cluster files have it.

    InputError names what is wrong in one sentence that begins with `where`, the file and its field.
    """
    return Tenants.of(*(_tenant(path, fields, f"{where}: {path}") for path, fields in _by_path(said, where)))


def _by_path(said: Any, where: str) -> list[tuple[str, dict[str, Any]]]:
    if isinstance(said, list) and all(isinstance(one, dict) and "path" in one for one in said):
        pairs = [(one["path"], {key: one[key] for key in one if key != "path"}) for one in said]
    elif isinstance(said, dict):
        pairs = list(said.items())
    else:
        raise InputError(
            f"{where}: expected paths with settings, such as `vision: {{quota: 32, hard: true}}`"
        )
    for number, (path, fields) in enumerate(pairs):
        try:
            check_tenant(str(path))
        except ValueError as error:
            raise InputError(f"{where}: {error}") from None
        if not str(path) or any(str(path) == str(other) for other, _ in pairs[:number]):
            problem = "is named twice" if path else "needs a path such as vision/ann"
            raise InputError(f"{where}: tenant {str(path)!r} {problem}")
        if not isinstance(fields or {}, dict):
            raise InputError(f"{where}: {path}: {fields!r} is no setting; expected {_listed(SETTINGS)}")
    return [(str(path), dict(fields or {})) for path, fields in pairs]


def _tenant(path: str, fields: Mapping[str, Any], where: str) -> Tenant:
    said = {OLD_NAMES.get(str(name), str(name)): value for name, value in fields.items()}
    for name in said:
        _known(name, SETTINGS, where)
    weight = _amount(said.get("weight", 1.0), f"{where}: weight")
    if not 0.0 < weight < math.inf:
        raise InputError(f"{where}: weight: {said['weight']!r} is wrong; expected a number above 0")
    by_type = said.get("quota_by_type") or {}
    if not isinstance(by_type, dict):
        raise InputError(f"{where}: quota_by_type: {by_type!r} is wrong; expected GPUs by type: {{A100: 4}}")
    return Tenant(
        path=path,
        quota_gpus=_amount(said.get("quota", math.inf), f"{where}: quota"),
        hard=yes_or_no(said.get("hard", False), f"{where}: hard"),
        weight=weight,
        quota_by_type={
            str(kind): _amount(gpus, f"{where}: quota_by_type: {kind}") for kind, gpus in by_type.items()
        },
        cells=_cells(said.get("cells") or [], f"{where}: cells"),
    )


def _cells(said: Any, where: str) -> tuple[CellQuota, ...]:
    """Units that a tenant is entitled to as a whole: `[{level: node, count: 2, type: V100}]`.

    Which levels there are beside `node` and `device` says the setting `layout` (`tenants.layout`).
    """
    return tuple(_cell(one, where) for one in (said if isinstance(said, list) else [said]))


def _cell(said: Any, where: str) -> CellQuota:
    fields = said if isinstance(said, dict) else {}
    for name in fields:
        _known(str(name), CELL, where)
    level, count, gpus = fields.get("level"), _whole(fields.get("count", 1)), _whole(fields.get("gpus", 0))
    whole = type(count) is int and 1 <= count <= MOST_UNITS and type(gpus) is int and 0 <= gpus <= MOST_UNITS
    if not isinstance(level, str) or not level or not whole:
        raise InputError(
            f"{where}: {said!r} is no cell; expected {{level: node, count: 2}}, level node, device or one "
            "of the setting `layout`, and a type if only some will do"
        )
    return CellQuota(level, count, str(fields.get("type") or ""), gpus, str(fields.get("at") or ""))


def _whole(said: Any) -> Any:
    """`2.0`, as JSON may have it, as 2; anything else as it is."""
    return int(said) if isinstance(said, float) and said.is_integer() else said


def _known(name: str, names: Sequence[str], where: str) -> None:
    if name not in names:
        close = get_close_matches(name, names, n=1)
        hint = f"did you mean {close[0]}?" if close else f"expected {_listed(names)}"
        raise InputError(f"{where}: {name!r} is no setting; {hint}")


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


def _amount(said: Any, where: str) -> float:
    """GPUs: a number that may be infinite."""
    try:
        amount = math.nan if isinstance(said, bool) else float(said)
    except (TypeError, ValueError, OverflowError):
        amount = math.nan
    if math.isnan(amount) or amount < 0:
        raise InputError(f"{where}: {said!r} is wrong; expected a number, 0 or more")
    return amount


def yes_or_no(said: Any, where: str) -> bool:
    """The value of a setting in words; InputError, which begins with `where`, for other words."""
    answer = _WORDS.get(str(said).lower())
    if answer is None:
        raise InputError(f"{where}: {said!r} is wrong; expected yes or no")
    return answer


# -- written down ------------------------------------------------------------------------------------


def plain_tenants(tenants: Tenants) -> dict[str, dict[str, Any]]:
    """JSON values that `parse_tenants` reads; tenants with equal meaning give equal values."""
    return {path: _plain(tenant) for path, tenant in sorted(tenants.by_path.items())}


def _plain(tenant: Tenant) -> dict[str, Any]:
    said: dict[str, Any] = {} if tenant.quota_gpus == math.inf else {"quota": float(tenant.quota_gpus)}
    if tenant.hard:
        said["hard"] = True
    if tenant.weight != 1.0:
        said["weight"] = float(tenant.weight)
    bounded = {kind: float(gpus) for kind, gpus in tenant.quota_by_type.items() if gpus < math.inf}
    if bounded:
        said["quota_by_type"] = bounded
    if tenant.cells:
        said["cells"] = [_plain_cell(cell) for cell in tenant.cells]
    return said


def _plain_cell(cell: CellQuota) -> dict[str, Any]:
    optional = {"type": cell.gpu_type, "gpus": cell.gpus, "at": cell.at}
    return {"level": cell.level, "count": cell.count} | {name: v for name, v in optional.items() if v}


def changes(before: Tenants, after: Tenants) -> list[str]:
    """The changes as sentences: `vision: quota 32 to 24`."""
    said = []
    for path in sorted({*before.by_path, *after.by_path}):
        old, new = before.get(path), after.get(path)
        changed = [
            f"{name} {old_text} to {new_text}"
            for (name, old_text), (_, new_text) in zip(_in_words(old), _in_words(new), strict=True)
            if old_text != new_text
        ]
        if changed:
            said.append(f"{path}: {', '.join(changed)}")
    return said


def _in_words(tenant: Tenant) -> list[tuple[str, str]]:
    by_type = ", ".join(f"{gpus:g} {kind}" for kind, gpus in sorted(tenant.quota_by_type.items()))
    return [
        ("quota", "none" if tenant.quota_gpus == math.inf else f"{tenant.quota_gpus:g}"),
        ("hard", "yes" if tenant.hard else "no"),
        ("weight", f"{tenant.weight:g}"),
        ("quota by type", by_type or "none"),
        ("cells", cells_in_words(tenant.cells) or "none"),
    ]


def cells_in_words(cells: Sequence[CellQuota]) -> str:
    """`2 nodes of A100, node n3`."""
    return ", ".join(_cell_in_words(cell) for cell in cells)


def _cell_in_words(cell: CellQuota) -> str:
    if cell.at:
        return f"{cell.level} {cell.at}"
    size = f" with {plural(cell.gpus, 'GPU')}" if cell.gpus else ""
    return plural(cell.count, cell.level) + (f" of {cell.gpu_type}" if cell.gpu_type else "") + size
