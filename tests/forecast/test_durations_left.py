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
    IN_ONE_GO_S,
    LONGEST,
    MOST_DRAWN,
    Basis,
    Durations,
    Past,
    RemainingSource,
    RemainingTimes,
    parse_source,
    series_of,
    to_draw_from,
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
    return JobTable.build(["J"], submit_s=0.0, **(names | {"group": 0, "gpus": 1} | columns))


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
        (U, 0.0, {}, Basis.HISTORY, 30.0, [10.0, 50.0]),  # of as many GPUs
        (U, 20.0, {}, Basis.HISTORY, 40.0, [30.0, 50.0]),  # of those there is but one
        (P, 0.0, {}, Basis.PREDICTED, 20.0, [10.0, 30.0]),  # of its group
        (P, 10.0, {}, Basis.PREDICTED, 40.0, [30.0, 50.0]),
        (P, 30.0, {}, Basis.HISTORY, 4250.0 / 3, [50.0, 200.0, 4000.0]),
        (P, 0.0, {"group": -1}, Basis.PREDICTED, 30.0, [10.0, 50.0]),
        (P, 0.0, {"group": 2}, Basis.PREDICTED, 30.0, [10.0, 50.0]),
        (P, 0.0, {"gpus": 3}, Basis.PREDICTED, 20.0, [10.0, 30.0]),
        (P, 0.0, {"gpus": 3, "group": -1}, Basis.PREDICTED, 30.0, [10.0, 30.0, 50.0]),
        (P, 50.0, {}, Basis.HISTORY, 2100.0, [200.0, 4000.0]),
        (P, 200.0, {}, Basis.HISTORY, 4000.0, None),  # the only one that ran so long
        (P, 5000.0, {}, Basis.OUTRUN, 10_000.0, None),
        (P, 0.0, {"limit_s": 15.0}, Basis.PREDICTED, 12.5, [10.0, 30.0]),
        (H, 0.0, {}, Basis.HISTORY, 30.0, [10.0, 50.0]),
        (H, 0.0, {"tenant": 1}, Basis.HISTORY, 2100.0, [200.0, 4000.0]),
        (H, 150.0, {}, Basis.HISTORY, 2100.0, [200.0, 4000.0]),
        (H, 0.0, {"tenant": 2, "group": -1}, Basis.HISTORY, 1065.0, [10.0, 50.0, 200.0, 4000.0]),
        (H, 0.0, {"limit_s": 30.0}, Basis.HISTORY, 20.0, [10.0, 50.0]),
        (H, 40.0, {"limit_s": 30.0}, Basis.HISTORY, 4250.0 / 3, [50.0, 200.0, 4000.0]),
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
    found = estimate(RemainingSource.PREDICTED, gpus=3, group=-1)
    rng = np.random.default_rng(1)
    drawn = [found.draw(rng).item(0) for _ in range(3000)]
    shares = [drawn.count(value) / len(drawn) for value in (10.0, 30.0, 50.0)]
    assert shares == pytest.approx([1 / 4] * 3, abs=0.03)


def test_one_more_may_be_the_longest() -> None:
    """Of three that are known the next is longer than all in one of four futures, and five times at most."""
    found = estimate(RemainingSource.PREDICTED, gpus=3, group=-1)
    rng = np.random.default_rng(2)
    longer = np.array([found.draw(rng).item(0) for _ in range(3000)])
    longer = longer[longer > 50.0] / 50.0
    assert len(longer) / 3000 == pytest.approx(1 / 4, abs=0.03)
    assert np.median(longer) == pytest.approx(2.0, rel=0.1)
    assert longer.max() == LONGEST


def test_who_is_always_alike_stays_so() -> None:
    """A series whose runs all took as long takes as long once more."""
    past = Past(np.full(3, 70.0), ("a",) * 3, ("g",) * 3, np.ones(3, dtype=np.int64))
    jobs = JobTable.build(["A"], submit_s=[0.0], gpus=1, tenant_names=("a",), group_names=("g",), group=[0])
    found = Durations(RemainingSource.PREDICTED, past).estimate(jobs, np.arange(1), np.zeros(1))
    rng = np.random.default_rng(4)
    assert {found.draw(rng).item(0) for _ in range(100)} == {70.0}


LIMITED = Past(
    run_s=np.array([10.0, 30.0, 100.0, 900.0]),
    tenant=("a", "a", "b", "b"),
    group=("",) * 4,
    gpus=np.ones(4, dtype=np.int64),
    limit_s=np.array([100.0, 100.0, math.nan, 1000.0]),
)


