"""A trace file as bytes: decompressed, checked to be text, with one kind of line end."""

from __future__ import annotations

import gzip
import os
import zlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rota.errors import InputError

_GZIP = b"\x1f\x8b"
_PARQUET = b"PAR1"
_BOM = b"\xef\xbb\xbf"
_SAMPLE_BYTES = 65536


@dataclass(frozen=True)
class TraceSource:
    """What a file holds, ready for a reader."""

    file: str
    """The path as the user gave it, for messages."""
    data: bytes
    """Parquet as it is; text in UTF-8 without byte order mark, lines ended by a single newline."""

    @property
    def is_parquet(self) -> bool:
        return self.data.startswith(_PARQUET)

    @cached_property
    def opening(self) -> tuple[str, ...]:
        """The first lines that are not blank, enough to tell the format; none for Parquet."""
        if self.is_parquet:
            return ()
        sample = self.data[:_SAMPLE_BYTES]
        if len(self.data) > _SAMPLE_BYTES and b"\n" in sample:
            sample = sample[: sample.rindex(b"\n")]
        return tuple(line for line in sample.decode("utf-8", "replace").split("\n") if line.strip())[:50]

    def header(self, separator: str = ",") -> tuple[str, ...]:
        """Names in the first line, as if it were a header."""
        if not self.opening:
            return ()
        return tuple(name.strip().strip('"') for name in self.opening[0].split(separator))


def load(path: str | os.PathLike[str]) -> TraceSource:
    """The content of `path`; gzip is recognised by its first bytes, whatever the name says."""
    file = os.fspath(path)
    data = _unzipped(_bytes_of(file), file)
    if not data.strip():
        raise InputError.at("the file is empty", file=file, expected="a trace")
    if data.startswith(_PARQUET):
        return TraceSource(file, data)
    data = data.removeprefix(_BOM).replace(b"\r\n", b"\n")
    _check_utf8(data, file)
    return TraceSource(file, data)


def _bytes_of(file: str) -> bytes:
    if os.path.isdir(file):
        raise InputError.at("is a directory", file=file, expected="a trace file")
    try:
        return Path(file).read_bytes()
    except FileNotFoundError:
        raise InputError.at("no such file", file=file) from None
    except OSError as error:
        raise InputError.at(f"cannot be read ({error.strerror})", file=file) from None


def _unzipped(data: bytes, file: str) -> bytes:
    if not data.startswith(_GZIP):
        return data
    try:
        return gzip.decompress(data)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise InputError.at(
            "the gzip data is cut off or damaged", file=file, expected="a complete .gz file"
        ) from None


def _check_utf8(data: bytes, file: str) -> None:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        row = data.count(b"\n", 0, error.start) + 1
        raise InputError.at(
            f"byte 0x{data[error.start]:02x} is not UTF-8", file=file, row=row, expected="text in UTF-8"
        ) from None
