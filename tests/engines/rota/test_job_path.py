"""The folder on the jobs' PYTHONPATH is there, whole, and serves a Python that has no Rota."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import rota
from rota.engines.rota import job_path as module
from rota.engines.rota.job_path import KEPT_S, job_path, make_job_path


def run(folder: Path, code: str, *more: Path) -> str:
    """What a bare Python prints with that folder on its path."""
    path = os.pathsep.join(map(str, (folder, *more)))
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_python_without_rota_can_import_it(tmp_path: Path) -> None:
    folder = make_job_path(tmp_path / "python")
    code = "import sys, rota.training as t; print(t.VERSION, t.__file__, 'rota.model' in sys.modules)"
    assert run(folder, code) == f"1 {folder}/rota/training/__init__.py False"


def test_an_installed_rota_is_reached_through_it(tmp_path: Path) -> None:
    """Its other modules, and what the package itself offers."""
    folder = make_job_path(tmp_path / "python")
    installed = Path(rota.__file__).parents[1]
    code = "import rota.errors, rota.training as t; print(rota.__version__, rota.InputError, t.__file__)"
    version, *rest = run(folder, code, installed).split(" ", 1)
    assert version == rota.__version__
    assert rest == [f"<class 'rota.errors.InputError'> {folder}/rota/training/__init__.py"]


def test_many_may_make_it_at_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = set(pool.map(lambda _: make_job_path(tmp_path / "python"), range(16)))
    assert made == {job_path(tmp_path / "python")}
    assert [path.name for path in (tmp_path / "python").iterdir()] == [made.pop().name]


def test_what_goes_while_it_looks_around_is_no_trouble(tmp_path: Path) -> None:
    """An entry that is listed and not there any more, as another maker's half-made folder may be."""
    python = tmp_path / "python"
    python.mkdir()
    (python / ".part-gone").symlink_to("nowhere")
    assert make_job_path(python).is_dir()


def test_a_new_version_leaves_the_old_one_to_running_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    ancient = python / "0123"
    ancient.mkdir(parents=True)
    os.utime(ancient, (0, time.time() - KEPT_S - 60))
    recent = python / "4567"
    recent.mkdir()
    old = make_job_path(python)
    assert not ancient.exists()
    assert recent.exists()
    module._digest.cache_clear()
    monkeypatch.setattr(
        module, "_files", lambda: {"rota/__init__.py": b"", "rota/training/__init__.py": b"VERSION = 9"}
    )
    try:
        new = make_job_path(python)
        assert new != old
        assert run(new, "import rota.training; print(rota.training.VERSION)") == "9"
        assert run(old, "import rota.training; print(rota.training.VERSION)") == "1"
    finally:
        module._digest.cache_clear()
