"""One bad row never costs a file: it is named and counted, and the rest is read as if it were not there."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
from sacct_text import dump, row
from valid_files import WRITERS

from rota.errors import InputError
from rota.model.trace import Trace
from rota.traces import formats

JOBS, BAD = 9, 4
"""Rows of a good file, and which of them is spoilt, counted from 0."""
WRONG = {"garbage": "\\o/", "negative": "-7", "missing": "", "not a number": "nan"}
SEPARATORS = {"gavel": "\t", "shockwave": "\t", "swf": " ", "sacct": "|"}
NO_HEADER = ("gavel", "shockwave", "swf")
LISTS = ("philly-json", "pbs")
PBS = next(format.example for format in formats() if format.name == "pbs")


def rows_of(format: str) -> list[list[str]]:
    """The cells of a good file, its header first; of headerless formats the header is empty."""
    if format == "sacct":
        text = dump(
            *(row(str(n), Submit=f"0{n}:00:00", Start=f"0{n}:10:00", End=f"0{n}:50:00") for n in range(JOBS))
        )
        return [line.split("|") for line in text.splitlines()]
    if format == "plain":
        jobs = [[str(n), str(10 * n), "2", "600", f"t{n}", str(10 * n + 5), "9000"] for n in range(JOBS)]
        return [["job_id", "submit_s", "gpus", "duration_s", "tenant", "start_s", "limit_s"], *jobs]
    text, _ = WRITERS[format](Random(f"{format} 7"), JOBS)
    if format in NO_HEADER:
        lines = [line for line in text.splitlines() if line.strip() and not line.startswith(";")]
        split = [line.split(None if format == "swf" else "\t") for line in lines]
        return [[], *split]
    return [*csv.reader(io.StringIO(text, newline=""))][: JOBS + 1]


def text_of(format: str, rows: list[list[str]]) -> str:
    text = io.StringIO()
    separator = SEPARATORS.get(format, ",")
    quoted = csv.QUOTE_MINIMAL if separator == "," else csv.QUOTE_NONE
    kept = [cells for cells in rows if cells]
    csv.writer(text, delimiter=separator, quoting=quoted, quotechar='"' if separator == "," else None,
               lineterminator="\n").writerows(kept)  # fmt: skip
    return text.getvalue()


def spoilt(rows: list[list[str]], change: Callable[[list[str]], list[str]]) -> list[list[str]]:
    at = BAD + 1
    return [*rows[:at], change(list(rows[at])), *rows[at + 1 :]]


def without(rows: list[list[str]]) -> list[list[str]]:
    return rows[: BAD + 1] + rows[BAD + 2 :]


def same(one: Trace, other: Trace) -> bool:
    """Whether both say the same of the same jobs."""
    pairs = [
        (one.jobs.ids, other.jobs.ids),
        *((getattr(one.jobs, name), getattr(other.jobs, name)) for name in ("submit_s", "gpus", "limit_s")),
        (one.truth.duration_s, other.truth.duration_s),
        (one.truth.outcome, other.truth.outcome),
        (one.calendar, other.calendar),
    ]
    return all(repr(list(a)) == repr(list(b)) for a, b in pairs)


def left_out(trace: Trace, place: str) -> bool:
    return any(f"({place})" in remark for remark in trace.remarks)


TABLES = [format.name for format in formats() if format.name not in LISTS]


@pytest.mark.parametrize("format", TABLES)
def test_a_row_that_is_cut_is_left_out(read_text: Any, format: str) -> None:
    rows = rows_of(format)
    line = BAD + (1 if format in NO_HEADER else 2)
    whole = read_text(text_of(format, rows), format)
    trace = read_text(text_of(format, spoilt(rows, lambda cells: cells[: len(cells) // 2])), None)
    assert trace.format == format
    assert same(trace, read_text(text_of(format, without(rows)), format))
    assert len(trace) == len(whole) - 1
    assert left_out(trace, f"row {line}"), trace.remarks


@pytest.mark.parametrize("format", TABLES)
@pytest.mark.parametrize("wrong", WRONG)
def test_a_cell_that_is_wrong_costs_its_row_at_most(read_text: Any, format: str, wrong: str) -> None:
    """Whichever cell: the row stays where the cell may say so, else it is left out and named."""
    rows = rows_of(format)
    line = BAD + (1 if format in NO_HEADER else 2)
    rest = read_text(text_of(format, without(rows)), format)
    named = 0
    for column in range(len(rows[BAD + 1])):

        def change(cells: list[str], column: int = column) -> list[str]:
            return [*cells[:column], WRONG[wrong], *cells[column + 1 :]]

        text = text_of(format, spoilt(rows, change))
        if format == "swf" and not WRONG[wrong]:  # blanks split the fields: an empty one makes the line short
            text = text.replace("  ", " ")
        trace = read_text(text, format)
        if left_out(trace, f"row {line}"):
            assert same(trace, rest), (column, trace.remarks)
            named += 1
        elif len(trace) == len(rest):
            assert any(f"row {line} " in remark for remark in trace.remarks), column
        else:
            assert len(trace) == len(rest) + 1, column
    assert named, format


def philly() -> list[dict[str, Any]]:
    return json.loads(WRITERS["philly-json"](Random("philly 7"), JOBS)[0])  # type: ignore[no-any-return]


@pytest.mark.parametrize("wrong", [*WRONG.values(), None, 7, [], {"a": 1}], ids=repr)
def test_an_entry_of_a_list_that_is_wrong_is_left_out(read_text: Any, wrong: Any) -> None:
    good = philly()
    rest = read_text(json.dumps(good[:BAD] + good[BAD + 1 :]))
    for field in good[BAD]:
        bad = [*good[:BAD], {**good[BAD], field: wrong}, *good[BAD + 1 :]]
        trace = read_text(json.dumps(bad))
        if left_out(trace, f"job {BAD + 1}"):
            assert same(trace, rest)
        else:  # a name may be any text, and a job may have no attempt that says anything
            assert field in ("jobid", "vc", "user", "attempts"), (field, trace.remarks)
    assert same(read_text(json.dumps([*good[:BAD], wrong, *good[BAD + 1 :]])), rest)


def pbs(n: int) -> Iterator[str]:
    """Two records of a job: its start and its end."""
    moved = PBS.replace("11.srv", f"{n}.srv").replace("170928", f"1709{n}8")
    yield moved.replace(";E;", ";S;").partition(" end=")[0] + "\n"
    yield moved


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ("end=1709", "end=soon", (9, 10)),
        ("qtime=1709", "qtime=-", (9, 10)),
        ("Resource_List.ngpus=2", "Resource_List.ngpus=nan", (9, 10)),
        ("mem=64gb", "mem=-4gb", (9, 10)),
        ("03/01/2024 10:05:00;E;", "03/01/20", (10,)),
    ],
)
def test_a_record_that_is_wrong_takes_its_job_with_it(
    read_text: Any, old: str, new: str, lines: tuple[int, ...]
) -> None:
    """Without its end a job would seem to run until the end of the log."""
    records = [line for n in range(JOBS) for line in pbs(n)]
    bad = [*records[:9], records[9].replace(old, new), *records[10:]]
    kept = [line for number, line in enumerate(records, 1) if number not in lines]
    trace, rest = read_text("".join(bad)), read_text("".join(kept))
    assert same(trace, rest)
    remark = next(remark for remark in trace.remarks if "row 10" in remark)
    assert f"Left out: {len(lines)} row" in remark


def test_a_job_of_json_that_is_wrong_is_left_out(read_text: Any) -> None:
    jobs = {
        f"{n}.srv": {"job_state": "F", "qtime": f"Fri Mar  1 0{n}:00:00 2024", "Resource_List": {"ngpus": 2},
                     "stime": f"Fri Mar  1 0{n}:10:00 2024", "resources_used": {"walltime": "00:10:00"}}
        for n in range(JOBS)
    }  # fmt: skip
    rest = read_text(
        json.dumps({"pbs_version": "1", "Jobs": {k: v for k, v in jobs.items() if k != "4.srv"}})
    )
    for wrong in (7, None, {**jobs["4.srv"], "qtime": "noon"}, {**jobs["4.srv"], "stime": "-5"}):
        trace = read_text(json.dumps({"pbs_version": "1", "Jobs": {**jobs, "4.srv": wrong}}))
        assert same(trace, rest)
        assert left_out(trace, "job 5")


@pytest.mark.parametrize("opened", ['"', '"x', 'x""'])
def test_a_quote_that_does_not_close_costs_its_row_only(read_text: Any, opened: str) -> None:
    lines = ["job_id,submit_s,gpus,duration_s", *(f'"j{n}",{n},1,60' for n in range(JOBS))]
    lines[5] = f"{opened if opened != chr(120) + chr(34) * 2 else chr(34) + 'x' + chr(34) + 'y'},4,1,60"
    trace = read_text("\n".join(lines))
    assert list(trace.jobs.ids) == [f"j{n}" for n in range(JOBS) if n != 4]
    assert left_out(trace, "row 6")


def test_kinds_are_told_apart_and_their_first_rows_named(read_text: Any) -> None:
    lines = ["job_id,submit_s,gpus,duration_s", *(f"j{n},{n},1,60" for n in range(60))]
    for n in range(3, 10):
        lines[n] = f"j{n},{n},1,-60"
    lines[20] = "j20,20"
    trace = read_text("\n".join(lines))
    assert len(trace) == 52
    assert trace.remarks == (
        "Left out: 1 row (row 21): the line has 2 fields; expected 4, as many as the header.",
        "Left out: 7 rows (row 4, row 5, row 6, row 7, row 8 ...): duration_s: '-60' is less than 0; "
        "expected a number of at least 0.",
    )


def test_a_file_half_of_which_is_bad_is_refused(read_text: Any) -> None:
    lines = ["job_id,submit_s,gpus,duration_s", *(f"j{n},{n},1,60" for n in range(10))]
    for n in range(1, 7):
        lines[n] = f"j{n},{n},1,soon"
    with pytest.raises(
        InputError, match=r"row 2, column 'duration_s': 'soon' .*; 6 of 11 rows cannot be read"
    ):
        read_text("\n".join(lines))


def test_jobs_after_one_that_is_left_out_are_left_out_at_once(read_text: Any) -> None:
    lines = ["job_id,submit_s,gpus,duration_s,after", "a,0,1,bad,", "b,0,1,9,a", "c,0,1,9,b"]
    lines += [f"j{n},0,1,9," for n in range(6)]
    trace = read_text("\n".join(lines))
    assert list(trace.jobs.ids) == [f"j{n}" for n in range(6)]
    assert "(row 3, row 4): after: 'a' names a job that is not in the file" in trace.remarks[1]


@pytest.mark.parametrize(
    ("byte", "says"), [(b"\xe9", "byte 0xe9 is not UTF-8"), (b"\x00", "byte 0x00 is no letter")]
)
@pytest.mark.parametrize("format", ["plain", "sacct", "swf", "gavel", "helios"])
def test_a_line_that_is_no_text_is_left_out(read_text: Any, format: str, byte: bytes, says: str) -> None:
    """A name in Latin-1, or what a disk made of a line as the power failed."""
    rows = rows_of(format)
    lines = text_of(format, rows).encode().split(b"\n")
    at = BAD + (0 if format in NO_HEADER else 1)
    lines[at] = lines[at][:3] + byte + lines[at][3:]
    trace = read_text(b"\n".join(lines))
    assert same(trace, read_text(text_of(format, without(rows)), format))
    assert f"Left out: 1 row (row {at + 1}): {says}" in trace.remarks[0]
