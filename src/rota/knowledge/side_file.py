"""Files beside a trace, of measured speeds, pairs, regimes: text that may be compressed, CSV or JSON."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rota.errors import InputError
from rota.model.once import json_once

_UTF16 = (b"\xff\xfe", b"\xfe\xff")


def read_text(path: Path, expected: str = "JSON or CSV") -> str:
    """The text of the file, decompressed if need be; InputError says why it cannot be read."""
    try:
        data = path.read_bytes()
        data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        problem = "is UTF-16, not UTF-8" if data[:2] in _UTF16 else "is not a text file"
    except (EOFError, zlib.error):
        problem = "is compressed, and cut off or damaged"
    except OSError as error:  # among them that what looks compressed is not
        problem = error.strerror or "is not a text file"
    raise InputError.at(f"cannot be read ({problem})", file=path, expected=expected) from None


def json_of(text: str, path: object) -> Any:
    """The value of a JSON text; ValueError also if it is nested too deep to be read.

    InputError, which names `path`, if an object in it has a key twice.
    """
    try:
        return json_once(text, path)
    except RecursionError:
        raise ValueError("nested too deep") from None


class CsvRows:
    """A CSV text: the names of its columns, and (line, row) of each record that is not blank."""

    def __init__(self, path: object, text: str) -> None:
        self.path = path
        self._reader = csv.reader(text.splitlines())
        self.columns = next(iter(self._records()), [])
        twice = next((name for at, name in enumerate(self.columns) if name in self.columns[:at]), None)
        if twice is not None:
            raise InputError.at(f"two columns are called {twice!r}", file=path, row=1)

    def check_known(self, names: Iterable[str]) -> None:
        """Refuse a column that is not among `names`, so that a typing mistake is not ignored."""
        known = tuple(names)
        unknown = next((name for name in self.columns if name not in known), None)
        if unknown is not None:
            raise InputError.at(
                f"there is no column {unknown!r}",
                file=self.path,
                row=1,
                expected="columns among " + ", ".join(known),
            )

    def __iter__(self) -> Iterator[tuple[int, dict[str, str]]]:
        for cells in self._records():
            line = self._reader.line_num
            if len(cells) > len(self.columns):
                problem = f"has {len(cells)} cells"
                raise InputError.at(
                    problem, file=self.path, row=line, expected=f"{len(self.columns)}, as row 1"
                )
            cells += [""] * (len(self.columns) - len(cells))
            yield line, dict(zip(self.columns, cells, strict=True))

    def _records(self) -> Iterator[list[str]]:
        try:
            yield from filter(None, self._reader)
        except csv.Error:
            limit = f"a cell of at most {csv.field_size_limit():,} characters, its quotes closed"
            raise InputError.at(
                "cannot be split into cells", file=self.path, row=self._reader.line_num, expected=limit
            ) from None
