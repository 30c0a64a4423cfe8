"""The terminal of a job's first process, as both shims make it: typed, printed, looked at and left."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path

import pytest
from test_shim import Attempt, attempt, compiled, sh

from attempts import see
from rota.engines.rota.identity import ProcessIdentity, Stat
from rota.engines.rota.processes import end_session, ignores, nudge
from rota.engines.rota.terminals import connect

pytestmark = pytest.mark.slow
__all__ = ["attempt", "compiled"]
PATIENCE_S = 60.0


class Viewer:
    """Somebody who looks in from a place on."""

    def __init__(self, folder: Path, seen: int = 0) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(PATIENCE_S)
        connect(self.socket, folder)
        self.socket.send(b"V%d" % seen)
        self.place = int(self.socket.recv(100))
        self.text = b""

    def type(self, text: str) -> None:
        self.socket.send(b"D" + text.encode())

    def sees(self, text: str) -> str:
        """All that was printed, once `text` is in it."""
        until_s = time.monotonic() + PATIENCE_S
        while text.encode() not in self.text:
            data = self.socket.recv(1 << 16)
            assert data, f"it was closed; printed was {self.text!r}, not {text!r}"
            assert time.monotonic() < until_s, f"printed was {self.text!r}, not {text!r}"
            self.text += data
        return self.text.decode()

    def rest(self) -> str:
        """All that is printed until the end."""
        while data := self.socket.recv(1 << 16):
            self.text += data
        return self.text.decode()


@pytest.fixture
def terminal(attempt: Attempt) -> Attempt:
    """An attempt whose first process has a terminal."""
    return attempt


def begin(terminal: Attempt, *command: str, **other: object) -> Attempt:
    terminal.launch(*command, terminal=True, **other)
    assert terminal.start() == 0
    see((terminal.path / "terminal.sock").exists, "a terminal")
    terminal.ranks()
    return terminal


def test_what_is_typed_is_read_and_what_is_printed_is_seen(terminal: Attempt) -> None:
    """It is a terminal to the program; its log has all of it; its end ends the viewer's connection."""
    begin(terminal, *sh("test -t 0 -a -t 1 -a -t 2 && echo tty; read line; echo got $line; exit 3"))
    viewer = Viewer(terminal.path)
    viewer.sees("tty")
    viewer.type("hello\n")
    assert viewer.rest() == "tty\r\nhello\r\ngot hello\r\n"
    assert terminal.record()["ranks"][0]["code"] == 3
    assert (terminal.path / "logs" / "rank-0.log").read_bytes() == viewer.text


def test_keys_are_signals_and_sizes_are_told(terminal: Attempt) -> None:
    """It is the controlling terminal: Ctrl-C interrupts what is in front, a change of size is told."""
    begin(
        terminal,
        *sh("trap 'echo size $(stty size)' WINCH; trap 'echo int; exit 7' INT; echo ready; cat; cat; :"),
    )
    viewer = Viewer(terminal.path)
    viewer.sees("ready")
    viewer.socket.send(b"W50 132")
    viewer.type("\x04")
    viewer.sees("size 50 132")
    viewer.type("there\n")
    viewer.sees("there\r\nthere")  # the second `cat` reads: until then an interrupt could miss it
    viewer.type("\x03")
    viewer.sees("int")
    assert terminal.record()["ranks"][0]["code"] == 7


def test_a_program_that_closes_its_terminal_goes_on(terminal: Attempt) -> None:
    """As one whose output goes to a file of its own: it was hung up as soon as nobody had its end open."""
    begin(terminal, *sh("echo one; exec < /dev/null > out 2>&1; sleep 0.3; echo two; exit 4"))
    viewer = Viewer(terminal.path)
    assert viewer.rest() == "one\r\n"
    (end,) = terminal.record()["ranks"]
    assert (end["code"], end["signal"]) == (4, None)


def test_who_comes_back_sees_what_was_printed_since(terminal: Attempt) -> None:
    """From the place where they were; others from the beginning; the newest puts out the one before."""
    begin(terminal, *sh("echo one; read x; echo two; read x; echo three; read x"))
    first = Viewer(terminal.path)
    first.sees("one")
    first.socket.close()
    log = terminal.path / "logs" / "rank-0.log"
    second = Viewer(terminal.path, len("one\r\n"))
    assert second.place == len("one\r\n")
    second.type("\n")
    assert second.sees("two").strip() == "two"
    third = Viewer(terminal.path)
    assert third.place == 0
    assert third.sees("two").startswith("one")
    assert second.socket.recv(10) == b""
    third.type("\n")
    third.sees("three")
    see(lambda: "three" in log.read_text(), "the log")


