"""What a file must be before any reader looks at it."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import pickle
import tarfile
import zipfile
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
        (
            ITP.encode()[:40] + b"b\xe9,1,2,3\n",
            "trace.csv, row 2: byte 0xe9 is not UTF-8; expected text in UTF-8",
        ),
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
        (
            b"LM\tpython3 main.py\tlm\t--steps\t1\t1200\t2\t\n",
            "the format is not recognised (the file begins with",
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
        "cut row",
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


class Trap:
    """What runs a program when it is unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("exit 1",)


def zipped() -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("trace.csv", ITP)
    return held.getvalue()


def tarred() -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w:gz") as archive:
        entry = tarfile.TarInfo("trace.csv")
        entry.size = len(ITP)
        archive.addfile(entry, io.BytesIO(ITP.encode()))
    return held.getvalue()


UTF_8 = "; expected text in UTF-8, as it is or packed with gzip"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (zipped(), "trace.csv: is a zip archive" + UTF_8),
        (tarred(), "trace.csv: is a tar archive" + UTF_8),
        (lzma.compress(ITP.encode()), "trace.csv: is packed with xz" + UTF_8),
        (bz2.compress(ITP.encode()), "trace.csv: is packed with bzip2" + UTF_8),
        (gzip.compress(ZIPPED), "trace.csv: is packed with gzip twice" + UTF_8),
        (pickle.dumps(Trap()), "trace.csv: is a pickle, which could run any program" + UTF_8),
        (ITP.encode("utf-16"), "trace.csv: is text in UTF-16" + UTF_8),
        (ITP.encode("utf-16-le"), "trace.csv, row 1: byte 0x00 is no letter, but stands in binary files"),
        (ITP.encode()[:40] + b"b\x00,1,2,3\n", "trace.csv, row 2: byte 0x00 is no letter"),
        (b"version https://git-lfs.github.com/spec/v1\n", "trace.csv: is a pointer of Git LFS, not the file"),
        (b"<!DOCTYPE html>\n<html>\n", "trace.csv: is a web page; expected the file that its link names"),
    ],
    ids=["zip", "tar", "xz", "bz2", "twice", "pickle", "utf-16", "no mark", "hole", "pointer", "page"],
)
def test_says_what_a_file_is_that_is_no_trace(tmp_path: Path, data: bytes, says: str) -> None:
    """A pickle is not looked into."""
    file = tmp_path / "trace.csv"
    file.write_bytes(data)
    with pytest.raises(InputError) as caught:
        read(file)
    assert says in str(caught.value)


def test_a_file_that_is_emptied_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read may end behind any row; one that grows is read as far as it was."""
    file, looked_at = tmp_path / "trace.csv", os.fstat
    file.write_text(ITP + "b,1,700,1\n")

    def cut_after(fd: int) -> os.stat_result:
        seen = looked_at(fd)
        os.truncate(file, len(ITP))
        return seen

    monkeypatch.setattr("rota.traces.source.os.fstat", cut_after)
    with pytest.raises(InputError, match=r"trace\.csv: became shorter while it was read"):
        read(file)


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
        ITP.replace("\n", "\r\r\n").encode(),
        ITP.replace("\n", "\r").encode(),
    ],
    ids=["as is", "gzip without .gz", "byte order mark", "CR LF", "CR CR LF", "CR"],
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
