"""What a file must be before any reader looks at it."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from rota.errors import InputError
from rota.traces import read
from rota.traces.source import load

ITP = "job_id,submission_time,duration,num_gpu\na,0,700,1\n"
PLAIN = "job_id,submit_s,gpus,duration_s\nA,0,1,10\n"
ZIPPED = gzip.compress(ITP.encode() * 50)
DAMAGED = ZIPPED[:20] + b"\xff\xff\xff\xff" + ZIPPED[24:]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "trace.csv: the file is empty; expected a trace"),
        (b" \n\n", "trace.csv: the file is empty; expected a trace"),
        (ZIPPED[:-9], "trace.csv: the gzip data is cut off or damaged; expected a complete .gz file"),
        (DAMAGED, "trace.csv: the gzip data is cut off or damaged; expected a complete .gz file"),
        (ITP.encode() + b"b\xe9,1,2,3\n", "trace.csv, row 3: byte 0xe9 is not UTF-8; expected text in UTF-8"),
        (b"hello\nworld\n", "trace.csv: the format is not recognised (the file begins with 'hello')"),
        (
            b"submit,gpu,runtime\n0,1,9\n",
            "trace.csv: the header is that of no known format; expected the columns submit_s, gpus, "
            "duration_s, in seconds: rename 'submit' to 'submit_s', 'gpu' to 'gpus', 'runtime' "
            "to 'duration_s', or name a format",
        ),
        (
            b"id,submit_s,gpus,duration_s\n1,0,1,9\n",
            "the header names 'id', which this format does not have; did you mean 'job_id'?",
        ),
        (
            b"who,user,submit_s,gpus,duration_s\n1,2,0,1,9\n",
            "'who', 'user', which this format does not have; did you mean 'tenant' by 'user'?",
        ),
        (b"; MaxProcs: 4\n1 0 2\n", "the first line after the comments, '1 0 2', is no job; expected the 18"),
        (
            PLAIN.replace(",", ";").encode(),
            "row 1: the cells are joined by semicolons; expected as for plain, jo",
        ),
        (
            PLAIN.replace(",", "\t").encode(),
            "row 1: the cells are joined by tabs; expected as for plain, job_id,",
        ),
        (
            PLAIN.upper().encode(),
            "row 1: the names of the columns are in capitals, or between other blanks; expec",
        ),
    ],
    ids=[
        "empty",
        "blank",
        "cut off",
        "damaged",
        "latin-1",
        "unknown",
        "own names",
        "near names",
        "near and other names",
        "short line",
        "semicolons",
        "tabs",
        "capitals",
    ],
)
def test_says_why_a_file_cannot_be_a_trace(tmp_path: Path, data: bytes, says: str) -> None:
    file = tmp_path / "trace.csv"
    file.write_bytes(data)
    with pytest.raises(InputError) as caught:
        read(file)
    assert says in str(caught.value)


def test_says_that_the_file_is_missing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.csv: no such file"):
        read(tmp_path / "gone.csv")


def test_says_that_the_path_is_a_directory(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a directory; expected a trace file"):
        read(tmp_path)


def test_unknown_content_says_where_formats_are_listed(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_text("hello\n")
    with pytest.raises(
        InputError, match=r"expected a format that `rota trace formats` lists .--format names it."
    ):
        read(file)


@pytest.mark.parametrize(
    "data",
    [
        ITP.encode(),
        ZIPPED[:0] + gzip.compress(ITP.encode()),
        b"\xef\xbb\xbf" + ITP.encode(),
        ITP.replace("\n", "\r\n").encode(),
    ],
    ids=["as is", "gzip without .gz", "byte order mark", "CR LF"],
)
def test_wrappings_make_no_difference(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "trace"
    file.write_bytes(data)
    assert load(file).data == ITP.encode()
    assert read(file).jobs.ids == ["a"]


def test_opening_ends_at_a_whole_line_and_passes_over_blank_ones(tmp_path: Path) -> None:
    file = tmp_path / "long"
    file.write_text("first\n\n" + "x" * 70000 + "\nlast\n")
    assert load(file).opening == ("first",)
