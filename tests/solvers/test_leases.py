"""Leases laid out from the back: Chronus' second example, and what laying out never does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.solvers.leases import Demand, all_fit, latest_fit, lay_out, soonest_last
from tiers import examples

A, B, C = Demand(8, 2, 3), Demand(4, 1, 2), Demand(4, 1, 1)


def test_card_2_from_the_back():
    """Filling from the front would give A the first two leases and shut C out."""
    free = np.full(3, 8)
    laid = lay_out(free, [A, B, C])
    assert [leases.tolist() for leases in laid] == [[1, 2], [0], [0]]
    assert free.tolist() == [0, 0, 0]


def test_card_2_the_newcomer_is_first_in_time_by_the_fourth_lease():
    newcomer = Demand(4, 1, 0)
    for last in (1, 2, 3):
        assert all_fit(np.full(5, 8), [A, B, C, newcomer._replace(last=last)]) is None
    laid = all_fit(np.full(5, 8), [A, B, C, newcomer._replace(last=4)])
    assert laid[-1].tolist() == [3]
    assert soonest_last(np.full(5, 8), np.array([0, 0, 0, 8, 8]), [A, B, C], newcomer) == 4


@pytest.mark.parametrize(
    ("demand", "leases", "why"),
    [
        (Demand(4, 2, 4), [1, 3], "lease 2 is full"),
        (Demand(4, 3, 4), [0, 1, 3], "the earliest come last"),
        (Demand(4, 3, 3), None, "only two before its deadline"),
        (Demand(9, 1, 4), None, "more than there is"),
        (Demand(4, 0, 0), [], "nothing to do"),
        (Demand(4, 1, -2), None, "its deadline is over"),
    ],
)
def test_latest_fit(demand, leases, why):
    found = latest_fit(np.array([8, 4, 0, 8]), demand)
    assert (None if found is None else found.tolist()) == leases, why


def test_nobody_fits_where_there_is_no_lease_left():
    assert soonest_last(np.array([3, 3]), np.array([3, 3]), [], Demand(4, 1, 1)) is None
    assert soonest_last(np.array([4, 4]), np.array([4, 4]), [], Demand(4, 3, 1)) is None


DEMANDS = st.lists(
    st.builds(
        lambda gpus, need, more: Demand(gpus, need, need + more),
        st.sampled_from([1, 2, 4, 8]),
        st.integers(1, 4),
        st.integers(0, 4),
    ),
    max_size=8,
)


@given(DEMANDS)
@examples(200)
def test_who_is_laid_out_is_in_time_and_nobody_holds_what_is_not_there(demands):
    free = np.full(12, 8)
    laid = lay_out(free, demands)
    used = np.zeros(12, dtype=np.int64)
    for demand, leases in zip(demands, laid, strict=True):
        if leases is not None:
            assert len(set(leases.tolist())) == demand.need
            assert leases.max() < demand.last
            used[leases] += demand.gpus
    assert (free == 8 - used).all()
    assert (free >= 0).all()
    whole = all_fit(np.full(12, 8), demands)
    assert (whole is not None) == all(leases is not None for leases in laid)
