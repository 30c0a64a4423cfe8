"""Background processes of a cluster: how they are started, recognised and stopped."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile

from rota.errors import InputError, RotaError, WorldError

START_S = 60.0
"""Seconds within which a process has to answer."""
STOP_S = 20.0
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
FREE = "free some space there"
BLOCK = 4096
"""Least bytes that a file takes."""
WAITS = "waits for process"
"""Line that a controller or an agent logs if its predecessor still has the lock."""
UP_LOCK = "up.lock"
CONTROLLER_FILE, CONTROLLER_LOG, AGENT_LOG, AGENT_PID, AGENT_NODE, AGENT_DEVICES = (
    "controller.json",
    "logs/controller.log",
    "logs/agent.log",
    "agent/lock",
    "agent/node.json",
    "engines/rota/devices",
)


def make_home(where: Path) -> None:
    """ROTA_HOME with its logs; WorldError if it cannot be written."""
    try:
        where.mkdir(parents=True, exist_ok=True, mode=0o700)
        (where / "logs").mkdir(exist_ok=True)
        for log in (CONTROLLER_LOG, AGENT_LOG):
            (where / log).touch()
    except OSError as error:
        advice = FREE if error.errno in NO_ROOM else "let ROTA_HOME name a folder that you may write"
        raise WorldError(f"cannot write in {where}: {error.strerror}; {advice}") from None


@contextmanager
def only_one_starts(where: Path) -> Iterator[None]:
    """Keep other commands from starting processes of this home.

    Otherwise two concurrent `rota up` start two controllers and two agents: the second ones wait for the
    locks of the first, and take over when `rota down` stops it.
    """
    with open(where / UP_LOCK, "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("rota: waits for another `rota up` that is under way", file=sys.stderr, flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


class Started:
    """A process that outlives this one, its output at the end of `log`."""

    def __init__(
        self,
        what: str,
        module: str,
        log: Path,
        arguments: list[str],
        said: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`said` is its standard input, for secrets; without `environment` it inherits ours."""
        self.what, self.log = what, log
        with open(log, "ab") as out:
            self._offset = out.tell()
            self.process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
                start_new_session=True,
                close_fds=True,
                env=environment,
            )
        assert self.process.stdin is not None
        with (
            suppress(BrokenPipeError),
            self.process.stdin as stream,
        ):  # if it ends immediately, its output says why
            stream.write(said.encode())

    def said(self) -> str:
        """The output until now."""
        with open(self.log, "rb") as log:
            log.seek(self._offset)
            return log.read().decode(errors="replace")

    def wait_for(self, ready: Callable[[], bool]) -> None:
        """Wait until it is ready.  If it ends or takes too long, stop it and raise its last output."""
        until, is_told = time.monotonic() + START_S, False
        while time.monotonic() < until and self.process.poll() is None:
            if ready():
                return
            is_told = is_told or self._tell_for_whom_it_waits()
            time.sleep(0.05)
        code = self.process.poll()
        if code is None:
            stop(self.process.pid)
        said = self.said()
        if not said.endswith("\n") and (missing := no_room(self.log.parent)):
            raise WorldError(f"{self.what} does not start: {missing}")
        lines = said.strip().splitlines()
        ended = (
            f"it ended with code {code}" if code is not None else f"it does not answer within {START_S:g} s"
        )
        why = _sentence(last_error(lines)) if lines else f"{ended} and said nothing"
        kind = InputError if code == InputError.exit_code else WorldError
        raise kind(f"{self.what} does not start: {why} (see {self.log})")

    def _tell_for_whom_it_waits(self) -> bool:
        """Report that it waits for a predecessor that is still leaving, if it does."""
        sentences = map(_sentence, self.said().splitlines())
        sentence = next((said for said in sentences if WAITS in said), "")
        if sentence:
            print(f"rota: {self.what} {sentence[sentence.index(WAITS) :]}", file=sys.stderr, flush=True)
        return bool(sentence)


def no_room(folder: Path) -> str:
    """Why a process cannot write its log there, as a sentence; empty if it can."""
    try:
        with TemporaryFile(dir=folder) as probe:
            probe.write(bytes(BLOCK))
            probe.flush()
    except OSError as error:
        if error.errno in NO_ROOM:
            return f"it has no room to say why; cannot write in {folder}: {error.strerror}; {FREE}"
    return ""


def last_error(lines: Sequence[str]) -> str:
    """The line that says why, of all lines that a process wrote before it ended.

    The last one, if it is no line of the log; else the last error there, since behind it comes how a server
    is shut down.
    """
    if not lines[-1].startswith("{"):
        return lines[-1]
    return next((line for line in reversed(lines) if '"level": "error"' in line), lines[-1])


def _sentence(line: str) -> str:
    """The message of a structured line, or the line itself."""
    try:
        return str(json.loads(line).get("message", line))
    except (ValueError, AttributeError):
        return line


def answers(where: Path) -> bool:
    """True if the controller of this home answers."""
    from rota.client import Client

    socket = where / "controller.sock"
    if not socket.exists() or not (where / CONTROLLER_FILE).exists():
        return False
    try:
        with Client(str(socket), timeout_s=5) as client:
            client.call("GET", "/health")
    except RotaError:
        return False
    return True


def controller_pid(where: Path) -> int | None:
    """The controller of this home, if it runs."""
    try:
        pid = int(json.loads((where / CONTROLLER_FILE).read_text())["pid"])
    except (OSError, ValueError, KeyError):
        return None
    return pid if _is_ours(pid, "rota.server.main", where) else None


def agent_pid(where: Path) -> int | None:
    """The agent of this home, if it runs in the background and is not just leaving."""
    try:
        pid = int((where / AGENT_PID).read_text().strip())  # an agent that leaves writes no number
    except (OSError, ValueError):
        return None
    return pid if _is_ours(pid, "rota.engines.rota", where / "agent") else None


def dead_agent(where: Path) -> str:
    """Name of this machine's node if an agent has worked in this home and does so no more; else empty."""
    try:
        pid = int((where / AGENT_PID).read_text().split()[0])
        node = str(json.loads((where / AGENT_NODE).read_text())["name"])
    except (OSError, ValueError, KeyError, IndexError):
        return ""  # no agent has ever joined from here
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return node
    return "" if {b"rota.engines.rota", b"agent"} & set(words) else node


def left_running(where: Path) -> int:
    """Attempts of this home that run although its agent may not: their shims hold a lock."""
    from rota.engines.rota.folder import AgentFolder, seize

    folder, running = AgentFolder(where / "agent", where / "agent" / "checkpoints"), 0
    for row, attempt in folder.launched():
        lock = seize(folder.of(row, attempt))
        running += lock is None
        if lock is not None:
            os.close(lock)
    return running


def _is_ours(pid: int, module: str, folder: Path) -> bool:
    """True if the process is there and works in `folder`: numbers are used again, even by another cluster."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return module.encode() in words and os.fsencode(folder) in words


def stop(pid: int) -> bool:
    """Send SIGTERM, and SIGKILL if that is not enough; the state survives both."""
    try:
        os.kill(pid, signal.SIGTERM)
        until = time.monotonic() + STOP_S
        while Path(f"/proc/{pid}").exists() and time.monotonic() < until:
            if Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] == "Z":
                return True
            time.sleep(0.02)
        if Path(f"/proc/{pid}").exists():
            os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, FileNotFoundError):
        return True  # it has gone by itself
    except PermissionError:
        raise WorldError(f"process {pid} belongs to another user, and only that user can stop it") from None
    return True
