"""Parquet files: a damaged one is an error with a sentence, also where the library panics over it."""

from __future__ import annotations

import os
import re
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import polars as pl

_SAID = 200
"""Characters kept of the library's message; it may repeat whole lines of the file."""
_PANIC = re.compile(rb"\n?thread '[^\n]* panicked at .*?(?:\nnote: [^\n]*\n|\Z)", re.DOTALL)
_alone = threading.Lock()


class DamagedParquet(ValueError):  # noqa: N818
    """A file that is not Parquet, or is damaged; carries the library's message."""


@contextmanager
def damage_told() -> Iterator[None]:
    """Reading a Parquet file in this block raises DamagedParquet for all that is wrong with it."""
    try:
        with without_panics():
            yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise DamagedParquet((str(error).splitlines() or ["no reason given"])[0][:_SAID]) from None


@contextmanager
def without_panics() -> Iterator[None]:
    """Drops what this process prints about a panic in this block; the panic is raised as an exception.

    The library writes to descriptor 2, from threads of its own.  All other output to it meanwhile is written
    at the end.
    """
    with _alone, tempfile.TemporaryFile() as said:
        kept = os.dup(2)
        os.dup2(said.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            said.seek(0)
            if rest := _PANIC.sub(b"", said.read()):
                os.write(2, rest)
