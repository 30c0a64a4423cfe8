"""Records that cannot be read: what they are about is set aside and named, all else goes on."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from site_play import Site

from rota.wire.sync import DeviceInfo, SyncRequest
from rota.worlds.live.inbox import ReportTold

ROW_1 = "where row = 1"
ENDS, STAYS = "COMPLETED", "PENDING"
DAMAGES = {
    "memory of a node that is no number": (
        "update nodes set info = json_set(info, '$.memory_gib', null) where name = 'n0'",
        "the record of node n0 cannot be read in whole: memory_gib is None",
        ENDS,
    ),
    "device of a node out of range": (
        "update nodes set info = json_set(info, '$.devices[0].index', 70000) where name = 'n0'",
        "the record of node n0 cannot be read in whole: devices.0.index is 70000",
        ENDS,
    ),
    "no record of a node": (
        "update nodes set info = 'gone' where name = 'n0'",
        "the record of node n0 cannot be read in whole",
        ENDS,
    ),
    "specification": (
        "update specs set text = '{}' where number = (select spec from jobs where row = 1)",
        "job 2 is set aside until it is cancelled: its specification cannot be read: command is {}",
        STAYS,
    ),
    "holds": (f"update jobs set hold = '{{' {ROW_1}", "job 2 is set aside", STAYS),
    "a hold of no kind": (
        f"""update jobs set hold = '[{{"kind": "moon"}}]' {ROW_1}""",
        "job 2 is set aside",
        STAYS,
    ),
    "what was measured": (f"update jobs set measured = '[1]' {ROW_1}", "job 2 is set aside", STAYS),
    "a number that is text": (
        f"update jobs set gpus = 'two' {ROW_1}",
        "gpus is 'two', which is no",
        STAYS,
    ),
    "a negative run time": (
        f"update jobs set run_s = -35.0, service = -70.0 {ROW_1}",
        "run_s on record cannot be: -35 of job 2; they count as 0",
        ENDS,
    ),
    "an infinite run time": (
        f"update jobs set run_s = 9e999 {ROW_1}",
        "run_s on record cannot be",
        ENDS,
    ),
    "a grant": (f"update attempts set \"grant\" = '[' {ROW_1}", "job 2 is set aside", STAYS),
    "the parts of an attempt": (
        f"update attempts set parts = '{{}}' {ROW_1}",
        "'places' is missing",
        STAYS,
    ),
    "an order that is none": (f"update attempts set wanted = 'dance' {ROW_1}", "'dance' is not a", STAYS),
    "progress that is none": (
        f"""update attempts set progress = '{{"steps": -5}}' {ROW_1}""",
        "steps is -5",
        STAYS,
    ),
    "the policy's memory": (
        "update policies set memory = x'0102'",
        "policy's memory cannot be read",
        ENDS,
    ),
    "the policy's wish": ("update policies set wake = '[1]'", "wish to be woken cannot be read", ENDS),
    "reservations": (
        "update policies set reservations = '[[1]]'",
        "reservations cannot be read",
        ENDS,
    ),
    "a command": (
        "insert into commands (at_s, user, kind, args) values (1.0, 'u', 'cancel', '{')",
        "command 1: args cannot be read",
        ENDS,
    ),
}


@pytest.mark.parametrize(("sql", "said", "state"), DAMAGES.values(), ids=list(DAMAGES))
def test_one_bad_record_never_keeps_a_controller_from_starting(
    tmp_path: Path, sql: str, said: str, state: str
) -> None:
    """The second of three jobs runs when the controller is killed and its database is damaged."""
    site = Site(tmp_path, {"n0": 2, "n1": 2})
    rows = [site.submit(20.0) for _ in range(3)]
    while site.store.job(rows[1]).now.state != "RUNNING":  # type: ignore[union-attr]
        site.turn()
    site.store.close()
    with sqlite3.connect(tmp_path / "rota.db") as database:
        assert database.execute(sql).rowcount > 0
    database.close()
    site.kill_controller()
    site.turn()
    assert [one for one in site.scheduler.troubles() if said in one], site.scheduler.troubles()
    states: dict[int, str] = {}
    for _ in range(400):
        site.turn()
        states = {row.row: row.now.state for row in site.store.jobs()}
        if list(states.values()).count(ENDS) == (3 if state == ENDS else 2):
            break
    assert states == {rows[0]: "COMPLETED", rows[1]: state, rows[2]: "COMPLETED"}
    if state == STAYS:
        site.command("cancel", rows[1])
        site.turn()
        assert site.store.job(rows[1]).now.state == "CANCELLED"  # type: ignore[union-attr]
        site.kill_controller()
        site.turn()
        assert not site.scheduler.trouble


def test_jobs_that_no_step_has_seen_are_set_aside_as_well(tmp_path: Path) -> None:
    """They keep their rows: those behind them arrive at theirs."""
    site = Site(tmp_path, {"n0": 2})
    site.turn()
    rows = [site.submit(2.0, name=name) for name in "abc"]
    site.store.close()
    with sqlite3.connect(tmp_path / "rota.db") as database:
        database.execute("update specs set text = 'no' where number = (select spec from jobs where row = 1)")
    database.close()
    site.kill_controller()
    for _ in range(200):
        site.turn()
    assert [site.store.job(row).now.state for row in rows] == ["COMPLETED", "PENDING", "COMPLETED"]  # type: ignore[union-attr]


def test_devices_that_a_node_has_not_are_nobodys(tmp_path: Path) -> None:
    site = Site(tmp_path, {"n0": 2, "n1": 2})
    row = site.submit(5.0, gpus=4)
    site.turn()
    sick = DeviceInfo(index=3, type="cpu", healthy=False, why="XID 79")
    site.inbox.put(ReportTold("n0", SyncRequest(incarnation="x", seen=0, controller="", devices=[sick])))
    site.run()
    assert site.store.job(row).now.state == "COMPLETED"  # type: ignore[union-attr]
    assert not site.scheduler.trouble
