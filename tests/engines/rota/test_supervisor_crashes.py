"""kill -9 at every named point between two durable steps: the next supervisor names the state, and goes on.

The command leaves a line whenever it runs: there is never a second one, whoever starts the attempt again.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from attempts import PATIENCE_S, gone, lines, see, shell, until
from rota.crash import VARIABLE
from rota.engines.rota import native, watching
from rota.engines.rota.live import Live
from rota.engines.rota.strays import strays
from rota.engines.rota.supervisor import Supervisor
from rota.wire.sync import Part, PartStatus

RUN = "cd $ROTA_ATTEMPT_DIR; echo ran >> runs; mkfifo gate; read x < gate; exit 5"
AGENT = """
import os, sys, time
from pathlib import Path
from rota.engines.rota import native
native.PROGRAM = Path(os.environ["SHIM"])
from rota.engines.rota.supervisor import Supervisor
from rota.wire.sync import Mechanism, Notice, Part, PartStatus
s = Supervisor(Path(sys.argv[1]))
live = s.start(Part.model_validate_json(sys.argv[2]))
def until(*statuses):
    while live.status not in statuses:
        s.wait(5)
until(PartStatus.RUNNING)
while not (live.folder.path / "runs").exists():
    time.sleep(0.01)
what = sys.argv[3]
if what in ("suspend", "resume"):
    s.suspend(live)
if what == "resume":
    s.resume(live, devices=[0])
if what == "suspend and stop":
    s.suspend(live)
if what.endswith("stop"):
    s.stop(live, Notice(reason="preempted"), grace_s=float(sys.argv[4]), signal="URG")
    until(PartStatus.ENDED)
if what == "lose":
    __import__("os").kill(live.shim.pid, 9)
    until(PartStatus.LOST)
"""
"""An agent that does a few things to one attempt and dies on its way."""
GRACE_S = 5.0
"""Counted from the stop on, while its agent flushes, dies and has an heir: who is late sends no SIGTERM."""


@pytest.fixture(params=["interpreted", "compiled"], autouse=True)
def shim(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """One shim and the other: both keep the same promises."""
    program = Path("/none")
    if request.param == "compiled":
        program = request.getfixturevalue("compiled_shim")
    monkeypatch.setattr(native, "PROGRAM", program)
    monkeypatch.setenv("SHIM", str(program))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An agent's home; at the end nothing of it runs."""
    path = tmp_path / "agent"
    monkeypatch.delenv(VARIABLE, raising=False)
    yield path
    last = Supervisor(path)
    for live in last.known():
        last.kill(live)
    for live in last.known():
        gone(last, live)
    last.close()


