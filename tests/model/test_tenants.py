"""Tenants: a tree of paths."""

from __future__ import annotations

import math

from rota.model.tenants import Tenant, Tenants

TREE = Tenants.of(Tenant("vision", 32), Tenant("vision/alice", 8, hard=True), Tenant("speech", 16, weight=2))


def test_a_job_counts_against_every_configured_ancestor() -> None:
    assert [t.path for t in TREE.lineage("vision/alice/night")] == ["vision/alice", "vision"]
    assert [t.path for t in TREE.lineage("vision/bob")] == ["vision"]
    assert TREE.lineage("unknown") == ()
    assert TREE.lineage("visionary") == (), "a prefix of letters is not a parent"


def test_a_tenant_nobody_configured_has_no_quota() -> None:
    assert TREE.get("vision/bob") == Tenant("vision/bob", math.inf, hard=False, weight=1.0)
    assert TREE.get("speech").weight == 2


def test_parents_and_emptiness() -> None:
    assert Tenant("vision/alice").parent == "vision"
    assert Tenant("vision").parent == ""
    assert not Tenants.none()
    assert TREE
