"""Sessions with terminals of jobs on this machine: input goes to the shim, output to the person.

The shim keeps the terminal and its last output. Each session has two threads here, which carry bytes and
store only those on their way. If an agent dies, the next one takes up its sessions again.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

from rota.client.http import Refused, Unreachable
from rota.engines.rota.folder import TERMINAL, AgentFolder
from rota.engines.shared.link import ANSWER_S, Transport
from rota.wire.terminal import TerminalCall, TerminalReply, TerminalTalk, packed, unpacked

LOG = logging.getLogger("rota.engines.rota")
MOST_SAID = 1 << 14
"""Most bytes of one message to or from the shim."""
MOST_SESSIONS = 64
WAIT_S, PAUSE_S = 20.0, 0.3
AWAY_S = 60.0
"""Seconds after which a session with an unreachable controller ends."""
SEND_S = 30.0
"""Seconds after which a viewer is dropped if the program does not read its input."""


class AgentTerminals:
    """The sessions of one agent."""

    def __init__(self, home: AgentFolder, transport: Callable[[], Transport], path: str) -> None:
        """`path` is the route of the controller that takes output."""
        self._home, self._transport, self._path = home, transport, path
        self._lock = threading.Lock()
        self._sessions: set[str] = set()

    def take_up(self, call: TerminalCall) -> bool:
        """Take part in a session; False if it is already known, or if there are too many."""
        with self._lock:
            if call.session in self._sessions or len(self._sessions) >= MOST_SESSIONS:
                return False
            self._sessions.add(call.session)
        threading.Thread(target=self._run, args=(call,), name="rota-terminal", daemon=True).start()
        return True

    def _run(self, call: TerminalCall) -> None:
        session = _Session(call, self._transport, self._path)
        try:
            session.run(self._home.of(call.row, call.attempt).path)
        except Exception as error:  # any exception: it must not affect the others
            LOG.warning("the terminal of job %d: %s", call.row + 1, error)
        finally:
            with self._lock:
                self._sessions.discard(call.session)


class _Session:
    """One person at one terminal."""

    def __init__(self, call: TerminalCall, transport: Callable[[], Transport], path: str) -> None:
        self._call, self._transport, self._path = call, transport, path
        self._shim = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._over = threading.Event()

    def run(self, folder: Path) -> None:
        """Run until the terminal is closed, or the controller ends the session."""
        with self._shim:
            place = 0
            try:
                connect(self._shim, folder)
                self._shim.send(b"V%d" % self._call.seen)
                place = int(self._shim.recv(MOST_SAID) or b"0")
            except OSError:  # it has ended meanwhile
                self._over.set()
            self._shim.settimeout(SEND_S)
            listener = threading.Thread(target=self._listen, name="rota-typed", daemon=True)
            if not self._over.is_set():
                listener.start()
                self._tell(place)
            self._say(TerminalTalk(session=self._call.session, over=True))
            self._over.set()
            if listener.ident is not None:
                listener.join(WAIT_S + ANSWER_S)

    def _tell(self, place: int) -> None:
        """Send output as it comes."""
        while not self._over.is_set():
            try:
                data = self._shim.recv(MOST_SAID)
            except TimeoutError:
                continue
            except OSError:
                return
            if not data:
                return
            end = place + len(data)
            while place < end:
                said = TerminalTalk(session=self._call.session, at=place, data=packed(data[place - end :]))
                reply = self._say(said)
                if reply is None or reply.over:
                    return
                place = max(place, min(reply.have, end))

    def _listen(self) -> None:
        """Receive input, and the size of the person's terminal."""
        seen = 0
        while not self._over.is_set():
            reply = self._say(TerminalTalk(session=self._call.session, seen=seen, wait_s=WAIT_S))
            if reply is None or reply.over:
                break
            data = unpacked(reply.data)
            seen = reply.at + len(data)
            try:
                if reply.rows:
                    self._shim.send(b"W%d %d" % (reply.rows, reply.columns))
                for i in range(0, len(data), MOST_SAID - 1):
                    self._shim.send(b"D" + data[i : i + MOST_SAID - 1])
            except OSError:
                break
        self._over.set()
        try:
            self._shim.shutdown(socket.SHUT_RDWR)  # wakes a thread that waits for it
        except OSError:
            return

    def _say(self, said: TerminalTalk) -> TerminalReply | None:
        """The controller's answer; None without such a session, or if the controller is away for too long."""
        until_s = time.monotonic() + AWAY_S
        while True:
            try:
                answer = self._transport().call(
                    "POST", self._path, said, timeout_s=said.wait_s + ANSWER_S, idempotent=True
                )
                return TerminalReply.model_validate(answer)
            except Unreachable:
                if time.monotonic() > until_s:
                    return None
            except Refused as refused:
                if refused.status not in (429, 502, 503, 504):
                    return None
            if self._over.wait(PAUSE_S) and not said.over:
                return None


def connect(shim: socket.socket, folder: Path) -> None:
    """Connect to the terminal of an attempt; raises OSError.  The folder's path may be of any length."""
    above = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        shim.connect(f"/proc/self/fd/{above}/{TERMINAL}")
    finally:
        os.close(above)
