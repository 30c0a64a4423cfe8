"""Fixtures for reading traces that the tests write inline."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from rota.model.trace import Trace
from rota.traces import read

ReadText = Callable[..., Trace]


@pytest.fixture
def read_text(tmp_path: Path) -> ReadText:
    """Write a text to a file and read it as a trace; `packed` compresses it under the same name."""

    def reading(
        text: str | bytes, format: str | None = None, *, name: str = "jobs", packed: bool = False
    ) -> Trace:
        data = text.encode() if isinstance(text, str) else text
        file = tmp_path / name
        file.write_bytes(gzip.compress(data) if packed else data)
        return read(file, format)

    return reading
