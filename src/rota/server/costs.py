"""What agents have measured, summed up by kind and workload."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

from rota.server.store.rows import CostRow
from rota.wire.views import CostView


def cost_views(rows: Iterable[CostRow]) -> list[CostView]:
    """Medians of each kind: of all jobs first, then of each workload that has a name."""
    groups: dict[tuple[str, str], list[CostRow]] = {}
    every: dict[str, list[CostRow]] = {}
    for row in rows:
        every.setdefault(row.kind, []).append(row)
        if row.workload:
            groups.setdefault((row.kind, row.workload), []).append(row)
    views = [_view(kind, None, of_kind) for kind, of_kind in sorted(every.items())]
    return views + [_view(*group, of_group) for group, of_group in sorted(groups.items())]


def _view(kind: str, workload: str | None, rows: list[CostRow]) -> CostView:
    moved = [row.bytes for row in rows if row.bytes]
    return CostView(
        kind=kind,
        workload=workload,
        count=len(rows),
        seconds=median(row.seconds for row in rows),
        bytes=median(moved) if moved else 0.0,
    )