@pytest.mark.parametrize(
    ("tenant", "ran_s", "told_s", "drawn_from"),
    [
        (0, 0.0, 40.0, [20.0, 60.0]),  # its jobs have used 10 % and 30 % of their limits
        (1, 0.0, 260.0 / 3, [20.0, 60.0, 180.0]),  # one of its own says nothing: those of all
        (0, 25.0, 120.0, [60.0, 180.0]),  # more than the one has used
        (0, 100.0, 180.0, None),
        (0, 190.0, 200.0, None),  # nobody has used so much: the limit itself
    ],
)
def test_a_limit_counts_by_how_much_of_theirs_others_have_used(
    tenant: int, ran_s: float, told_s: float, drawn_from: list[float] | None
) -> None:
    found = estimate(RemainingSource.USER, ran_s, LIMITED, tenant=tenant, limit_s=200.0)
    assert found.basis == (Basis.USER,)
    assert found.told_s.tolist() == pytest.approx([told_s])
    drawn = found.candidates[0].tolist() if 0 in found.candidates else None
    assert drawn == (None if drawn_from is None else pytest.approx(drawn_from))


@pytest.mark.parametrize(
    ("values", "is_over", "drawn_from"),
    [
        ([3.0, 1.0, 2.0], [1, 1, 1], [1.0, 2.0, 3.0]),
        ([1.0, 2.0, 3.0], [1, 0, 1], [1.0, 3.0, 3.0]),  # a third each; that of 2 goes to what is longer
        ([1.0, 2.0, 3.0], [1, 1, 0], [1.0, 2.0, 3.0]),  # nothing is longer: it lasts that long at least
        ([2.0, 2.0], [0, 1], [2.0, 2.0]),  # who ends at the same moment has ended before
        ([1.0, 1.0, 5.0, 9.0], [0, 0, 1, 1], [5.0, 5.0, 9.0, 9.0]),
    ],
)
def test_who_still_runs_will_be_longer(
    values: list[float], is_over: list[int], drawn_from: list[float]
) -> None:
    assert to_draw_from(np.array(values), np.array(is_over, dtype=bool)).tolist() == drawn_from


@given(st.lists(st.tuples(st.floats(0.1, 1e6), st.booleans()), min_size=1, max_size=2000))
def test_what_is_drawn_from_is_short_ascending_and_was_seen(seen: list[tuple[float, bool]]) -> None:
    values, is_over = np.array([one for one, _ in seen]), np.array([over for _, over in seen])
    drawn = to_draw_from(values, is_over)
    assert 1 <= len(drawn) <= MOST_DRAWN
    assert (np.diff(drawn) >= 0.0).all()
    assert set(drawn.tolist()) <= {*values[is_over].tolist(), values.max()}
    # Nobody becomes shorter by what is not known of the others.
    assert drawn.mean() >= to_draw_from(values, np.ones(len(values), dtype=bool)).mean() - 1e-6 * drawn.max()


def test_series_are_of_one_tenant_one_size_and_soon_after_each_other() -> None:
    jobs = JobTable.build(
        list("ABCDEF"),
        submit_s=[0.0, 10.0, 20.0, 500.0, IN_ONE_GO_S + 500.0, 2 * IN_ONE_GO_S + 501.0],
        gpus=[1, 1, 2, 1, 1, 1],
        tenant=[0, 0, 0, 0, 0, 0],
        tenant_names=("a",),
    )
    assert series_of(jobs, np.arange(6)).tolist() == [0, 0, 2, 0, 0, 5]


def test_the_luck_of_a_series_is_much_alike_and_that_of_all_a_little() -> None:
    past = Past(np.arange(1.0, 101.0), ("a",) * 100, ("",) * 100, np.ones(100, dtype=np.int64))
    jobs = JobTable.build(
        ["A", "B", "C"], submit_s=[0.0, 1.0, 1e6], gpus=1, tenant_names=("a",), group=[-1, -1, -1]
    )
    found = Durations(RemainingSource.HISTORY, past).estimate(jobs, np.arange(3), np.zeros(3))
    rng = np.random.default_rng(3)
    drawn = np.array([found.draw(rng) for _ in range(2000)])
    alike = np.corrcoef(drawn.T)
    assert alike[0, 1] > 0.75 > 0.65 > alike[0, 2] > 0.35
    assert np.median(drawn, axis=0) == pytest.approx([50.5] * 3, abs=4.0)


def test_the_past_knows_services_and_refuses_ragged_columns() -> None:
    assert PAST.service_gpu_s.tolist() == [10.0, 60.0, 50.0, 400.0, 200.0, 4000.0]
    with pytest.raises(ValueError, match="another length"):
        Past(np.array([1.0]), (), ("",), np.array([1]))


def test_sources_by_name() -> None:
    assert parse_source("history") is RemainingSource.HISTORY
    with pytest.raises(InputError, match=r"'oracle' is no source.*user, predicted, history"):
        parse_source("oracle")
