"""A policy in a file of one's own: found by its name in every process, or told why not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rota.errors import InputError
from rota.scheduler.own_modules import MODULES, import_policies

MINE = """
from rota.scheduler.priority import priority

@priority("wide_first", "Widest first")
def wide_first(snapshot, rows):
    return -snapshot.jobs.gpus[rows]
"""


@pytest.mark.slow
def test_a_file_of_ones_own_registers_a_policy_for_the_command_line(tmp_path: Path) -> None:
    """In the process itself, and in the workers that a larger comparison is run by."""
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "jobs.csv").write_text("submit_s,gpus,duration_s\n0,1,10\n0,2,10\n0,1,10\n")
    words = ["simulate", "jobs.csv", "--cluster", "1x2", "--policy", "fifo,wide_first", "--workers", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "rota.cli.main", *words],
        cwd=tmp_path,
        env=os.environ | {MODULES: "./mine.py"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "wide_first" in done.stdout


WRONG = [
    ("missing.py", None, r"there is no file .*missing.py; expected one that registers policies"),
    (
        "no_such_module",
        None,
        r"module 'no_such_module' cannot be imported \(ModuleNotFoundError: .*\); expected",
    ),
    (
        "broken_policy.py",
        "1 / 0",
        r"module '.*broken_policy.py' cannot be imported \(ZeroDivisionError: .*\); ex",
    ),
    ("leaving_policy.py", "raise SystemExit(3)", r"leaving_policy.py' cannot be imported \(SystemExit: 3\)"),
    ("random.py", MINE, r"random.py has the name of another module, .*random.py; expected its own"),
]


@pytest.mark.parametrize(("name", "text", "sentence"), WRONG, ids=[row[0] for row in WRONG])
def test_what_cannot_be_imported_is_named(
    name: str, text: str | None, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv(MODULES, str(tmp_path / name) if name.endswith(".py") else name)
    with pytest.raises(InputError, match=rf"^{MODULES}: .*{sentence}"):
        import_policies()
