"""A network of one's own: the line between two programs, cut, slowed and mended."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

PIECE = 1 << 16
LOOK_S = 0.05
MODES = ("silent", "refused", "slow", "upward", "downward", "reset")
"""`silent`: nothing comes through, and arrives once the line is well; `refused`: connections are closed at
once; `slow`: each piece takes `SLOW_S`; `upward` and `downward`: the controller, or the agent, is told that
nothing more comes while the other way stays open; `reset`: what is under way is lost, new ones pass."""
SLOW_S = 0.7


class Line:
    """Listens on a port of this machine and passes on what comes to the port or socket that `target` says."""

    def __init__(self, target: Callable[[], int | str]) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        self.mode = ""
        """Empty while the line is well, else one of MODES."""
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, mode: str) -> None:
        """Have it like this from now on."""
        self.mode = mode if mode != "reset" else ""
        with self._lock:
            now = list(self._open)
        if mode in ("reset", "refused"):
            for one in now:
                _reset(one)
        if mode in ("upward", "downward"):
            for one in now[mode == "upward" :: 2]:  # agent's end, controller's end, agent's end, …
                with suppress(OSError):
                    one.shutdown(socket.SHUT_WR)

    def mend(self) -> None:
        """All well again: what was held arrives."""
        self.mode = ""

    def close(self) -> None:
        """No connection any more."""
        self._closed = True
        self._listener.close()
        self.cut("reset")

    def _accept(self) -> None:
        while not self._closed:
            try:
                agent, _ = self._listener.accept()
            except OSError:
                return
            if self.mode == "refused":
                _reset(agent)
                continue
            try:
                controller = _connected(self._target())
            except OSError:  # it is being started
                _reset(agent)
                continue
            controller.settimeout(None)
            with self._lock:
                self._open += [agent, controller]
            for one, other in ((agent, controller), (controller, agent)):
                threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        """What comes from `one`, until either end is closed."""
        try:
            while piece := one.recv(PIECE):
                if self.mode == "slow":
                    time.sleep(SLOW_S)
                while self.mode == "silent" and not self._closed:
                    time.sleep(LOOK_S)
                other.sendall(piece)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            _reset(one)
            _reset(other)


def _connected(target: int | str) -> socket.socket:
    """With a port of this machine, or the UNIX socket of a path; raises OSError."""
    if isinstance(target, int):
        return socket.create_connection(("127.0.0.1", target), timeout=5)
    one = socket.socket(socket.AF_UNIX)
    one.settimeout(5)
    try:
        one.connect(target)
    except OSError:
        one.close()
        raise
    return one


def _reset(one: socket.socket) -> None:
    """Close it, both ways, whoever waits for it."""
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
