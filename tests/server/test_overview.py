"""What the cluster's one view says of its database and of its nodes."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from site_play import Site
from store_place import node_info

from rota.server.overview import MOST_NAMES, Overview, drained
from rota.server.store.failures import StoreError
from rota.server.store.rows import NodeRow

BY_ANN, BY_ROTA = {"drained_by": "ann", "reason": "fan"}, {"drained_by": "autoscale"}


def nodes(*said: dict[str, str] | None) -> list[NodeRow]:
    """Machines n0, n1, …: up, or drained with what was said."""
    rows = [NodeRow(i, f"n{i}", node_info(f"n{i}"), "up", 2 * i, 0.0) for i in range(len(said))]
    return [
        row if of is None else replace(row, state="drained", **of) for row, of in zip(rows, said, strict=True)
    ]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ((), []),
        ((None, None), []),
        ((None, {}), ["n1"]),
        ((BY_ANN,), ["n0 (by ann: fan)"]),
        ((BY_ANN, BY_ROTA, BY_ANN), ["n0, n2 (by ann: fan)", "n1 (by autoscale)"]),
        (({"reason": "fan"},), ["n0 (fan)"]),
    ],
)
def test_drained_nodes_are_named(said: tuple[dict[str, str] | None, ...], expected: list[str]) -> None:
    assert drained(nodes(*said)) == expected


def test_not_more_names_than_can_be_read() -> None:
    [line] = drained(nodes(*[{}] * (MOST_NAMES + 2)))
    assert line.endswith(f"n{MOST_NAMES - 1}, 2 more")


def spoil(file: Path, table: str) -> None:
    """Overwrite the page at the root of a table, as a bad disk or another program may."""
    with closing(sqlite3.connect(file)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        [(root,)] = database.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,))
        [(size,)] = database.execute("PRAGMA page_size")
    with file.open("r+b") as raw:
        raw.seek((root - 1) * size)
        raw.write(b"\xa5" * size)


def test_damage_that_any_call_meets_is_shown(tmp_path: Path) -> None:
    """Also while the pages that the view itself reads are whole; with what is to be done."""
    site = Site(tmp_path, {"n0": 2}, "fifo")
    site.turn()
    overview = Overview("c", site.store, site.scheduler, SimpleNamespace(troubles=list))  # type: ignore[arg-type]
    assert overview.health() == ""
    spoil(tmp_path / "rota.db", "costs")
    assert overview.status().troubles == []
    with pytest.raises(StoreError, match="is damaged"):
        site.store.costs()
    [trouble] = overview.status().troubles
    assert "is damaged (database disk image is malformed); put a copy of it in its place" in trouble
    assert overview.health() == "the store is damaged; `rota status` says how"
    site.scheduler.failing.failed(StoreError(site.store.damage))
    assert overview.status().troubles == [site.scheduler.trouble]  # once is enough
