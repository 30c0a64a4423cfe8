"""The parent's end of a policy process: started, asked, killed."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from socket import AF_UNIX, SOCK_STREAM, socketpair
from typing import Any, BinaryIO

from rota.model.hangup import tell_of_hangups
from rota.model.one_thread import one_thread
from rota.server.policy.memory import SPENT, confine, most_gib
from rota.server.policy.messages import OutOfMemoryError, PipeError, receive, send

_log = logging.getLogger(__name__)
_SPAWNER = ThreadPoolExecutor(1, thread_name_prefix="policy-spawner")
"""Starts all children: the kernel kills them when the *thread* that started them ends."""
_CRASHES = (signal.SIGABRT, signal.SIGSEGV)
END_S = 0.2
"""Seconds for a process to end after its pipe is closed."""
READ_S = 10.0
"""Time for the rest of an answer once its first byte is there."""


class PolicyProcess:
    """One child, which runs `module` as a program.  Ask it from one thread at a time."""

    def __init__(
        self, log: Path | None = None, module: str = "rota.server.policy.process", memory_gib: float = 0.0
    ) -> None:
        """It may take `memory_gib` of memory, half of the machine's if that is 0."""
        self._most_gib = most_gib(memory_gib)
        self._pipe, theirs = socketpair(AF_UNIX, SOCK_STREAM)
        with theirs:
            try:
                self._process = _SPAWNER.submit(_start, theirs.fileno(), log, module).result()
            except OSError as error:
                self._pipe.close()
                raise PipeError(f"its process cannot be started ({error.strerror})") from None
        self.pid = self._process.pid
        confine(self.pid, self._most_gib)
        self._asked = 0
        self.is_broken = False
        """True if a message may be half sent; only killing helps."""

    def is_alive(self) -> bool:
        return not self.is_broken and self._process.poll() is None

    def ask(self, request: object, within_s: float) -> dict[str, Any]:
        """The answer to `request`; late answers to earlier ones are dropped.

        Raises TimeoutError, after which it may be asked again unless it `is_broken`; PipeError if it died or
        wrote something else than an answer; OutOfMemoryError if it has taken all that it may take.
        """
        deadline = time.monotonic() + within_s
        self._asked += 1
        try:
            send(self._pipe, (self._asked, request), deadline)
        except (PipeError, TimeoutError):
            self.is_broken = True
            raise
        while True:
            reply = self._next(deadline)
            tell_of_hangups(self._process)  # only now: one that has not begun yet would end of them
            if SPENT in reply:
                self.is_broken = True
                raise OutOfMemoryError(
                    f"it wanted more than {self._most_gib:g} GiB of memory, which is what the setting "
                    f"policy_memory_gib leaves it ({reply[SPENT]})"
                )
            if reply["number"] == self._asked:
                return reply

    def _next(self, deadline: float) -> dict[str, Any]:
        try:
            reply = receive(self._pipe, deadline, rest_s=READ_S)
        except PipeError as error:
            self.is_broken = True
            raise type(error)(f"{error}{self._end()}") from None
        if not isinstance(reply, dict) or not isinstance(reply.get("number"), int):
            self.is_broken = True
            raise PipeError("what came is no answer")
        return reply

    def _end(self) -> str:
        """The signal that ended it, in words that follow the observed failure; empty if there was none."""
        try:
            code = self._process.wait(timeout=END_S)
        except subprocess.TimeoutExpired:
            return ""
        if code >= 0:
            return ""
        by = signal.Signals(-code)
        limit = (
            f", as what wants more than its {self._most_gib:g} GiB of memory may" if by in _CRASHES else ""
        )
        return f"; its process ended by {by.name}{limit}"

    def kill(self) -> None:
        """End it and all processes that it started, immediately."""
        self.is_broken = True
        if self._process.poll() is None:
            try:
                os.killpg(self.pid, signal.SIGKILL)
            except ProcessLookupError:  # it has not become the leader of its group yet
                self._process.kill()
        self._process.wait()
        self._pipe.close()


def _start(fd: int, log: Path | None, module: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", module, str(fd), str(os.getpid())]
    with ExitStack() as stack:
        output = _opened(log)
        if output is not None:
            stack.enter_context(output)
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=[fd],
            env=one_thread(),
            start_new_session=True,
        )


def _opened(log: Path | None) -> BinaryIO | None:
    """The file for the policy's output; None, the controller's own output, if it cannot be written."""
    if log is None:
        return None
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        return log.open("ab")
    except OSError as error:
        _log.warning("%s cannot be written (%s); the policy prints to the controller", log, error.strerror)
        return None
