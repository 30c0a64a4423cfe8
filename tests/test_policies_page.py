"""docs/policies.md names everything that a decision may say, and nothing that is not there."""

from __future__ import annotations

import re
from dataclasses import fields
from importlib import import_module
from pathlib import Path

from rota.knowledge.needs import Knowledge
from rota.knowledge.registry import Where, kinds
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


def test_what_is_imported_is_there() -> None:
    """`from rota… import Name`, in running text and in examples."""
    imports = re.findall(r"from (rota[\w.]*) import (\w+)", PAGE)
    assert imports
    assert [f"{module}.{name}" for module, name in imports if not hasattr(import_module(module), name)] == []
    assert "Knowledge" in {name for _, name in imports}


def test_what_no_live_policy_may_need_is_named() -> None:
    """docs/live.md: all other kinds of knowledge have a provider there."""
    import_module("rota.knowledge")
    live = (Path(__file__).parents[1] / "docs/live.md").read_text(encoding="utf-8")
    named = re.search(r"one that needs anything\nelse \(([^)]*)\) is refused", live)
    assert named is not None
    refused = {kind.value for kind in Knowledge} - {kind.value for kind in kinds(Where.LIVE)}
    assert set(re.findall(r"`(\w+)`", named[1])) == refused
