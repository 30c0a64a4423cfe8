"""Measured costs, summed up for whoever simulates this cluster."""

from __future__ import annotations

from rota.server.store.rows import CostRow
from rota.server.views import cost_views
from rota.wire.views import CostView


def row(kind: str, seconds: float, workload: str = "", moved: float = 0.0) -> CostRow:
    return CostRow(workload, "t", kind, seconds, moved, 0.0)


def test_medians_of_all_jobs_first_and_then_by_workload() -> None:
    rows = [row("start", 1.0), row("start", 9.0, "bert"), row("start", 2.0), row("leave", 4.0, "bert", 100.0)]
    assert cost_views(rows) == [
        CostView(kind="leave", count=1, seconds=4.0, bytes=100.0),
        CostView(kind="start", count=3, seconds=2.0),
        CostView(kind="leave", workload="bert", count=1, seconds=4.0, bytes=100.0),
        CostView(kind="start", workload="bert", count=1, seconds=9.0),
    ]


def test_bytes_count_where_any_were_moved() -> None:
    rows = [row("suspend", 1.0), row("suspend", 1.0, moved=8.0), row("suspend", 1.0, moved=16.0)]
    assert cost_views(rows)[0].bytes == 12.0


def test_nothing_measured_is_no_view() -> None:
    assert cost_views([]) == []
