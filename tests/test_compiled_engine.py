"""A clone runs what `make setup` compiled only as long as it is of these very sources."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TWIN = ".twin.py"
"""Stands for the suffix of a compiled module."""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Sources of a package `rota`, one hot module of which has a twin, and an environment that knows both."""
    hot, twins = tmp_path / "src/rota/table", tmp_path / "build/fast/rota/table"
    for folder in (hot, twins, tmp_path / "packages"):
        folder.mkdir(parents=True)
    for package in (hot.parent, hot):
        (package / "__init__.py").touch()
    (hot / "free.py").write_text("KIND = 'source'\n")
    (hot / "cold.py").write_text("KIND = 'source'\n")
    (twins / f"free{TWIN}").write_text("import beside__mypyc\nKIND = 'twin'\n")
    (tmp_path / f"build/fast/beside__mypyc{TWIN}").touch()
    runpy.run_path(str(ROOT / "tools/compiled_engine.py"))["install"](tmp_path, tmp_path / "packages")
    stamp = tmp_path / "build/fast/.built"
    stamp.touch()
    for source in (tmp_path / "src").rglob("*.py"):
        os.utime(source, ns=(stamp.stat().st_mtime_ns - 10**9,) * 2)
    return tmp_path


ASK = f"""
import sys, site
from importlib import machinery
machinery.EXTENSION_SUFFIXES.insert(0, {TWIN!r})
sys.path.insert(0, sys.argv[1] + "/src")
site.addsitedir(sys.argv[1] + "/packages")
sys.path[:0] = sys.argv[2:]
from rota.table import cold, free
print(free.KIND, cold.KIND)
"""


def kinds(clone: Path, *before: str, **environment: str) -> list[str]:
    """What a new process gets as the hot module, and as one that has no twin."""
    ours = {name: value for name, value in os.environ.items() if name != "ROTA_ENGINE"}
    done = subprocess.run(
        [sys.executable, "-S", "-c", ASK, str(clone), *before],
        env=ours | environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.slow
def test_the_hot_modules_are_the_compiled_ones(clone: Path) -> None:
    assert kinds(clone) == ["twin", "source"]


@pytest.mark.slow
@pytest.mark.parametrize("change", ["a hot module", "any module", "no stamp", "no build"])
def test_a_changed_source_runs_as_it_is(clone: Path, change: str) -> None:
    if change == "a hot module":
        (clone / "src/rota/table/free.py").touch()
    elif change == "any module":  # compiled code has constants of others within
        (clone / "src/rota/__init__.py").touch()
    elif change == "no stamp":  # a build that was broken off
        (clone / "build/fast/.built").unlink()
    else:
        (clone / "build/fast").rename(clone / "build/slow")
    assert kinds(clone) == ["source", "source"]


@pytest.mark.slow
def test_who_asks_for_the_sources_gets_them(clone: Path) -> None:
    assert kinds(clone, ROTA_ENGINE="interpreted") == ["source", "source"]


@pytest.mark.slow
def test_another_copy_on_the_path_is_left_alone(clone: Path, tmp_path: Path) -> None:
    """Its own compiled modules too: what they have in common may bear the same name as here."""
    other = tmp_path / "other"
    (other / "rota/table").mkdir(parents=True)
    for name in ("rota/__init__.py", "rota/table/__init__.py"):
        (other / name).touch()
    (other / "rota/table/cold.py").write_text("import beside__mypyc\nKIND = beside__mypyc.KIND\n")
    (other / "rota/table/free.py").write_text("KIND = 'other'\n")
    (other / "beside__mypyc.py").write_text("KIND = 'other'\n")
    assert kinds(clone, str(other)) == ["other", "other"]


def test_the_tests_run_the_sources() -> None:
    from rota.table.compiled import is_compiled

    assert not is_compiled()
