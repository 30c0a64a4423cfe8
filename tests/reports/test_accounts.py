"""Accounts above their tenants: every job once, whatever the depth."""

from __future__ import annotations

from report_toys import Row, record

from rota.reports.compare import compare
from rota.reports.groups import group_tables
from rota.reports.summary import summarise

TENANTS = {"lab": 1, "lab/ann": 2, "lab/bob": 4, "ops/x/cron": 3, "ops/x/web": 5, "solo/one": 1, "": 1}
"""Jobs by tenant; each waits ten seconds for every job of its tenant."""


def test_accounts_are_rolled_up() -> None:
    rows: list[Row] = [
        {"submit_s": 0.0, "start_s": 10.0 * n, "finish_s": 99.0, "waiting_s": 10.0 * n, "gpus": 1}
        | {"service_gpu_s": 1.0, "tenant": name}
        for name, n in TENANTS.items()
        for _ in range(n)
    ]
    summary = summarise(record(rows))
    assert {name: of["jobs"] for name, of in summary.accounts.items()} == {"lab": 7, "ops": 8, "ops/x": 8}
    assert summary.accounts["lab"]["mean_waiting_s"] == 10 * (1 + 4 + 16) / 7
    table = group_tables(compare([summary]), "tenants")[0]
    assert [(row.name, row.jobs, row.parent) for row in table.rows] == [
        ("ops", 8, ""),
        ("ops/x", 8, "ops"),
        ("ops/x/web", 5, "ops/x"),
        ("ops/x/cron", 3, "ops/x"),
        ("lab", 7, ""),
        ("lab/bob", 4, "lab"),
        ("lab/ann", 2, "lab"),
        ("lab", 1, "lab"),
        ("(none)", 1, ""),
        ("solo/one", 1, ""),
    ]
    assert sum(row.jobs for row in table.rows if not row.parent) == len(rows)
    assert [row.children for row in table.rows if row.children] == [2, 2, 3]
