"""How long a live job still takes: every rule, and what follows when the named provider knows nothing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strategies  # noqa: F401  (loads the profile)
from rota.errors import InputError
from rota.forecast.remaining import (
    FIRST_GUESS_S,
    Basis,
    Durations,
    Past,
    RemainingSource,
    RemainingTimes,
    parse_source,
)
from rota.model.job_columns import JobKind
from rota.model.jobs import JobTable

PAST = Past(
    run_s=np.array([10.0, 30.0, 50.0, 100.0, 200.0, 4000.0]),
    tenant=("a", "a", "a", "b", "b", "b"),
    group=("g", "g", "", "h", "", ""),
    gpus=np.array([1, 2, 1, 4, 1, 1]),
)


def table(**columns: Any) -> JobTable:
    """One job of tenant a and group g, but for `columns`."""
    names = {"tenant_names": ("a", "b", "new"), "group_names": ("g", "h", "unseen")}
    return JobTable.build(["J"], submit_s=0.0, gpus=1, **(names | {"group": 0} | columns))


def estimate(
    source: RemainingSource, ran_s: float = 0.0, past: Past = PAST, **columns: Any
) -> RemainingTimes:
    durations = Durations(source, past)
    return durations.estimate(table(**columns), np.array([0]), np.array([ran_s]))


U, P, H = RemainingSource.USER, RemainingSource.PREDICTED, RemainingSource.HISTORY


@pytest.mark.parametrize(
    ("source", "ran_s", "columns", "basis", "told_s", "drawn_from"),
    [
        (U, 0.0, {"limit_s": 60.0}, Basis.USER, 60.0, None),
        (U, 59.0, {"limit_s": 60.0}, Basis.USER, 60.0, None),
        (U, 70.0, {"limit_s": 60.0}, Basis.OUTRUN, 140.0, None),
        (U, 0.0, {}, Basis.HISTORY, 30.0, [10.0, 30.0, 50.0]),
        (U, 20.0, {}, Basis.HISTORY, 40.0, [30.0, 50.0]),
        (P, 0.0, {}, Basis.PREDICTED, 20.0, None),
        (P, 10.0, {}, Basis.PREDICTED, 30.0, None),
        (P, 30.0, {}, Basis.PREDICTED, 50.0, None),
        (P, 0.0, {"group": -1}, Basis.PREDICTED, 30.0, None),
        (P, 0.0, {"group": 2}, Basis.PREDICTED, 30.0, None),
        (P, 50.0, {}, Basis.HISTORY, (100.0 + 200.0 + 4000.0) / 3, [100.0, 200.0, 4000.0]),
        (P, 5000.0, {}, Basis.OUTRUN, 10_000.0, None),
        (P, 0.0, {"limit_s": 15.0}, Basis.PREDICTED, 15.0, None),
        (H, 0.0, {}, Basis.HISTORY, 30.0, [10.0, 30.0, 50.0]),
        (H, 0.0, {"tenant": 1}, Basis.HISTORY, 4300.0 / 3, [100.0, 200.0, 4000.0]),
        (H, 150.0, {}, Basis.HISTORY, 2100.0, [200.0, 4000.0]),
        (H, 0.0, {"tenant": 2, "group": -1}, Basis.HISTORY, 4390.0 / 6, PAST.run_s.tolist()),
        (H, 0.0, {"limit_s": 30.0}, Basis.HISTORY, 70.0 / 3, [10.0, 30.0, 50.0]),
        (H, 40.0, {"limit_s": 30.0}, Basis.HISTORY, 50.0, [50.0]),
        (H, 4000.0, {}, Basis.OUTRUN, 8000.0, None),
    ],
)
def test_rules(
    source: RemainingSource,
    ran_s: float,
    columns: dict[str, Any],
    basis: Basis,
    told_s: float,
    drawn_from: list[float] | None,
) -> None:
    found = estimate(source, ran_s, **columns)
    assert found.basis == (basis,)
    assert found.told_s.tolist() == pytest.approx([told_s])
    assert (found.candidates[0].tolist() if 0 in found.candidates else None) == drawn_from


@pytest.mark.parametrize("source", RemainingSource)
@pytest.mark.parametrize(
    ("ran_s", "limit_s", "basis", "told_s"),
    [
        (0.0, math.nan, Basis.GUESS, FIRST_GUESS_S),
        (FIRST_GUESS_S, math.nan, Basis.OUTRUN, 2 * FIRST_GUESS_S),
        (0.0, 60.0, Basis.USER, 60.0),
        (60.0, 60.0, Basis.OUTRUN, 120.0),
    ],
)
def test_without_any_past(
    source: RemainingSource, ran_s: float, limit_s: float, basis: Basis, told_s: float
) -> None:
    found = estimate(source, ran_s, Past.none(), limit_s=limit_s)
    assert (found.basis, found.told_s.tolist(), found.candidates) == ((basis,), [told_s], {})


@pytest.mark.parametrize("source", RemainingSource)
def test_services_end_only_by_their_limit(source: RemainingSource) -> None:
    assert estimate(source, kind=JobKind.SERVICE).told_s.tolist() == [math.inf]
    assert estimate(source, kind=JobKind.SERVICE).basis == (Basis.ENDLESS,)
    assert estimate(source, kind=JobKind.SERVICE, limit_s=50.0).told_s.tolist() == [50.0]
    assert estimate(source, 60.0, kind=JobKind.SERVICE, limit_s=50.0).told_s.tolist() == [math.inf]


def test_a_value_given_for_the_job_goes_before_everything() -> None:
    durations = Durations(RemainingSource.HISTORY, PAST, given_s={0: 77.0})
    found = durations.estimate(table(limit_s=5.0), np.array([0]), np.array([1.0]))
    assert (found.basis, found.told_s.tolist()) == ((Basis.GIVEN,), [77.0])


def test_counts_say_how_many_came_from_where() -> None:
    jobs = JobTable.build(
        ["A", "B", "C"], submit_s=0.0, gpus=1, limit_s=[60.0, math.nan, 60.0], tenant_names=("a",)
    )
    found = Durations(RemainingSource.USER, PAST).estimate(jobs, np.arange(3), np.zeros(3))
    assert found.counts() == {"user": 2, "history": 1}


@given(
    ran_s=st.lists(st.floats(0.0, 6000.0), min_size=1, max_size=8),
    source=st.sampled_from(list(RemainingSource)),
    seed=st.integers(0, 1000),
)
def test_draws_are_repeatable_and_never_below_what_has_run(
    ran_s: list[float], source: RemainingSource, seed: int
) -> None:
    n = len(ran_s)
    jobs = JobTable.build(
        [str(i) for i in range(n)],
        submit_s=0.0,
        gpus=1,
        limit_s=np.where(np.arange(n) % 2, 500.0, np.nan),
        tenant=np.arange(n) % 3,
        tenant_names=("a", "b", "new"),
    )
    found = Durations(source, PAST).estimate(jobs, np.arange(n), np.array(ran_s))
    drawn = found.draw(np.random.default_rng(seed))
    assert drawn.tolist() == found.draw(np.random.default_rng(seed)).tolist()
    assert all(total >= ran for total, ran in zip(drawn, ran_s, strict=True))
    assert all(total > ran for total, ran in zip(drawn, ran_s, strict=True) if ran > 0.0)
    fixed = [place for place in range(n) if place not in found.candidates]
    assert all(drawn[place] <= 500.0 for place in range(1, n, 2) if ran_s[place] < 500.0)
    assert drawn[fixed].tolist() == found.told_s[fixed].tolist()


def test_draws_follow_the_past() -> None:
    found = estimate(RemainingSource.HISTORY)
    rng = np.random.default_rng(1)
    drawn = [found.draw(rng).item(0) for _ in range(3000)]
    shares = [drawn.count(value) / len(drawn) for value in (10.0, 30.0, 50.0)]
    assert shares == pytest.approx([1 / 3] * 3, abs=0.03)


def test_the_past_knows_services_and_refuses_ragged_columns() -> None:
    assert PAST.service_gpu_s.tolist() == [10.0, 60.0, 50.0, 400.0, 200.0, 4000.0]
    assert "" not in PAST.by_group
    with pytest.raises(ValueError, match="another length"):
        Past(np.array([1.0]), (), ("",), np.array([1]))


def test_sources_by_name() -> None:
    assert parse_source("history") is RemainingSource.HISTORY
    with pytest.raises(InputError, match=r"'oracle' is no source.*user, predicted, history"):
        parse_source("oracle")
