"""A submission with numbers at the ends of what numbers can be is refused, or on record and found again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from new_store import put_new_store
from rota.errors import InputError
from rota.server.api.forms import Submission
from rota.server.store.new_jobs import jobs_of
from rota.server.store.store import Store
from rota.wire.job import JOB_ID, JobSpec, check_new
from tiers import examples

OK: dict[str, Any] = {"command": ["x"], "gpus": 1}
WHOLE = [0, 1, -1, 10**9 - 1, 10**9, 2**31, 2**53, 2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**40]
EXTREME = [*WHOLE, 5e-324, 1e-300, 1e11, 1e19, 1.8e308, float("inf"), float("-inf"), float("nan"), -0.0]
NUMBERS = [
    name
    for name, schema in JobSpec.model_json_schema()["properties"].items()
    if {"number", "integer"} & {part.get("type") for part in (schema, *schema.get("anyOf", ()))}
]
numbers = st.sampled_from(EXTREME) | st.integers() | st.floats()
whole = st.sampled_from([number for number in WHOLE if number >= 0])
parts = st.builds(lambda low, span: f"{low}-{low + span}" if span else f"{low}", whole, st.integers(0, 3))
arrays = st.builds(
    lambda parts, most: ",".join(parts) + (f"%{most}" if most is not None else ""),
    st.lists(parts, min_size=1, max_size=3),
    st.none() | whole,
)
fields = st.one_of(
    st.dictionaries(st.sampled_from(NUMBERS), numbers, min_size=1, max_size=2),
    st.fixed_dictionaries({"array": arrays}),
    st.fixed_dictionaries(
        {"deadlines": st.lists(st.builds(lambda a, b: {"at_s": a, "value": b}, numbers, numbers))}
    ),
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    home: Path = tmp_path_factory.mktemp("store")
    put_new_store(home)
    store = Store.open(None, home)
    yield store
    store.close()


def put(store: Store, said: dict[str, Any]) -> list[str]:
    """Ids of the jobs that a submission makes, as it comes: JSON; none if it is refused in a sentence."""
    try:
        spec = Submission.model_validate_json(json.dumps({"spec": OK | said})).spec
        check_new(spec)
        return [row.id for row in store.add_jobs("ann", "vision", jobs_of(spec), 1.0)]
    except (ValidationError, InputError, ValueError):
        return []


@examples(300)
@given(fields)
def test_refused_or_on_record(store: Store, said: dict[str, Any]) -> None:
    for id in put(store, said):
        assert JOB_ID.fullmatch(id)
        row = store.job_of_id(id)
        assert row is not None
        assert store.spec(row.row) == JobSpec(**(OK | said))


@pytest.mark.parametrize("said", [{"array": "999999999"}, {"array": "1-2%999999999"}, {"gpu_share": 0.001}])
def test_the_last_that_fits(store: Store, said: dict[str, Any]) -> None:
    assert put(store, said)
    loaded = store.load()
    assert (loaded.problems, loaded.aside) == ([], {})


@pytest.mark.parametrize(
    "said", [{"array": "1000000000"}, {"array": f"{2**63}"}, {"array": "1%1000000000"}, {"gpu_share": 0.0009}]
)
def test_the_first_that_does_not(store: Store, said: dict[str, Any]) -> None:
    assert put(store, said) == []
