"""Checks of files that another process wrote: type, range and size of every value.

The folders between programs and their agent belong to the job's user. A file there may be a link, a pipe, a
folder or larger than memory, and its JSON may hold any values; none of these may harm the reader.
"""

from __future__ import annotations

import json
import os
import stat
from typing import TYPE_CHECKING, Any

MOST_COUNT = 2**53
"""Largest integer up to which every integer is exact as a floating-point number."""
LARGEST = 1e300
"""Largest finite number that a program may report."""
MOST_JSON = 65536
"""Most bytes of a JSON file."""

if TYPE_CHECKING:
    from pathlib import Path

    Folder = str | Path


def read_object(path: Folder, limit: int = MOST_JSON) -> dict[str, Any]:
    """The JSON object in a file of at most `limit` bytes.

    Raises OSError if the file cannot be read, and ValueError with a sentence if it has no such object.
    """
    name = os.path.basename(str(path))
    flags = os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    file = os.open(str(path), flags)  # neither a pipe nor a lease blocks the reader
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise ValueError(f"{name} is not an ordinary file")
        text = b""
        while len(text) <= limit and (piece := os.read(file, limit + 1 - len(text))):
            text += piece
    finally:
        os.close(file)
    if len(text) > limit:
        raise ValueError(f"{name} is larger than {limit} bytes")
    try:
        value = json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError):
        raise ValueError(f"{name} is not JSON") from None
    if not isinstance(value, dict):
        raise ValueError(f"{name} holds {shown(value)}, expected a JSON object")
    return value


def read_json(path: Folder, limit: int = MOST_JSON) -> dict[str, Any] | None:
    """The JSON object in a file of at most `limit` bytes; None if it is missing or unusable."""
    try:
        return read_object(path, limit)
    except (OSError, ValueError):
        return None


def number(value: object, least: float = -LARGEST, most: float = LARGEST) -> float | None:
    """A finite number within this range, or None for any other value (booleans too)."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if least <= value <= most else None


def count(value: object, most: int = MOST_COUNT) -> int | None:
    """A whole number from 0 to `most`, or None for any other value (booleans too)."""
    within = number(value, 0, most)
    return int(within) if within is not None and within.is_integer() else None


def text(value: object, most: int) -> str:
    """The first `most` characters of a text, without unpaired surrogates; empty if it is not a text."""
    said = value[:most] if isinstance(value, str) else ""
    return said.encode("utf-8", "replace").decode("utf-8")


def shown(value: object) -> str:
    """A value from another process for use in a sentence: short, and on one line."""
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "an object"
    said = json.dumps(value)
    return said if len(said) <= 40 else f"{said[:40]}…"
