"""Fidelity: the comparison by hand, and what the table, the JSON and the page say."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest

from rota.errors import InputError
from rota.reports.fidelity import CaseResult, Times, Tolerance, as_json, compare_times, page, table
from rota.reports.terminal import as_text, show_table


def times(**jct_s: float | None) -> pl.DataFrame:
    """A table of completion times by job."""
    frame = pl.DataFrame({"job_id": list(jct_s), "jct_s": list(jct_s.values())})
    return frame.cast({"jct_s": pl.Float64})


@pytest.mark.parametrize(
    ("ours", "theirs", "expected", "why"),
    [
        ({"a": 10, "b": 20}, {"b": 20, "a": 10}, Times(2, 0, 2, 15, 15, "", 0), "any order of rows"),
        ({"a": 10.4}, {"a": 10}, Times(1, 0, 1, 10.4, 10, "", 0), "less than half a second is equal"),
        ({"a": 10.5}, {"a": 10}, Times(1, 0, 0, 10.5, 10, "a", 0.5), "half a second is not"),
        (
            {"a": 1, "b": 7, "c": 3},
            {"a": 1, "b": 9, "c": 4},
            Times(3, 0, 1, 11 / 3, 14 / 3, "b", -2),
            "worst",
        ),
        (
            {"a": None, "b": 5},
            {"a": 9, "b": 5},
            Times(2, 1, 1, 5, 5, "", 0),
            "means leave out what did not end",
        ),
        ({"a": 1, "x": 99}, {"a": 1}, Times(1, 0, 1, 1, 1, "", 0), "jobs the reference lacks do not count"),
        ({"a": None}, {"a": 9}, Times(1, 1, 0, 0, 0, "", 0), "nothing ended"),
    ],
)
def test_compare_times(ours: Any, theirs: Any, expected: Times, why: str) -> None:
    assert compare_times(times(**ours), times(**theirs), "ref.csv") == expected, why


def test_results_of_another_workload_are_refused() -> None:
    """A reference that names jobs which the trace does not have is no reference for it."""
    with pytest.raises(
        InputError, match=r"ref\.csv: job z is not in the trace; expected results of the same"
    ):
        compare_times(times(a=1), times(a=1, z=2), "ref.csv")
    with pytest.raises(InputError, match="nor are 2 others"):
        compare_times(times(a=1), times(x=1, y=2, z=2), "ref.csv")


def result(**changes: Any) -> CaseResult:
    values: dict[str, Any] = {
        "name": "toy",
        "reference": "Toy simulator",
        "workload": "toy.csv",
        "cluster": "1x4",
        "policy": "fifo",
        "jobs": 100,
        "unfinished": 0,
        "equal": 99,
        "ours_s": 1010.0,
        "theirs_s": 1000.0,
        "worst_job": "17",
        "worst_s": -1234.0,
        "engine_seconds": 1.26,
        "tolerance": Tolerance(equal_share=0.99, mean_within=0.01),
        "note": "",
    }
    return CaseResult(**(values | changes))


@pytest.mark.parametrize(
    ("changes", "verdict", "why"),
    [
        ({}, "holds", "both limits are reached exactly"),
        ({"equal": 98}, "differs", "too few jobs agree"),
        ({"ours_s": 1010.1}, "differs", "the mean is too far off"),
        ({"ours_s": 989.0}, "differs", "too far below is too far as well"),
        ({"equal": 0, "tolerance": Tolerance(None, 0.01)}, "holds", "only the mean was promised"),
        ({"in_time": 0.7487, "in_time_theirs": 0.749}, "holds", "a share that is told to three digits"),
        ({"in_time": 0.687, "in_time_theirs": 0.749}, "differs", "others are planned in time"),
        ({"unfinished": 1}, "differs", "a job did not end"),
        ({"equal": 100, "ours_s": 1000.0}, "exact", "every job agrees"),
    ],
)
def test_verdict(changes: dict[str, Any], verdict: str, why: str) -> None:
    assert result(**changes).verdict == verdict, why
    assert result(**changes).holds == (verdict != "differs"), why


def test_the_table_shows_means_difference_and_verdict() -> None:
    cases = table([result(), result(name="other", worst_job="", equal=100)])
    text = as_text(lambda screen: show_table(screen, cases), 120)
    first, other = [" ".join(line.split()) for line in text.splitlines()[1:]]
    assert first == "toy 1,010.0s 1,000.0s +1.00% 99/100 17 -1,234s 1.3s holds"
    assert other == "other 1,010.0s 1,000.0s +1.00% 100/100 - 1.3s exact"


def test_json_has_the_fields_and_the_verdict() -> None:
    (row,) = json.loads(as_json([result()]))
    assert row["difference"] == pytest.approx(0.01)
    assert (row["name"], row["holds"], row["equal_share"]) == ("toy", True, 0.99)
    assert row["tolerance"] == {"equal_share": 0.99, "mean_within": 0.01}


def test_json_has_no_number_that_json_does_not_know() -> None:
    """A case in which no job ended has no mean."""
    (row,) = json.loads(as_json([result(ours_s=float("nan"))]), parse_constant=pytest.fail)
    assert (row["ours_s"], row["difference"]) == (None, None)


def test_the_page_groups_cases_by_reference_and_prints_notes() -> None:
    third = result(name="c", note="a tie", in_time=0.5, in_time_theirs=0.5)
    text = page([result(), result(name="b", reference="Other"), third])
    note = "`c`: planned in time, of all jobs: 0.500 here, 0.500 there; a tie"
    toy, other = text.index("## Toy simulator"), text.index("## Other")
    assert text.count("## ") == 2
    assert toy < text.index("| c |") < text.index(note) < other < text.index("| b |")
