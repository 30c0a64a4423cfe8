"""Finds libraries written in C beside their Python, where an installation could build them.

Each library names the source it was built from (`built_of`, put in by `setup.py`).  One built from another
source, as after an update without `make setup`, is not used: its functions may take other arguments.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

_SHARED = Path(__file__).with_name("native.h")
_MARK = 16
"""Hexadecimal digits of the digest of a source."""


@cache
def library(source: Path) -> ctypes.CDLL | None:
    """The library built from the C file `source`, `lib` before its name; None where there is none."""
    try:
        built = ctypes.CDLL(str(source.with_name(f"lib{source.stem}.so")))
        mark = (ctypes.c_char * (_MARK + 1)).in_dll(built, "built_of")
    except (OSError, ValueError):  # not there; or there, and older than the mark
        return None
    return built if not source.exists() or mark.value == digest(source) else None


@cache
def functions(source: Path) -> Mapping[str, Any]:
    """The functions of a C file that take Python's own objects, by name; none where it was not built.

    Such a file names the Python whose headers it was built with (`built_for`); its `functions` creates them.
    """
    built = library(source)
    if built is None:
        return {}
    try:
        mark = (ctypes.c_char * (len(EXTENSION_SUFFIXES[0]) + 1)).in_dll(built, "built_for")
    except ValueError:
        return {}
    if mark.value.decode() != EXTENSION_SUFFIXES[0]:
        return {}
    make = ctypes.PyDLL(built._name, handle=built._handle)["functions"]
    make.restype = ctypes.py_object
    made: dict[str, Any] = make()
    return made


def digest(source: Path) -> bytes:
    """The mark that `setup.py` puts in, of the source and the shared header; a wheel has only the library."""
    return sha256(source.read_bytes() + _SHARED.read_bytes()).hexdigest()[:_MARK].encode()
