"""Work as value, rate and moment; a column that is put in place of another is the one that is written to."""

from __future__ import annotations

import numpy as np

from rota.table.progress import Progress


def test_work_is_flat_before_its_start_and_after_a_stop() -> None:
    progress = Progress(2)
    progress.begin(1, 2.0, 10.0)
    assert [progress.done(1, now) for now in (5.0, 10.0, 13.0)] == [0, 0, 6]
    assert progress.done(np.array([0, 1]), 13.0).tolist() == [0, 6]
    assert progress.stop(1, 14.0) == 8
    assert (progress.done(1, 99.0), progress.base_of(1), progress.rate_of(1)) == (8, 8, 0)


def test_another_column_is_written_to() -> None:
    progress = Progress(2)
    progress.base, progress.rate, progress.since = np.array([1.0, 2.0]), np.ones(2), np.zeros(2)
    progress.pace(0, 3.0, 4.0, 4.0)
    assert (progress.base.tolist(), progress.rate.tolist(), progress.since.tolist()) == (
        [5, 2],
        [3, 1],
        [4, 0],
    )
    assert progress.done(1, 2.0) == 4
