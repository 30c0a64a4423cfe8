"""The local end of the terminal of a job: raw bytes there and back, over connections that may break."""

from __future__ import annotations

import os
import select
import signal
import termios
import threading
import time
import tty
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

from rota.cli.live.job_output import NOT_NOW, PATIENCE_S
from rota.cli.live.tables import warn
from rota.errors import RotaError

if TYPE_CHECKING:
    from rota.client import Client
    from rota.wire.terminal import TerminalReply

WAIT_S, PAUSE_S, ANSWER_S = 20.0, 0.5, 10.0
PIECE, MOST_TYPED = 1 << 14, 1 << 16
LAST_WORDS_S = 2.0
"""Seconds to send the typed text before leaving."""
LEAVE, LEAVE_TIMES, LEAVE_S = b"\x1d", 3, 1.0
"""Ctrl-] three times within a second leaves the job to itself."""
NOT_FOUND = 404


class LocalTerminal:
    """One terminal here, one job there, and three threads: keys, typed text, printed text."""

    def __init__(
        self, client: Client, id: str, keys: int, screen: int, unanswered: Callable[[], str]
    ) -> None:
        """`keys` and `screen` are descriptors of this side's terminal.

        `unanswered` is asked why nothing is printed after something was typed; a sentence, or nothing.
        """
        self._unanswered = unanswered
        self._client, self._id, self._keys, self._screen = client, id, keys, screen
        self._changed = threading.Condition()
        self._typed = bytearray()
        self._sent = self._seen = 0
        self._doubtful = 0
        """Bytes that a controller may have passed on before it died, and which are not sent again."""
        self._session = ""
        self._is_over = self._is_left = False
        self._error: Exception | None = None
        self._resized = True
        self._left_s: list[float] = []
        self._wake, self._waker = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.why = ""
        """Why the session is over, if the job has not ended."""

    @property
    def has_shown(self) -> bool:
        """True if anything was printed."""
        return self._seen > 0

    def wait(self, wait_s: float) -> bool | None:
        """True once attached, False while the job has not begun; None if it is over."""
        reply = self._ask(wait_s)
        if reply.session:
            with self._changed:
                self._session, self._sent, self._resized = reply.session, 0, True
                dropped, self._doubtful = self._doubtful, 0
                del self._typed[:dropped]
            if dropped:
                self._say("what was typed when the connection broke may not have arrived")
            return True
        return None if reply.over else False

    def run(self) -> bool:
        """Until the terminal is closed (True), or left by its person (False).  Raises RotaError."""
        threads = [
            threading.Thread(target=self._guarded, args=(do,), daemon=True)
            for do in (self._print, self._type)
        ]
        answers = {signal.SIGWINCH: self._on_resize, signal.SIGTERM: _ended}
        before = {number: signal.signal(number, answer) for number, answer in answers.items()}
        mode = termios.tcgetattr(self._keys)
        try:
            tty.setraw(self._keys, termios.TCSADRAIN)  # keys typed before count
            for thread in threads:
                thread.start()
            self._read_keys()
        finally:
            termios.tcsetattr(self._keys, termios.TCSADRAIN, mode)
            for number, answer in before.items():
                signal.signal(number, answer)
        if self._is_left:
            self._leave()
        if self._error is not None:
            raise self._error
        return not self._is_left

    def _read_keys(self) -> None:
        """Send what is typed, until the session ends; pause reading while the program does not read."""
        while not self._is_over:
            with self._changed:
                has_room = len(self._typed) < MOST_TYPED
            ready, _, _ = select.select([self._wake, *([self._keys] if has_room else [])], [], [], 1.0)
            if self._wake in ready:
                os.read(self._wake, 4096)
            if self._keys not in ready:
                continue
            data = os.read(self._keys, PIECE)
            self._is_left = not data or self._wants_to_leave(data)
            with self._changed:
                self._typed += data.rstrip(LEAVE) if self._is_left else data
                self._changed.notify_all()
                if self._is_left:
                    self._changed.wait_for(lambda: not self._typed or self._is_over, LAST_WORDS_S)
            if self._is_left:
                self._finish()

    def _wants_to_leave(self, data: bytes) -> bool:
        """True if Ctrl-] was typed three times."""
        now, times = time.monotonic(), len(data) - len(data.rstrip(LEAVE))
        before = self._left_s if times == len(data) else []
        self._left_s = [*(at for at in before if now - at <= LEAVE_S), *[now] * times]
        return len(self._left_s) >= LEAVE_TIMES

    def _type(self) -> None:
        """Send keys and the size of the terminal."""
        while not self._is_over:
            with self._changed:
                while not (self._typed or self._resized or self._is_over):
                    self._changed.wait()
                session, at, data = self._session, self._sent, bytes(self._typed[:PIECE])
                resized, self._resized = self._resized, False
            if self._is_over:
                return
            reply = self._talk(session, at=at, data=data, **(self._size() if resized else {}))
            with self._changed:
                if reply is not None and self._session == session:
                    taken = max(0, min(reply.have - self._sent, len(self._typed)))
                    del self._typed[:taken]
                    self._doubtful = 0
                    self._sent += taken
                    self._changed.notify_all()
            if reply is None:  # another session is asked for
                time.sleep(PAUSE_S)

    def _print(self) -> None:
        """Show output; ask for another session if this one is lost."""
        from rota.wire.terminal import unpacked

        answered = 0
        while not self._is_over:
            reply = self._talk(self._session, seen=self._seen, wait_s=WAIT_S)
            if reply is None:
                if not self.wait(WAIT_S):
                    break
                continue
            data = unpacked(reply.data)
            self._seen = reply.at + len(data) if data else self._seen
            while data:
                data = data[os.write(self._screen, data) :]
            if reply.over:
                self.why = reply.why
                break
            if not reply.data and self._sent != answered and (said := self._unanswered()):
                self._say(said)
            answered = self._sent
        self._finish()

    def _talk(self, session: str, **said: Any) -> TerminalReply | None:
        """The controller's answer; None if there is no such session any more."""
        from rota.client import Refused

        try:
            return self._call({"session": session, **said})
        except Refused as refused:
            if refused.status != NOT_FOUND:
                raise
            return None

    def _ask(self, wait_s: float) -> TerminalReply:
        """A session, if the job runs."""
        return self._call({"seen": self._seen, "wait_s": wait_s, **self._size()})

    def _call(self, said: dict[str, Any]) -> TerminalReply:
        """One call, repeated while the controller is away."""
        from rota.client import Refused, Unreachable, route
        from rota.wire.terminal import TerminalReply, packed

        body = {**said, "data": packed(said.get("data", b""))}
        until_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                path, timeout_s = (
                    route("v1", "jobs", self._id, "terminal"),
                    said.get("wait_s", 0.0) + ANSWER_S,
                )
                answer = self._client.call("POST", path, body, timeout_s=timeout_s, idempotent=True)
                return TerminalReply.model_validate(answer)
            except (Unreachable, Refused) as error:
                if isinstance(error, Refused) and error.status not in NOT_NOW:
                    raise
                if isinstance(error, Unreachable) and error.was_sent:
                    self._doubtful = max(self._doubtful, len(said.get("data", b"")))
                if self._is_over or time.monotonic() > until_s:
                    raise
            time.sleep(PAUSE_S)

    def _leave(self) -> None:
        """Report that this terminal has left; a controller that is away notices it by itself."""
        from rota.client import Refused, Unreachable

        try:
            self._call({"session": self._session, "over": True})
        except (Unreachable, Refused) as error:
            warn(f"the controller has not heard that this terminal left: {error}")

    def _guarded(self, do: Any) -> None:
        try:
            do()
        except (RotaError, OSError) as error:
            self._error = self._error or (None if self._is_over else error)
            self._finish()

    def _finish(self) -> None:
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
        os.write(self._waker, b".")

    def _on_resize(self, number: int, frame: FrameType | None) -> None:
        self._resized = True
        threading.Thread(
            target=self._tell_resized, daemon=True
        ).start()  # a signal handler must not wait for a lock

    def _tell_resized(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _say(self, sentence: str) -> None:
        os.write(self._screen, f"\r\nrota: {sentence}\r\n".encode())  # a raw terminal needs both

    def _size(self) -> dict[str, int]:
        """The size of this terminal, or the largest that a controller accepts: some terminals report none."""
        from rota.wire.terminal import MOST_SIDE

        columns, rows = os.get_terminal_size(self._screen)
        return {"rows": min(rows, MOST_SIDE), "columns": min(columns, MOST_SIDE)}


def _ended(number: int, _: object) -> None:
    """Leave on a signal, by an exception, so that the terminal is restored."""
    raise SystemExit(128 + number)
