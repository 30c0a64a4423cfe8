"""The width of output, and the characters it may hold.  Standard library only."""

from __future__ import annotations

import sys

WIDTH = 100
"""Columns when standard output is no terminal."""


def width() -> int:
    """Columns of the terminal, or 100."""
    if not sys.stdout.isatty():
        return WIDTH
    import shutil

    return shutil.get_terminal_size((WIDTH, 24)).columns


def one_line(text: str) -> str:
    """`text` without line ends and other characters that would move the cursor."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
