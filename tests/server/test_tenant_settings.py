"""Tenants as people write them: read, written down again, compared; and which of two writings counts."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from new_store import put_new_store
from rota.errors import InputError
from rota.model.tenants import CellQuota, Tenant, Tenants
from rota.server.store.store import Store
from rota.server.tenants.in_force import FACT, TenantsInForce, begin, moved, on_record
from rota.server.tenants.settings import changes, parse_tenants, plain_tenants

WHOLE = {
    "vision": {"quota": 32, "hard": "yes", "weight": 2, "quota_by_type": {"A100": 4}},
    "vision/ann": None,
    "lab": {
        "cells": [{"level": "node", "count": 2, "type": "A100", "gpus": 8}, {"level": "node", "at": "n3"}]
    },
}
READ = Tenants.of(
    Tenant("vision", 32, True, 2.0, {"A100": 4.0}),
    Tenant("vision/ann"),
    Tenant("lab", cells=(CellQuota("node", 2, "A100", 8), CellQuota("node", 1, at="n3"))),
)
WRONG: list[tuple[Any, str]] = [
    (5, "expected paths with settings"),
    (["vision"], "expected paths with settings"),
    ({"": {}}, "tenant '' needs a path such as vision/ann"),
    ({"a//b": {}}, "names with single slashes between"),
    ([{"path": "a"}, {"path": "a"}], "tenant 'a' is named twice"),
    ({"a": 5}, "a: 5 is no setting; expected quota, hard, weight, quota_by_type or cells"),
    ({"a": {"qouta": 5}}, "a: 'qouta' is no setting; did you mean quota?"),
    ({"a": {"quota": "many"}}, "a: quota: 'many' is wrong; expected a number, 0 or more"),
    ({"a": {"quota": True}}, "a: quota: True is wrong"),
    ({"a": {"quota": -1}}, "a: quota: -1 is wrong"),
    ({"a": {"quota": math.nan}}, "a: quota: nan is wrong"),
    ({"a": {"quota": 10**400}}, "a: quota: 1000.* is wrong; expected a number, 0 or more"),
    ({"a": {"weight": 10**400}}, "a: weight: 1000.* is wrong"),
    ({"a": {"weight": 0}}, "a: weight: 0 is wrong; expected a number above 0"),
    ({"a": {"weight": math.inf}}, "a: weight: inf is wrong"),
    ({"a": {"hard": "perhaps"}}, "a: hard: 'perhaps' is wrong; expected yes or no"),
    ({"a": {"quota_by_type": ["A100"]}}, "a: quota_by_type: .* expected GPUs by type"),
    ({"a": {"quota_by_type": {"A100": "all"}}}, "a: quota_by_type: A100: 'all' is wrong"),
    (
        {"a": {"cells": [{"level": ""}]}},
        "a: cells: .* is no cell; .* or one of the setting",
    ),
    ({"a": {"cells": [{"level": "node", "count": 0}]}}, "a: cells: .* is no cell"),
    ({"a": {"cells": [{"level": "node", "count": 10**400}]}}, "a: cells: .* is no cell"),
    ({"a": {"cells": [{"level": "node", "gpus": 10**400}]}}, "a: cells: .* is no cell"),
    (
        {"a": {"cells": [{"level": "node", "coutn": 1}]}},
        "a: cells: 'coutn' is no setting; did you mean count?",
    ),
    ({"a": {"cells": "node"}}, "a: cells: 'node' is no cell"),
]


@pytest.mark.parametrize(
    "said", [WHOLE, [{"path": path, **(fields or {})} for path, fields in WHOLE.items()]]
)
def test_as_in_the_configuration_and_as_in_a_cluster_file(said: Any) -> None:
    assert parse_tenants(said) == READ
    assert parse_tenants(plain_tenants(READ)) == READ


@pytest.mark.parametrize(("said", "sentence"), WRONG)
def test_what_is_wrong_is_named_with_its_place(said: Any, sentence: str) -> None:
    with pytest.raises(
        InputError, match=f"^new.yaml: tenants: .*{sentence}" if sentence[0] != "e" else sentence
    ):
        parse_tenants(said, "new.yaml: tenants")


def test_what_another_writing_changes() -> None:
    new = Tenants.of(
        Tenant("vision", 24, True, 2.0, {"A100": 4.0}),
        Tenant("lab", cells=(CellQuota("node", 1, "A100"),)),
        Tenant("speech", weight=3.0),
    )
    assert changes(READ, READ) == []
    assert changes(READ, new) == [
        "lab: cells 2 nodes of A100 with 8 GPUs, node n3 to 1 node of A100",
        "speech: weight 1 to 3",
        "vision: quota 32 to 24",
    ]


@pytest.fixture
def store(tmp_path: Path) -> Any:
    put_new_store(tmp_path)
    opened = Store.open(None, tmp_path)
    yield opened
    opened.close()


def in_force(store: Store) -> Tenants | None:
    kept = on_record(store.facts())
    return None if kept is None else kept.tenants


def test_whichever_was_said_last_counts(store: Store) -> None:
    """What was moved holds over restarts until the configuration is written anew."""
    old, applied, edited = (Tenants.of(Tenant("a", quota)) for quota in (4, 8, 16))
    begin(store, old, 1.0, "admin")
    assert in_force(store) == old
    store.commit(moved(TenantsInForce(applied, old, 2.0, "ann"), on_record(store.facts()), "ann"))
    begin(store, old, 3.0, "admin")
    assert in_force(store) == applied
    begin(store, edited, 4.0, "admin")
    assert in_force(store) == edited
    said = [event.text for event in store.events() if event.kind == FACT]
    assert said == ["a: quota none to 4", "a: quota 4 to 8", "a: quota 8 to 16"]


def test_a_cluster_without_tenants_notes_none(store: Store) -> None:
    begin(store, Tenants.none(), 1.0, "admin")
    assert in_force(store) is None
    assert not store.events()


def test_a_note_that_cannot_be_read_is_written_anew(store: Store) -> None:
    store.set_fact(FACT, {"said": 5})
    with pytest.raises(InputError, match="tenants on record cannot be read"):
        on_record(store.facts())
    begin(store, READ, 1.0, "admin")
    assert in_force(store) == READ
