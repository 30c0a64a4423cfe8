"""What most tests of a whole agent begin with."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_play import end_all

from rota.testing.engine_controller import StandInController

sys.path.insert(0, str(Path(__file__).parents[1] / "engine"))  # the little language of its plans


@pytest.fixture
def controller() -> StandInController:
    return StandInController()


@pytest.fixture
def home(tmp_path: Path, controller: StandInController) -> Iterator[Path]:
    """A fresh agent's folder; whatever is left running at the end is killed."""
    path = tmp_path / "agent"
    yield path
    if (path / "attempts").exists():
        end_all(path, controller)
