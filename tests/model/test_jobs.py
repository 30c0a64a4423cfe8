"""The job table: defaults, selection, and what a selection keeps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.model.jobs import JOB_COLUMNS, JobPart, JobTable, Outcome, RecordedRun, Truth


def table(n: int) -> JobTable:
    return JobTable.build(
        [f"j{row}" for row in range(n)],
        submit_s=np.arange(n) * 10.0,
        gpus=np.arange(n) % 5,
        tenant=np.arange(n) % 2,
        tenant_names=("a", "b"),
        after={row: (row - 1,) for row in range(1, n)},
        parts={row: (JobPart(2, row),) for row in range(0, n, 3)},
    )


def test_columns_nobody_gave_have_defaults() -> None:
    jobs = JobTable.build(["x", "y"], submit_s=0.0, gpus=[4, 0])
    assert jobs.gpus_min.tolist() == jobs.gpus_max.tolist() == [4, 0]
    assert jobs.gpu_share.tolist() == [1.0, 1.0]
    assert np.isnan(jobs.deadline_s).all()
    assert jobs.name_of("tenant", 0) == "default"
    assert jobs.name_of("group", 0) == ""


def test_an_unknown_column_is_a_programming_error() -> None:
    with pytest.raises(TypeError, match="no column 'gpu'"):
        JobTable.build(["x"], submit_s=0.0, gpus=1, gpu=2)


def test_columns_cannot_be_written() -> None:
    jobs = table(3)
    for column in JOB_COLUMNS:
        for part in (jobs, jobs.take(np.array([2, 0]))):
            with pytest.raises(ValueError, match="read-only"):
                getattr(part, column)[0] = 1


@given(
    st.integers(1, 12).flatmap(lambda n: st.tuples(st.just(n), st.permutations(range(n)), st.integers(0, n)))
)
def test_a_selection_holds_its_rows_and_their_relations(case: tuple[int, list[int], int]) -> None:
    n, order, kept = case
    rows = np.array(order[:kept], dtype=np.int64)
    whole, part = table(n), table(n).take(rows)
    assert part.ids == [whole.ids[row] for row in rows]
    for column in JOB_COLUMNS:
        np.testing.assert_array_equal(getattr(part, column), getattr(whole, column)[rows])
    assert {part.ids[row]: parts for row, parts in part.parts.items()} == {
        whole.ids[row]: parts for row, parts in whole.parts.items() if row in rows
    }
    for new, old in enumerate(rows.tolist()):
        wanted = [whole.ids[before] for before in whole.after.get(old, ()) if before in rows]
        assert [part.ids[before] for before in part.after.get(new, ())] == wanted


def test_a_row_as_an_object_has_names() -> None:
    job = table(4).job(3)
    assert (job.id, job.row, job.gpus, job.tenant, job.workload) == ("j3", 3, 3, "b", "")


def test_truth_counts_failing_attempts() -> None:
    truth = Truth.build([10.0, 20.0, 30.0], outcome=[0, 1, 0], failures={1: (5.0, 6.0)})
    assert truth.run_s().tolist() == [10.0, 31.0, 30.0]
    part = truth.take(np.array([1, 0]))
    assert part.failures == {0: (5.0, 6.0)}
    assert part.run_s().tolist() == [31.0, 10.0]
    assert part.outcome.tolist() == [Outcome.FAILED, Outcome.COMPLETED]
    assert truth.duration_s.tolist() == [10.0, 20.0, 30.0], "run_s must not add to the durations"


def test_observed_rows_move_together() -> None:
    seen = RecordedRun(np.array([1.0, 2.0]), np.array([3.0, np.nan])).take(np.array([1]))
    assert seen.start_s.tolist() == [2.0]
    assert np.isnan(seen.end_s).all()
