"""Libraries in C: one of other sources, or none, is left alone."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path

import pytest

from rota import native
from rota.published.artifacts.elasticflow import climb
from rota.solvers import breeding, future, inner_walk

ROOT = Path(__file__).parents[1]
OF_PYTHON = [future.SOURCE]
SOURCES = [breeding.SOURCE, inner_walk.SOURCE, climb.SOURCE, *OF_PYTHON]


@pytest.fixture(params=SOURCES, ids=[source.stem for source in SOURCES])
def copied(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A source and what was built of it, in a folder of their own."""
    source: Path = request.param
    built = source.with_name(f"lib{source.stem}.so")
    if not built.exists():
        pytest.skip("no C compiler when Rota was installed")
    shutil.copy(built, tmp_path)
    return Path(shutil.copy(source, tmp_path))


def test_a_library_belongs_to_its_source(copied: Path) -> None:
    assert native.library(copied) is not None


def test_one_of_other_sources_is_left_alone(copied: Path) -> None:
    copied.write_text(copied.read_text() + "/* changed */\n")
    assert native.library(copied) is None


def test_a_wheel_has_libraries_without_their_sources(copied: Path) -> None:
    copied.unlink()
    assert native.library(copied) is not None


@pytest.mark.parametrize("copied", OF_PYTHON, indirect=True, ids=[source.stem for source in OF_PYTHON])
def test_functions_belong_to_the_python_whose_objects_they_take(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert native.functions(copied)
    native.functions.cache_clear()
    monkeypatch.setattr(native, "EXTENSION_SUFFIXES", [".cpython-399-another.so"])
    assert native.functions(copied) == {}
    native.functions.cache_clear()


@pytest.mark.parametrize("copied", [climb.SOURCE], indirect=True)
def test_a_library_of_numbers_has_no_such_functions(copied: Path) -> None:
    assert native.functions(copied) == {}


@pytest.mark.parametrize("text", ["", "no library"])
def test_what_is_no_library_is_left_alone(tmp_path: Path, text: str) -> None:
    source = tmp_path / "walk.c"
    source.write_text("int walk;")
    assert native.library(source) is None
    (tmp_path / "libwalk.so").write_text(text)
    native.library.cache_clear()
    assert native.library(source) is None


def test_what_an_earlier_build_left_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where sources have changed and nothing is compiled this time, it would be imported in their place."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("setuptools.setup", lambda **given: None)
    command = runpy.run_path("setup.py")["BuildAnew"](pytest.importorskip("setuptools").Distribution())
    command.build_lib = str(tmp_path / "lib")
    stale = tmp_path / "lib" / "rota" / "loop.cpython-311-x86_64-linux-gnu.so"
    stale.parent.mkdir(parents=True)
    stale.write_bytes(b"")
    ran = []
    monkeypatch.setattr("setuptools.command.build.build.run", lambda self: ran.append(stale.exists()))
    command.run()
    assert ran == [False]
