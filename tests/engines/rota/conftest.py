"""What most tests of a whole agent begin with."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_play import end_all

from rota.engines.rota import shim
from rota.testing.engine_controller import StandInController

sys.path.insert(0, str(Path(__file__).parents[1] / "engine"))  # the little language of its plans


@pytest.fixture(scope="session")
def compiled_shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shim that an installation with a C compiler has, of the source as it is."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    program = tmp_path_factory.mktemp("compiled") / "rota-shim"
    flags = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror"]
    source = Path(shim.__file__).with_name("shim.c")
    subprocess.run([compiler, *flags, "-o", str(program), str(source), "-lm"], check=True)
    return program


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
