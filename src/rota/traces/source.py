"""A trace file as bytes: decompressed, checked to be text, with one kind of line end."""

from __future__ import annotations

import gzip
import io
import os
import re
import stat
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import polars as pl

from rota.errors import InputError

_GZIP = b"\x1f\x8b"
_PARQUET = b"PAR1"
_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r+\n|\r")
"""Line ends of Windows, also doubled ones, and of old Macs."""
_SAMPLE_BYTES = 65536
_OTHERS = (
    (b"PK\x03\x04", "is a zip archive"),  # .xlsx and .npz too
    (b"\xfd7zXZ\x00", "is packed with xz"),
    (b"BZh", "is packed with bzip2"),
    (b"\x28\xb5\x2f\xfd", "is packed with zstd"),
    (b"7z\xbc\xaf\x27\x1c", "is a 7z archive"),
    (_GZIP, "is packed with gzip twice"),
    (b"\x80\x02", "is a pickle, which could run any program"),
    (b"\x80\x03", "is a pickle, which could run any program"),
    (b"\x80\x04", "is a pickle, which could run any program"),
    (b"\x80\x05", "is a pickle, which could run any program"),
    (b"\x89HDF", "is an HDF5 file"),
    (b"SQLite format 3\x00", "is a database of SQLite"),
    (b"\xff\xfe", "is text in UTF-16"),
    (b"\xfe\xff", "is text in UTF-16"),
)
"""First bytes of other kinds of files, and what they are."""
TEXT = "text in UTF-8"
_TAR, _TAR_AT = b"ustar", 257


@dataclass(frozen=True)
class TraceSource:
    """Contents of a file, prepared for a reader."""

    file: str
    """The path as the user gave it, for messages."""
    data: bytes
    """Parquet unchanged; text in UTF-8 without byte order mark, with a single newline at each line end."""
    garbled: Mapping[int, str] = field(default_factory=dict)
    """Number of each line that is not UTF-8 -> its problem; its invalid bytes are U+FFFD in `data`."""
    left_out: frozenset[int] = frozenset()
    """Rows to skip because they cannot be read, counted as the format's reader does."""

    @property
    def is_parquet(self) -> bool:
        return self.data.startswith(_PARQUET)

    @cached_property
    def opening(self) -> tuple[str, ...]:
        """The first lines that are not blank, enough to detect the format; empty for Parquet."""
        if self.is_parquet:
            return ()
        sample = self.data[:_SAMPLE_BYTES]
        if len(self.data) > _SAMPLE_BYTES and b"\n" in sample:
            sample = sample[: sample.rindex(b"\n")]
        return tuple(line for line in sample.decode("utf-8", "replace").split("\n") if line.strip())[:50]

    @property
    def rows(self) -> int:
        """Number of rows of a Parquet file, or of lines that are not blank."""
        if self.is_parquet:
            return int(pl.scan_parquet(io.BytesIO(self.data)).select(pl.len()).collect().item())
        return sum(1 for line in self.data.split(b"\n") if line.strip())

    def begins_with(self, mark: str) -> bool:
        """Whether the text begins with `mark`."""
        return bool(self.opening) and self.opening[0].lstrip().startswith(mark)

    def header(self, separator: str = ",") -> tuple[str, ...]:
        """Names in the first line, as if it were a header."""
        if not self.opening:
            return ()
        return tuple(name.strip().strip('"') for name in self.opening[0].split(separator))


def load(path: str | os.PathLike[str], expected: str = "a trace") -> TraceSource:
    """The content of `path`; gzip is detected by its first bytes, whatever the name.

    Raises InputError if there is no content; `expected` says what the file should hold.
    """
    file = os.fspath(path)
    data = _unzipped(_bytes_of(file, expected), file)
    if not data.strip():
        raise InputError.at("the file is empty", file=file, expected=expected)
    if data.startswith(_PARQUET):
        return TraceSource(file, data)
    _check_kind(data, file)
    data = data.removeprefix(_BOM)
    if b"\r" in data:
        data = _LINE_END.sub(b"\n", data)
    garbled = _garbled(data, file)
    if garbled:
        data = data.decode("utf-8", "replace").replace("\x00", "\ufffd").encode()
    return TraceSource(file, data, garbled=garbled)


def _bytes_of(file: str, expected: str) -> bytes:
    if os.path.isdir(file):
        raise InputError.at("is a directory", file=file, expected=f"{expected} file")
    try:
        with open(file, "rb") as opened:
            before = os.fstat(opened.fileno())
            data = opened.read()
            after = os.fstat(opened.fileno())
    except FileNotFoundError:
        raise InputError.at("no such file", file=file) from None
    except OSError as error:
        raise InputError.at(f"cannot be read ({error.strerror})", file=file) from None
    # A log may grow during the read; if it was truncated, jobs would be missing.
    if stat.S_ISREG(before.st_mode) and min(len(data), after.st_size) < before.st_size:
        raise InputError.at("became shorter while it was read", file=file, expected="a file that stays")
    return data


def _unzipped(data: bytes, file: str) -> bytes:
    if not data.startswith(_GZIP):
        return data
    try:
        return gzip.decompress(data)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise InputError.at(
            "the gzip data is cut off or damaged", file=file, expected="a complete .gz file"
        ) from None


def _check_kind(data: bytes, file: str) -> None:
    """Raise if `data` is a known kind of file that is not text."""
    what = next((what for start, what in _OTHERS if data.startswith(start)), "")
    if data[_TAR_AT : _TAR_AT + len(_TAR)] == _TAR:
        what = "is a tar archive"
    if what:
        raise InputError.at(what, file=file, expected="text in UTF-8, as it is or packed with gzip")


def _garbled(data: bytes, file: str) -> dict[int, str]:
    """Lines that are not UTF-8, and their problem.

    Raises InputError, with the first of them, if the first line or half of the lines are affected.
    """
    try:
        data.decode("utf-8")
        if b"\x00" not in data:
            return {}
    except UnicodeDecodeError:
        pass
    lines = data.split(b"\n")
    wrong = {row: what for row, line in enumerate(lines, 1) if (what := _not_text(line))}
    if 1 in wrong or 2 * len(wrong) >= sum(1 for line in lines if line.strip()):
        row, what = next(iter(wrong.items()))
        raise InputError.at(what, file=file, row=row, expected=TEXT)
    return wrong


def _not_text(line: bytes) -> str:
    """The part of the line that is not UTF-8; empty if all is."""
    try:
        line.decode("utf-8")
    except UnicodeDecodeError as error:
        return f"byte 0x{line[error.start]:02x} is not UTF-8"
    is_hole = b"\x00" in line
    return "byte 0x00 is no letter, but stands in binary files and text in UTF-16" if is_hole else ""
