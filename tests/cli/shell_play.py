"""Helpers for tests of the command line: run it here or in a process, compare with golden files."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner

from rota.cli.app import app

GOLDEN = Path(__file__).parent / "golden"


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    status: int
    out: str
    err: str


def rota(*arguments: object) -> Outcome:
    """Run the command in this process."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], prog_name="rota")
    return Outcome(result.exit_code, result.stdout, result.stderr)


def rota_process(*arguments: object, stdin: str = "", **environment: str) -> Outcome:
    """Run the command in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "rota.cli.main", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=120,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def cpu_seconds(*arguments: object) -> float:
    """What a command costs; wall time would depend on who else uses the machine."""
    began_s = _children_s()
    assert rota_process(*arguments).status == 0
    return _children_s() - began_s


def cpu_seconds_of_libraries() -> float:
    """What it costs to load the libraries that a simulation with a report uses: how fast this machine is."""
    began_s = _children_s()
    subprocess.run(
        [sys.executable, "-c", "import numpy, polars, pydantic, jinja2, rich, scipy.optimize"], check=True
    )
    return _children_s() - began_s


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def check_golden(name: str, text: str) -> None:
    """`text` equals the golden file `name`; ROTA_BLESS=1 rewrites it."""
    path = GOLDEN / name
    text = "".join(line.rstrip() + "\n" for line in text.splitlines())
    if os.environ.get("ROTA_BLESS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"{name} changed; `make bless` accepts it"
