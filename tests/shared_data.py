"""Where the public traces and the reference results lie, for tests that use them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(os.environ.get("ROTA_SHARED", Path(__file__).parents[1].parent / "shared"))

needs_shared = pytest.mark.skipif(
    not (ROOT / "data").is_dir(),
    reason=f"no public traces at {ROOT}; set ROTA_SHARED to the folder that holds data/ and reference/",
)


def data(path: str) -> Path:
    """A public trace or profile."""
    return ROOT / "data" / path


def reference(path: str) -> Path:
    """A result of the authors' own simulators."""
    return ROOT / "reference" / path
