"""What most tests of a whole agent begin with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_play import FakeController, end_all


@pytest.fixture
def controller() -> FakeController:
    return FakeController()


@pytest.fixture
def home(tmp_path: Path, controller: FakeController) -> Iterator[Path]:
    """A fresh agent's folder; whatever is left running at the end is killed."""
    path = tmp_path / "agent"
    yield path
    if (path / "attempts").exists():
        end_all(path, controller)
