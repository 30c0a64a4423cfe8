"""Odd rows are counted, and nothing disappears unsaid."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.errors import InputError
from rota.model.jobs import RecordedRun, Truth
from rota.model.trace import OddRows
from rota.traces.build import Oddities, finish, type_masks, unique
from rota.traces.table import TextTable

ITP = "job_id,submission_time,duration,num_gpu\n"


@pytest.mark.parametrize(
    ("rows", "what", "done", "examples"),
    [
        ("a,0,5,1\nb,1,0,1\n", "zero duration", "kept", ("row 3 (job b)",)),
        ("a,0,5,0\nb,1,9,1\n", "no GPU asked for", "kept as CPU jobs", ("row 2 (job a)",)),
        (
            "a,9,5,1\nb,1,9,1\n",
            "submitted before the row above it",
            "sorted by submission",
            ("row 3 (job b)",),
        ),
    ],
)
def test_odd_rows_of_any_format(
    read_text: Any, rows: str, what: str, done: str, examples: tuple[str, ...]
) -> None:
    trace = read_text(ITP + rows)
    assert trace.odd == (OddRows(what, done, 1, examples),)
    assert len(trace) == 2


def test_ordinary_rows_are_not_odd(read_text: Any) -> None:
    assert read_text(ITP + "a,0,5,1\nb,0,5,1\nc,7,1,8\n").odd == ()


def test_duplicates_are_kept_under_new_ids(read_text: Any) -> None:
    trace = read_text(ITP + "a,0,5,1\na,0,5,1\na,0,6,1\n")
    assert list(trace.jobs.ids) == ["a", "a~2", "a~3"]
    assert {(odd.what, odd.count) for odd in trace.odd} == {
        ("job id used before", 2),
        ("exact duplicate of an earlier row", 1),
    }


def test_sorting_keeps_the_order_of_ties(read_text: Any) -> None:
    trace = read_text(ITP + "late,5,9,1\nx,1,5,1\ny,1,9,1\n")
    assert list(trace.jobs.ids) == ["x", "y", "late"]
    assert trace.truth.duration_s.tolist() == [5.0, 9.0, 9.0]


def test_five_examples_are_enough(read_text: Any) -> None:
    trace = read_text(ITP + "".join(f"j{i},{i},0,1\n" for i in range(9)))
    (odd,) = trace.odd
    assert (odd.count, len(odd.examples), odd.examples[-1]) == (9, 5, "row 6 (job j4)")


@given(st.lists(st.sampled_from(["a", "a~2", "b", "a~2~2"]), max_size=12))
def test_ids_become_unique_and_first_uses_keep_theirs(ids: list[str]) -> None:
    names = unique(ids)
    assert len(set(names)) == len(names) == len(ids)
    for id in set(ids):
        assert names[ids.index(id)] == id


def three_rows() -> Oddities:
    return Oddities(
        TextTable("t.csv", pl.DataFrame({"n": ["1", "2", "3"]}), np.array([2, 3, 4])), ["a", "b", "c"]
    )


def test_wall_clock_starts_at_the_first_job_that_is_kept() -> None:
    odd = three_rows()
    odd.drop("marker", "no job", np.array([True, False, False]))
    stamps = np.array([0.0, 1_500_000_060.0, 1_500_000_000.0])
    trace = finish(
        "t",
        odd,
        jobs={"submit_s": stamps, "gpus": [1, 1, 1]},
        truth=Truth.build([1.0, 2.0, 3.0]),
        observed=RecordedRun(stamps + 5, stamps + 8),
        zone="UTC",
    )
    assert list(trace.jobs.ids) == ["c", "b"]
    assert trace.jobs.submit_s.tolist() == [0.0, 60.0]
    assert trace.observed is not None
    assert trace.observed.start_s.tolist() == [5.0, 65.0]
    assert trace.facts == {"epoch": "2017-07-14 02:40:00", "time_zone": "UTC"}
    assert not trace.jobs.submit_s.flags.writeable


def test_a_trace_without_jobs_says_where_they_went() -> None:
    odd = three_rows()
    odd.drop("marker", "no job", np.array([True, True, True]))
    with pytest.raises(InputError, match=r"t.csv: no job is left: marker \(3\)"):
        finish("t", odd, jobs={"submit_s": [0.0] * 3, "gpus": [1] * 3}, truth=Truth.build([1.0] * 3))


def test_gpu_types_become_bits_of_sorted_names() -> None:
    cells = pl.DataFrame({"gpu_types": ["T4|A100", "", "T4|T4", "V100"]})
    masks = type_masks(TextTable("t.csv", cells, np.arange(2, 6)), "gpu_types")
    assert masks["type_names"] == ("A100", "T4", "V100")
    assert masks["gpu_types"].tolist() == [0b011, 0, 0b010, 0b100]
