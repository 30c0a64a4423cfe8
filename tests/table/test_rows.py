"""A set of rows and the progress of jobs, against what a reader would write down."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.table.progress import Progress
from rota.table.rows import RowSet


@given(st.lists(st.integers(0, 60), max_size=120))
def test_a_row_set_equals_a_set(rows: list[int]) -> None:
    """Each number toggles its membership; the array grows beyond its first capacity."""
    kept, model = RowSet(), set[int]()
    for row in rows:
        if row in model:
            kept.remove(row)
            model.remove(row)
        else:
            kept.add(row)
            model.add(row)
        assert len(kept) == kept.n == len(model)
        assert set(kept.rows.tolist()) == model
        assert kept.sorted().tolist() == sorted(model)
        assert (row in kept) == (row in model)


def test_sorted_rows_are_read_only() -> None:
    kept = RowSet()
    kept.add(2)
    with pytest.raises(ValueError, match="read-only"):
        kept.sorted()[0] = 1


def test_removing_what_is_not_there_is_an_error() -> None:
    with pytest.raises(KeyError):
        RowSet().remove(1)


PACES = [
    # changes (moment, rate, from when)     asked at    work    why
    ([(0.0, 1.0, 0.0)], 7.0, 7.0, "a second a second"),
    ([(0.0, 1.0, 3.0)], 2.0, 0.0, "nothing while it starts up"),
    ([(0.0, 1.0, 3.0)], 7.0, 4.0, "flat, then at full rate"),
    ([(0.0, 1.0, 0.0), (4.0, 0.5, 4.0)], 10.0, 7.0, "slower from 4 s on"),
    ([(0.0, 1.0, 0.0), (4.0, 2.0, 6.0)], 10.0, 12.0, "4 s at 1, 2 s of restart, 4 s at 2"),
    ([(0.0, 1.0, 0.0), (4.0, 0.0, 4.0)], 10.0, 4.0, "suspended"),
]


@pytest.mark.parametrize(("changes", "now", "work", "why"), PACES, ids=[row[3] for row in PACES])
def test_progress(changes: list[tuple[float, float, float]], now: float, work: float, why: str) -> None:
    progress = Progress(2)
    for moment, rate, since in changes:
        progress.pace(1, rate, since, moment)
    assert progress.done(1, now) == work, why
    assert progress.done(np.array([0, 1]), now).tolist() == [0.0, work], "many are read as one is"
    assert progress.stop(1, now) == work
    assert progress.done(1, now + 100.0) == work
