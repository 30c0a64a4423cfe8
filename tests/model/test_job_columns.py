"""Whoever names the columns of a job one by one, so that types can be checked, names those of the list."""

from __future__ import annotations

from dataclasses import fields

import pytest

from rota.client.fields import PARSERS
from rota.model.job_columns import COLUMNS, EVEN, SUBMITTED, WORDED, words_of
from rota.model.jobs import JobTable, PlainJob
from rota.scheduler.snapshot_jobs import SnapshotJobs
from rota.server.store.rows import JobAsked
from rota.wire.job import JobSpec

EVEN_NAMES = [column.name for column in EVEN]
NAMES = {column.name for column in COLUMNS}
ASKED_BESIDE = {"name"}
"""What the store keeps of a request that is no column of the table."""


def test_the_table() -> None:
    named = [field.name for field in fields(JobTable)]
    assert [name for name in named if name in EVEN_NAMES] == EVEN_NAMES
    assert set(named) - NAMES == {
        "ids",
        "tenant_names",
        "group_names",
        "workload_names",
        "node_set_names",
        "type_names",
    }
    assert set(named) >= NAMES


def test_the_object() -> None:
    assert [field.name for field in fields(PlainJob)] == ["id", "row", *EVEN_NAMES, "deadlines"]


def test_what_a_policy_sees() -> None:
    assert [name for name in EVEN_NAMES if name not in vars(SnapshotJobs)] == []
    assert callable(SnapshotJobs.deadlines)


def test_what_is_stored() -> None:
    assert {field.name for field in fields(JobAsked)} == {column.name for column in SUBMITTED} | ASKED_BESIDE


def test_what_is_submitted() -> None:
    assert {column.spec_field for column in SUBMITTED} <= set(JobSpec.model_fields)
    assert {column.option.name for column in SUBMITTED if column.option} <= set(PARSERS)


@pytest.mark.parametrize("name", WORDED)
def test_words(name: str) -> None:
    """The words of a specification are those of the members."""
    (column,) = (column for column in COLUMNS if column.name == name)
    annotation = JobSpec.model_fields[column.spec_field].annotation
    assert set(words_of(WORDED[name])) == set(annotation.__args__)  # type: ignore[union-attr]
    assert JobSpec.model_fields[column.spec_field].default == next(iter(words_of(WORDED[name])))
