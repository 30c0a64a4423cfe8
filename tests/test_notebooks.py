"""The notebooks are their sources, run: what they show is small, and the sources still run."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rota.errors import InputError
from tiers import first

FOLDER = Path(__file__).parents[1] / "examples" / "notebooks"
BUILD = runpy.run_path(str(FOLDER / "build.py"))
NAMES: tuple[str, ...] = BUILD["NAMES"]
MOST_KIB = 200


def stored(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_its_source(name: str) -> None:
    """Cell by cell; `python examples/notebooks/build.py` runs them anew."""
    source = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    cells = list(BUILD["cells_of"](source))
    found = [("".join(cell["source"]), cell["cell_type"] == "code") for cell in stored(name)["cells"]]
    assert found == [(cell.text, cell.is_code) for cell in cells]


@pytest.mark.parametrize("name", NAMES)
def test_what_it_shows_is_stored_and_small(name: str) -> None:
    """Tables and figures without a script, and nothing of the machine on which it ran."""
    text = (FOLDER / f"{name}.ipynb").read_text(encoding="utf-8")
    outputs = [output for cell in stored(name)["cells"] for output in cell.get("outputs", ())]
    assert any("text/html" in output.get("data", {}) for output in outputs)
    assert len(text) < MOST_KIB * 1024
    assert "<script" not in text
    assert "/tmp/" not in json.dumps(outputs)


def test_every_source_is_built() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == {*NAMES, "build"}
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == set(NAMES)


@pytest.mark.slow
@pytest.mark.parametrize("name", first(1, NAMES))
def test_it_runs(name: str, tmp_path: Path) -> None:
    """On a few jobs, in a process of its own, which leaves no cluster behind."""
    environment = {**os.environ, "EXAMPLE_JOBS": "400", "TMPDIR": str(tmp_path)}
    program = f"import runpy; runpy.run_path({str(FOLDER / 'build.py')!r})['run']({name!r})"
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.glob("rota-*/controller.json"))


def test_figures_of_a_comparison(tmp_path: Path) -> None:
    """An image of its own: its style does not reach the page, and its words are there for who cannot see."""
    import rota

    trace = rota.generate(200, seed=1, load=0.9, cluster=8)
    result = rota.simulate(trace, cluster="1x8", policies=["fifo", "srtf"])
    shown = result.figure("waiting")
    text = shown._repr_html_()
    assert text.startswith("<img")
    assert shown.title in text
    assert shown.write(tmp_path / "waiting.svg").read_text(encoding="utf-8") == shown.svg
    with pytest.raises(InputError, match="there is no figure 'waits'; expected one of completion, waiting"):
        result.figure("waits")
    with pytest.raises(InputError, match="nothing to draw for the figure 'work'"):
        result.figure("work")
