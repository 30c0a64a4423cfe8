"""docs/policies.md names everything that a decision may say, and nothing that is not there."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from rota.model.cluster import Cluster
from rota.scheduler.decision import Decision
from rota.scheduler.snapshot import Snapshot
from rota.scheduler.snapshot_jobs import SnapshotJobs

PAGE = (Path(__file__).parents[1] / "docs/policies.md").read_text(encoding="utf-8")


def test_every_field_of_a_decision_is_named() -> None:
    table = PAGE[PAGE.index("## What it answers") : PAGE.index("## What is said of a mistake")]
    named = {
        name for row in re.findall(r"^\| (`[^|]*) \|", table, re.M) for name in re.findall(r"`(\w+)`", row)
    }
    assert named == {field.name for field in fields(Decision)}


def test_what_is_named_of_a_snapshot_is_there() -> None:
    for owner, prefix in ((Snapshot, "snapshot"), (SnapshotJobs, "jobs")):
        names = set(re.findall(rf"\b{prefix}\.([a-z]\w*)", PAGE)) - {"csv"}
        assert len(names) > 5
        assert names <= set(dir(owner))
    cluster = re.search(r"`snapshot.cluster`: (.*), …", PAGE)
    assert cluster is not None
    assert set(re.findall(r"`(\w+)`", cluster[1])) <= {field.name for field in fields(Cluster)}
