"""Any row comes back as it was, whatever stands in it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from postgres import postgres  # noqa: F401
from store_place import Place, jobs_of, place  # noqa: F401

from rota.server.store.forms import RowForm
from rota.server.store.rows import (
    AttemptRow,
    CostRow,
    DecisionRow,
    EventRow,
    IntervalRow,
    JobState,
    PolicyRow,
    ShadowRow,
    Step,
    UserRow,
)
from rota.server.store.store import Store
from rota.table.state import Phase
from rota.wire.text import clean
from rota.worlds.live.curves import Point
from tiers import examples

WHOLE = st.integers(-(2**63), 2**63 - 1)
REAL = st.floats(allow_nan=False)
TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=20)
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | WHOLE | REAL | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=6,
)
KINDS: dict[str, st.SearchStrategy[Any]] = {
    "int": WHOLE,
    "int | None": st.none() | WHOLE,
    "float": REAL,
    "float | None": st.none() | REAL,
    "bool": st.booleans(),
    "str": TEXT,
    "bytes": st.binary(max_size=50),
    "Json": JSON,
    "Sequence[Json]": st.lists(JSON, max_size=3).map(tuple),
    "Sequence[int]": st.lists(WHOLE, max_size=3).map(tuple),
}


def rows(kind: type, **fixed: Any) -> st.SearchStrategy[Any]:
    """Any row of this kind, but for the fields that are `fixed` (or drawn from what is given for them)."""
    fields = {
        field.name: KINDS[str(field.type)] for field in dataclasses.fields(kind) if field.name not in fixed
    }
    given_ = {n: v if isinstance(v, st.SearchStrategy) else st.just(v) for n, v in fixed.items()}
    return st.builds(kind, **fields, **given_)


STEPS = st.builds(
    Step,
    jobs=st.fixed_dictionaries({0: rows(JobState, phase=st.sampled_from(Phase).map(int))}),
    attempts=rows(AttemptRow, row=0).map(lambda row: [row]),
    intervals=rows(IntervalRow, row=0).map(lambda row: [row]),
    decision=rows(DecisionRow, seq=0),
    policies=rows(PolicyRow, name="real").map(lambda row: [row]),
    events=rows(EventRow, seq=0).map(lambda row: [row]),
    points=rows(
        Point,
        row=0,
        until_s=st.floats(allow_nan=False, allow_infinity=False),  # said after some moment
        curves=st.dictionaries(ANY_TEXT, st.lists(REAL, min_size=4, max_size=4)),
    ).map(lambda row: [row]),
    costs=rows(CostRow).map(lambda row: [row]),
    shadow=rows(ShadowRow, seq=0).map(lambda row: [row]),
)
EXAMPLES = settings(examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def store(place: Place) -> Store:  # noqa: F811
    opened = place.open()
    opened.add_jobs("ann", "vision", jobs_of(1), 1.0)
    return opened


@EXAMPLES
@given(step=STEPS)
def test_steps(store: Store, step: Step) -> None:
    """What a step wrote is what every reader finds."""
    store.commit(step)
    job = store.job(0)
    assert job is not None
    assert job.now == step.jobs[0]
    assert step.attempts[0] in store.attempts(0)
    assert store.intervals(0)[-1] == step.intervals[0]
    assert dataclasses.replace(store.decisions(1)[-1], seq=0) == step.decision
    assert store.policies()["real"] == store.load().policies["real"] == step.policies[0]
    assert dataclasses.replace(store.events(limit=10_000)[-1], seq=0) == step.events[0]
    assert store.points(0)[-1] == step.points[0]
    assert store.costs(limit=1) == step.costs
    assert dataclasses.replace(store.shadow(1)[-1], seq=0) == step.shadow[0]


@EXAMPLES
@given(user=rows(UserRow))
def test_users(store: Store, user: UserRow) -> None:
    store.set_user(user)
    assert store.user(user.name) == user


@EXAMPLES
@given(text=ANY_TEXT)
def test_any_text_can_be_stored(store: Store, text: str) -> None:
    """What no database takes is replaced, the rest stays; twice is as good as once."""
    store.commit(Step(jobs={0: JobState(cause=text)}))
    job = store.job(0)
    assert job is not None
    assert job.now.cause == clean(text) == clean(clean(text))


@given(rows(AttemptRow))
def test_forms_are_inverse(row: AttemptRow) -> None:
    form = RowForm(AttemptRow)
    params = form.params(row)
    assert form.row([params[name] for name in form.names]) == row