def test_a_flood_is_seen_whole_by_a_slow_viewer(terminal: Attempt) -> None:
    """The program waits for its viewer; what the shim holds is bounded."""
    begin(terminal, *sh("read x; seq 1 200000; echo last"))
    viewer = Viewer(terminal.path)
    viewer.type("\n")
    time.sleep(0.2)
    text = viewer.rest()
    assert text.split() == [*map(str, range(1, 200001)), "last"]


def test_without_a_viewer_the_program_goes_on(terminal: Attempt) -> None:
    """Only the end of what it printed is kept for whoever comes, the log has it all."""
    begin(terminal, *sh("seq 1 200000; echo last; read x"))
    see(lambda: "last" in terminal.log(), "the log")
    viewer = Viewer(terminal.path)
    assert viewer.sees("last\r\n").endswith("199999\r\n200000\r\nlast\r\n")
    assert len(viewer.text) == 1 << 15
    assert viewer.place + len(viewer.text) == len((terminal.path / "logs" / "rank-0.log").read_bytes())


def test_a_log_limit_holds_and_the_viewer_sees_all(terminal: Attempt) -> None:
    begin(terminal, *sh("read x; seq 1 20000"), log_limit=10_000)
    viewer = Viewer(terminal.path)
    viewer.type("\n")
    assert len(viewer.rest()) > 100_000
    terminal.record()
    assert len(terminal.log()) < 10_200


def test_a_shell_that_is_told_to_go_goes(terminal: Attempt) -> None:
    """It is deaf to SIGTERM, so it is hung up on; what runs in it has a group of its own and gets SIGTERM."""
    begin(terminal, "bash", "--norc", "-i", env={"PATH": os.environ["PATH"], "PS1": "> ", "TERM": "dumb"})
    viewer = Viewer(terminal.path)
    viewer.type("sleep 1000 & echo pid $! e''nd\n")
    pid = int(viewer.sees(" end\r\n").rpartition("pid ")[2].split()[0])
    viewer.type("sleep 2000\n")
    (leader,) = terminal.ranks()
    see(lambda: ignores(leader.pid, signal.SIGTSTP), "a shell with job control")
    # Until it has become its program, what the shell has forked is as deaf as the shell.
    see(lambda: programs_under(leader.pid) == ["sleep", "sleep"], "both programs")
    end_session(terminal.identity().pid, leader.pid)
    see(lambda: is_over(terminal, leader), "an exit record")
    assert not leader.alive()
    stat = Stat.of(pid)
    assert stat is None or stat.dead


def is_over(terminal: Attempt, leader: ProcessIdentity) -> bool:
    """Nudges the shell as the agent does: a bash on its way to the prompt may sleep on what it was told."""
    nudge([leader.pid] if leader.alive() else [])
    return (terminal.path / "exit.json").exists()


def programs_under(pid: int) -> list[str]:
    """What the children of a process are running."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [Path(f"/proc/{child}/comm").read_text().strip() for child in children]


def test_nothing_is_shown_before_the_viewer_knows_from_where(terminal: Attempt) -> None:
    """What is printed between its coming and its first word is shown once, after the place."""
    begin(terminal, *sh("echo one; read line; echo two; read line"))
    see(lambda: "one" in terminal.log(), "the program's first word")  # the terminal echoes what comes sooner
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as viewer:
        viewer.settimeout(PATIENCE_S)
        connect(viewer, terminal.path)
        viewer.send(b"Dgo\n")
        see(lambda: "two" in terminal.log(), "what is printed meanwhile")
        viewer.send(b"V0")
        assert viewer.recv(100) == b"0"
        shown = viewer.recv(1 << 16).decode()
    assert shown.startswith("one\r\n")
    assert shown.count("two") == 1


def test_ranks_die_with_their_shim_at_a_terminal_too(terminal: Attempt) -> None:
    begin(terminal, *sh("sleep 1000 & echo ready; wait"))
    viewer = Viewer(terminal.path)
    viewer.sees("ready")
    (leader,) = terminal.ranks()
    os.kill(terminal.identity().pid, signal.SIGKILL)
    see(lambda: not leader.alive(), "the end of the program")
    assert viewer.socket.recv(10) == b""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can do that")
def test_only_the_agent_may_connect(terminal: Attempt) -> None:
    """The job's user may enter the folder, and has the terminal itself."""
    nobody = {"uid": 65534, "gid": 65534, "groups": [65534]}
    terminal.path.chmod(0o711)
    begin(terminal, *sh("stat -c '%u %a' $(tty); read x"), user=nobody)
    assert (terminal.path / "terminal.sock").stat().st_mode & 0o177 == 0
    viewer = Viewer(terminal.path)
    viewer.sees("65534 600")
