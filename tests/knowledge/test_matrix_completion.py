"""Known rows come back, unknown entries follow the structure, fingerprints point the right way."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.knowledge.matrix_completion import completed, estimated, fingerprint
from tiers import examples

NAN = np.nan


def test_a_matrix_of_rank_one():
    """Every row is a multiple of (4, 2, 1): what is missing is known but for the penalty."""
    whole = np.outer([1.0, 0.5, 2.0, 1.5], [4.0, 2.0, 1.0])
    part = whole.copy()
    part[3, 1:] = NAN
    part[2, 2] = NAN
    assert completed(part, rank=1, penalty=1e-6) == pytest.approx(whole, rel=1e-3)


def test_a_row_of_which_nothing_is_known_gets_the_means():
    assert completed(np.array([[1.0, 0.2], [0.6, 0.4], [NAN, NAN]]))[2] == pytest.approx([0.8, 0.3])


@pytest.mark.parametrize(
    ("row", "nearest"),
    [([2.0, 0.4], 0), ([0.3, 0.31], 1), ([0.0, 5.0], 2), ([0.5, 0.1], 0), ([1.0, 2.0], 3)],
)
def test_fingerprints_are_directions(row, nearest):
    references = np.array([[1.0, 0.2], [1.0, 1.0], [0.0, 1.0], [0.5, 1.0]])
    assert fingerprint(np.array(row), references) == nearest
    assert fingerprint(np.array(row), references[:0]) == -1


def test_a_job_measured_on_two_of_three_types():
    """Five times as fast on V100 as on K80, as the first reference is: so half as fast on P100, as it is."""
    references = np.array([[10.0, 5.0, 2.0], [10.0, 9.0, 8.0]])
    assert estimated(np.array([4.0, NAN, 0.8]), references) == pytest.approx([4.0, 2.0, 0.8])
    assert estimated(np.array([1.0, NAN, 0.8]), references) == pytest.approx([1.0, 0.9, 0.8])


@examples(60)
@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(1, 5))
def test_what_is_known_stays_and_the_same_is_answered(seed, rows, columns):
    rng = np.random.default_rng(seed)
    matrix = rng.uniform(0.0, 1.0, (rows, columns))
    matrix[rng.random((rows, columns)) < 0.4] = NAN
    known = ~np.isnan(matrix)
    once, again = completed(matrix), completed(matrix.copy())
    assert np.isfinite(once).all()
    assert (once == again).all()
    assert (once[known] == matrix[known]).all()
