"""Who gets the notice signal: the processes that do something about it, and none that would die of it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from attempts import gone, part, running, see
from rota.engines.rota.supervisor import Supervisor
from rota.wire.sync import Notice

pytestmark = pytest.mark.slow
HEARS = """
import signal, sys, time
signal.signal(signal.SIGUSR1, lambda number, frame: (print(sys.argv[1], "heard", flush=True), sys.exit(0)))
open(sys.argv[2], "w").close()
time.sleep(60)
"""
DEAF = "import sys, time; open(sys.argv[2], 'w').close(); time.sleep(60)"
WAITS = """
import signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
open(sys.argv[2], "w").close()
print(sys.argv[1], "heard", signal.Signals(signal.sigwait({signal.SIGUSR1})).name)
"""
BELOW = """
import subprocess, sys
sys.exit(subprocess.call([sys.executable, "-c", sys.argv[3], "worker", sys.argv[2]]))
"""


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    made = Supervisor(tmp_path / "agent")
    yield made
    for live in made.known():
        made.kill(live)
        gone(made, live)
    made.close()


def program(code: str, name: str, *more: str) -> str:
    """A command of the shell that runs `code`; `up` appears once it is ready."""
    return f"{sys.executable} -c {shlex.quote(code)} {name} $ROTA_ATTEMPT_DIR/up {shlex.join(more)}"


TRAP = "trap 'echo shell heard; kill $!; exit 3' USR1"
CASES: dict[str, tuple[str, str, str]] = {
    "children: below the shell": ("children", f"{program(HEARS, 'python')}; echo on", "python heard\non\n"),
    "children: not the shell": (
        "children", f"{TRAP}; {program(HEARS, 'python')}; echo on", "python heard\non\n",
    ),
    "children: below what does not hear it": (
        "children", f"{program(BELOW, 'launcher', HEARS)}; echo on", "worker heard\non\n",
    ),
    "children: in a shell below": (
        "children", "sh -c \"$IN\"; echo on", "python heard\non\n",
    ),
    "rank: the shell only": ("rank", f"{TRAP}; {program(HEARS, 'python')} & wait", "shell heard\n"),
    "auto: the shell that hears it": ("auto", f"{TRAP}; {program(HEARS, 'python')} & wait", "shell heard\n"),
    "auto: below a shell that does not": (
        "auto", f"{program(HEARS, 'python')}; echo on", "python heard\non\n",
    ),
    "auto: the program itself": ("auto", f"exec {program(HEARS, 'python')}", "python heard\n"),
    "auto: it waits for it": ("auto", f"exec {program(WAITS, 'python')}", "python heard SIGUSR1\n"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_who_hears_a_notice(supervisor: Supervisor, case: str) -> None:
    to, script, said = CASES[case]
    env = {"IN": f"{program(HEARS, 'python')}; exit 0"}
    one = part(0, "go", script=f"#!/bin/bash\n{script}\n", notice_to=to, env=env)
    live = running(supervisor, supervisor.start(one))
    see((live.folder.path / "up").exists, "a program")
    supervisor.stop(live, Notice(reason="timeout"), grace_s=30, notice_s=30, signal="USR1")
    gone(supervisor, live)
    assert live.folder.log(0).read_text() == said


def test_nothing_dies_of_a_notice(supervisor: Supervisor) -> None:
    """It waits for a process that handles it, until SIGTERM comes."""
    live = running(supervisor, supervisor.start(part(0, "sh", "-c", f"{program(DEAF, 'python')}; echo on")))
    see((live.folder.path / "up").exists, "a program")
    supervisor.stop(live, Notice(reason="timeout"), grace_s=30, notice_s=0.6, signal="USR1")
    supervisor.wait(0.4)
    assert all(one.alive() for one in live.ranks.values())
    gone(supervisor, live)
    assert live.end is not None
    assert live.end.signal == 15


def test_a_program_that_still_starts_hears_it_once_it_can(supervisor: Supervisor, tmp_path: Path) -> None:
    script = f"#!/bin/bash\nuntil [ -e {tmp_path / 'go'} ]; do sleep 0.02; done\n{program(HEARS, 'python')}\n"
    live = running(supervisor, supervisor.start(part(0, "go", script=script, notice_to="children")))
    supervisor.stop(live, Notice(reason="timeout"), grace_s=30, notice_s=30, signal="USR1")
    supervisor.wait(0.1)
    (tmp_path / "go").touch()
    gone(supervisor, live)
    assert live.folder.log(0).read_text() == "python heard\n"
