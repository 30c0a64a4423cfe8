"""`rota tenants apply`: what is sent, what is said of the answer, and which files are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from live_play import MOVED, Canned
from shell_play import rota

NEW = "tenants:\n  vision: {quota: 24, cells: [{level: node, count: 2}]}\n  speech:\n"


def test_what_would_come_of_it(cluster: Canned, tmp_path: Path) -> None:
    cluster.replies["PUT /v1/tenants"] = MOVED
    (tmp_path / "new.yaml").write_text(NEW)
    done = rota("tenants", "apply", str(tmp_path / "new.yaml"), "--dry-run")
    assert done.status == 0, done.err
    assert done.out.splitlines() == [
        "speech: cells 2 nodes of V100 to 1 node of V100",
        "note: vision: those below it have quotas of 40 in all, and it has 32 GPUs",
        "job 17 of speech would be preempted by hived",
    ]
    said = {"vision": {"quota": 24.0, "cells": [{"level": "node", "count": 2}]}, "speech": {}}
    assert [asked.body for asked in cluster.asked] == [{"tenants": said, "dry_run": True, "yes": False}]


@pytest.mark.parametrize(
    ("changes", "applied", "said"),
    [
        ([], True, ["these tenants count already"]),
        (["a: quota 1 to 2"], True, ["a: quota 1 to 2", "no job is worse off by it", "applied"]),
    ],
)
def test_what_is_done(
    cluster: Canned, tmp_path: Path, changes: list[str], applied: bool, said: list[str]
) -> None:
    cluster.replies["PUT /v1/tenants"] = {"applied": applied, "changes": changes}
    (tmp_path / "c.yaml").write_text("policy: fifo\n" + NEW)
    assert rota("tenants", "apply", str(tmp_path / "c.yaml"), "--yes").out.splitlines() == said
    assert cluster.asked[0].body["yes"] is True


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "there is no such file; expected a YAML file"),
        ("policy: fifo", "names no tenants; expected `tenants:` with paths, such as `vision: {quota: 32}`"),
        ("tenants: [vision", "is not YAML (while parsing a flow sequence); expected lines such as"),
        ("tenants: {a: {qouta: 1}}", "tenants: a: 'qouta' is no setting; did you mean quota?"),
        (
            "tenants: {a: {cells: [{level: 3}]}}",
            "tenants: a: cells: {'level': 3} is no cell; expected",
        ),
    ],
)
def test_a_file_that_will_not_do_is_named_with_its_field(
    cluster: Canned, tmp_path: Path, text: str | None, sentence: str
) -> None:
    path = tmp_path / "new.yaml"
    if text is not None:
        path.write_text(text)
    done = rota("tenants", "apply", str(path))
    assert (done.status, done.out, cluster.asked) == (2, "", [])
    assert done.err.startswith(f"rota: {path}: {sentence}"), done.err
    assert done.err.count("\n") == 1