def crash(home: Path, one: Part, point: str, what: str = "start") -> None:
    """Run an agent until it dies at this point."""
    arguments = [sys.executable, "-c", AGENT, str(home), one.model_dump_json(), what, str(GRACE_S)]
    done = subprocess.run(arguments, env={**os.environ, VARIABLE: point}, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL, f"it did not pass {point!r}"


def finish(supervisor: Supervisor, live: Live) -> None:
    """Let the command end, if it runs."""
    if live.status is PartStatus.RUNNING:
        see((live.folder.path / "gate").exists, "the gate")
        (live.folder.path / "gate").write_text("\n")
    gone(supervisor, live)


@pytest.mark.parametrize(
    ("point", "known", "runs"),
    [
        ("folder made", False, 1),  # nothing was promised: the controller's next word starts it
        ("launch written", False, 1),  # nor was anything here: no shim can be on its way
        ("shim log made", True, 0),  # nobody can tell whether one is: lost, and it stays out
        ("shim spawned", True, 1),  # it never needed us
    ],
)
def test_an_agent_that_dies_while_it_starts(
    home: Path, point: str, known: bool, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was launched is attached to, what was not is started; once."""
    monkeypatch.setattr(watching, "START_S", PATIENCE_S if runs else 0.5)
    one = shell(0, RUN)
    crash(home, one, point)
    second = Supervisor(home)
    assert (second.find(0, 1) is not None) == known
    live = second.start(one)
    until(second, live, {PartStatus.RUNNING, PartStatus.LOST})
    assert (live.status is PartStatus.RUNNING) == bool(runs)
    finish(second, live)
    assert second.start(one) is live
    assert len(lines(live.folder.path / "runs")) == runs
    second.close()


@pytest.mark.parametrize("edit", [{"boot": "another"}, {"boot": None}], ids=["power cut", "older agent"])
def test_what_may_have_begun_is_not_started_again(
    home: Path, edit: dict[str, str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shim's log that is not there proves nothing after a power cut, nor where nobody noted the boot."""
    monkeypatch.setattr(watching, "START_S", 0.5)
    one = shell(0, RUN)
    crash(home, one, "launch written")
    launch = home / "attempts" / "0" / "1" / "launch.json"
    launch.write_text(json.dumps(json.loads(launch.read_text()) | edit))
    second = Supervisor(home)
    live = second.start(one)
    gone(second, live)
    assert live.status is PartStatus.LOST
    assert lines(live.folder.path / "runs") == []
    second.close()


@pytest.mark.parametrize(
    ("point", "status", "ran"),
    [
        ("shim started", PartStatus.LOST, False),
        ("lock taken", PartStatus.LOST, False),
        ("shim forked", PartStatus.LOST, False),
        ("shim written", PartStatus.LOST, False),
        ("logs opened", PartStatus.LOST, False),
        ("rank started", PartStatus.LOST, None),  # the rank may have come so far or not
        ("ranks started", PartStatus.LOST, None),
        ("ranks.json unnamed", PartStatus.LOST, None),
        ("ranks written", PartStatus.LOST, None),
        ("all ended", PartStatus.LOST, True),
        ("exit.json unnamed", PartStatus.LOST, True),
        ("exit renamed", PartStatus.ENDED, True),
    ],
)
@pytest.mark.parametrize("watched", [True, False], ids=["watched", "found"])
def test_a_shim_that_dies(
    home: Path,
    point: str,
    status: PartStatus,
    ran: bool | None,
    watched: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before its record has its name the attempt is lost, by the machine's fault; after that it has ended."""
    monkeypatch.setenv(VARIABLE, point)
    monkeypatch.setattr(watching, "START_S", 0.5 if ran is False else PATIENCE_S)
    first = Supervisor(home)
    one = shell(0, "echo ran >> $ROTA_ATTEMPT_DIR/runs; exit 5")
    live = first.start(one)
    if not watched:
        first.close()
        first = Supervisor(home)
        (live,) = first.known()
    gone(first, live)
    assert live.status is status
    assert live.end is not None
    assert live.end.infrastructure == (status is PartStatus.LOST)
    assert live.end.code == (5 if status is PartStatus.ENDED else None)
    runs = lines(live.folder.path / "runs")
    assert len(runs) <= 1
    assert ran is None or bool(runs) == ran
    monkeypatch.delenv(VARIABLE)
    assert first.start(one) is live
    first.close()
    second = Supervisor(home)
    again = second.start(one)
    assert (again.status, again.end, again.why) == (live.status, live.end, live.why)
    assert lines(live.folder.path / "runs") == runs
    second.close()


ON_THE_WAY = [
    ("suspend", "suspend written", PartStatus.SUSPENDED),  # noted, not yet stopped: stopped now
    ("resume", "place written", PartStatus.SUSPENDED),
    ("resume", "thawed", PartStatus.SUSPENDED),  # not noted: the controller says it again
    ("stop", "notice written", PartStatus.RUNNING),  # no plan yet: the controller says it again
    ("stop", "stop written", PartStatus.LEAVING),
    ("stop", "signalled", PartStatus.LEAVING),
    ("stop", "signalled:2", PartStatus.LEAVING),
    ("suspend and stop", "stop written", PartStatus.LEAVING),  # wakes up to hear its SIGTERM
    ("lose", "verdict written", PartStatus.LOST),
]
IN_BOTH = [
    # Those that wait for the end of their grace do so once here, and with the other shim in the soak.
    pytest.param(
        shim, *row, marks=[pytest.mark.soak] * (shim == "interpreted" and row[2] is PartStatus.LEAVING)
    )
    for shim in ("interpreted", "compiled")
    for row in ON_THE_WAY
]


@pytest.mark.parametrize(("shim", "what", "point", "status"), IN_BOTH, indirect=["shim"])
def test_an_agent_that_dies_on_the_way(home: Path, what: str, point: str, status: PartStatus) -> None:
    """The attempt is where the last durable step left it; a stop goes on by itself."""
    trap = "trap 'echo told > $ROTA_ATTEMPT_DIR/told' TERM"
    one = shell(0, f"{trap}; echo ran >> $ROTA_ATTEMPT_DIR/runs; while :; do sleep 0.02; done")
    crash(home, one, point, what)
    second = Supervisor(home)
    live = second.start(one)
    assert live.status is status
    if status is PartStatus.SUSPENDED:
        second.resume(live)
        assert live.status is PartStatus.RUNNING
    if status is PartStatus.LEAVING:
        gone(second, live)
        assert live.end is not None
        assert live.end.signal == signal.SIGKILL
        assert lines(live.folder.path / "told") == ["told"]
    assert lines(live.folder.path / "runs") == ["ran"]
    second.close()


def test_a_shim_that_comes_late_stays_out(home: Path) -> None:
    """The attempt is lost already, so its devices are another's: the record under the lock says so."""
    one = shell(0, RUN)
    first = Supervisor(home)
    live = first.start(one)
    finish(first, until(first, live, {PartStatus.RUNNING}))
    folder = live.folder.path
    for name in ("shim.json", "ranks.json", "exit.json"):  # as if no shim had ever come
        (folder / name).unlink()
    os.utime(folder / "launch.json", (0, 0))
    first.close()
    second = Supervisor(home)
    (lost,) = second.known()
    assert lost.status is PartStatus.LOST
    program = Path(watching.__file__).with_name("shim.py")
    late = subprocess.run([sys.executable, "-I", "-S", str(program), str(folder)], check=False, timeout=60)
    assert late.returncode == 75
    assert lines(folder / "runs") == ["ran"]
    second.close()


def commandline(pid: int) -> bytes:
    """Empty once the process is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


@pytest.mark.soak
@pytest.mark.parametrize("victim", ["agent", "shim", "both"])
def test_kills_at_random_moments(home: Path, victim: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty attempts: each runs at most once, and its state is settled."""
    monkeypatch.setattr(watching, "START_S", 0.5)
    rng = random.Random(f"kills of {victim}")
    for row in range(30):
        one = shell(row, "echo ran >> $ROTA_ATTEMPT_DIR/runs; sleep 0.03; exit 5")
        delay_s = rng.uniform(0.0, 0.08)
        agent = os.fork()
        if not agent:
            try:
                first = Supervisor(home)
                first.start(one)
                while True:
                    first.wait(None)
            finally:
                os._exit(1)  # whatever happens: there is one test run
        time.sleep(delay_s)
        folder = home / "attempts" / str(row) / "1"
        if victim != "agent":
            for pid in strays(folder, None):
                if b"shim.py" in commandline(pid) or b"rota-shim" in commandline(pid):
                    os.kill(pid, signal.SIGKILL)
        if victim == "shim":
            see((folder / "launch.json").exists, "a launch")
        os.kill(agent, signal.SIGKILL)
        os.waitpid(agent, 0)
        second = Supervisor(home)
        live = gone(second, second.start(one))
        assert live.end is not None
        assert live.end.code == (5 if live.status is PartStatus.ENDED else None)
        assert len(lines(folder / "runs")) <= 1, f"kills of {victim}, row {row}, after {delay_s} s"
        assert second.start(one) is live
        second.close()
