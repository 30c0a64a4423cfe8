"""The worst ratio, walked as the authors' solver walks: where that ended, as it was recorded."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.solvers.ratio_walk import walked
from rota.solvers.worst_ratio import least_worst
from tiers import examples

# a, b, rates, GPUs, capacity, and x as ECOS 2.0.14 gives it; the first three to five digits.
RECORDED = [
    ([0.3, 0.1, 0.02, 0.05], [0.2, 0.3, 0.05, 0.1], [1.8, 6.0, 2.0, 10.0], [1, 2, 4, 1], 4.0,
     [1.0, 0.83388, 0.18702, 0.39294], 2e-5),
    ([0.5, 0.01, 0.01], [0.1, 0.2, 0.2], [2.0, 2.0, 2.0], [1, 1, 1], 2.0, [1.0, 0.45486, 0.45486], 2e-5),
    ([0.1, 0.1], [0.3, 0.6], [3.0, 1.0], [1, 1], 1.0, [0.33333, 0.66667], 2e-5),
    ([0.02, 0.3, 0.1, 0.05, 0.2], [0.01, 0.1, 0.4, 0.02, 0.05], [10.0, 2.0, 1.8, 5.0, 20.0],
     [8, 1, 1, 4, 2], 10.0, [0.39797, 0.76684, 1.0, 0.49084, 0.48257], 2e-3),
]  # fmt: skip


@pytest.mark.parametrize(("fixed", "over", "rates", "gpus", "capacity", "x", "within"), RECORDED)
def test_it_ends_where_the_authors_solver_did(fixed, over, rates, gpus, capacity, x, within):
    columns = (np.array(column, dtype=float) for column in (fixed, over, rates, gpus))
    assert walked(*columns, capacity) == pytest.approx(np.array(x), abs=within)


JOBS = st.lists(
    st.tuples(st.floats(0.0, 1.0), st.floats(0.01, 1.0), st.floats(0.1, 20.0), st.sampled_from([1, 2, 4, 8])),
    min_size=2,
    max_size=10,
)


@examples(60)
@given(JOBS, st.integers(2, 30))
def test_its_worst_ratio_is_the_least(jobs, capacity):
    fixed, over, rates, gpus = (np.array(column, dtype=float) for column in zip(*jobs, strict=True))
    x = walked(fixed, over, rates, gpus, float(capacity))
    centre = least_worst(fixed, over, gpus, float(capacity))
    assert x is not None
    assert gpus @ x <= capacity * (1 + 1e-4)
    assert (fixed + over / x).max() == pytest.approx((fixed + over / centre).max(), rel=1e-3)
