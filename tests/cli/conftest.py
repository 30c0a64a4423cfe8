"""A small trace for every test of the command line."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest
from live_play import NOW_S, Canned, controller

from rota.traces import write
from rota.traces.generate import generate

JOBS = """\
job_id,submit_s,gpus,duration_s,tenant
a,0,4,100,vision
b,10,8,50,speech
c,20,2,30,vision
d,30,1,200,speech
e,40,4,10,vision
"""
SEEN = """\
job_id,submit_s,gpus,duration_s,start_s,end_s
a,0,4,100,0,100
b,10,8,50,230,280
c,20,2,30,20,50
d,30,1,200,30,230
e,40,4,10,100,110
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with `jobs.csv` and, with recorded starts, `seen.csv`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs.csv").write_text(JOBS)
    (tmp_path / "seen.csv").write_text(SEEN)
    return tmp_path


@pytest.fixture(scope="session")
def hundred(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A generated trace of 100 jobs on 32 GPUs."""
    path = tmp_path_factory.mktemp("trace") / "hundred.csv"
    write(generate(100, seed=1, load=0.9, cluster=32), path)
    return path


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Canned]:
    """$ROTA_HOME of a controller that says what the test tells it; it is ten o'clock UTC there."""
    home = Path(mkdtemp(prefix="rota-"))  # short enough for the address of a socket
    for name in ("ROTA_URL", "ROTA_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ROTA_HOME", str(home))
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    monkeypatch.setattr("rota.cli.live.tables.CLOCK", lambda: NOW_S)
    for module in ("rota.client.missing_here", "rota.cli.quick"):  # their programs are names only
        monkeypatch.setattr(f"{module}.why_not_here", lambda name, folder, path: "")
    canned = Canned()
    with controller(home / "controller.sock", canned):
        yield canned
    shutil.rmtree(home)
    monkeypatch.undo()
    time.tzset()
