"""Limits of connections: their number, the time to send a request, and the time to read an answer.

A new connection is not authenticated yet: half a request must not keep others out.  An address that has its
most gets a new connection in place of its oldest one without a pending request; the UNIX socket has
descriptors of its own, which connections to the port cannot use up.
"""

from __future__ import annotations

import asyncio
import resource
import socket
from typing import Any, Protocol

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_S = 10.0
"""From the connection, or a request's first byte, to the end of its headers."""
BODY_S = 60.0
"""From there to the end of its body."""
WRITE_S = 30.0
"""Without reading anything of an answer."""
UNREAD_BYTES = 1 << 18
"""Of an answer that the kernel holds: little, so that it shows whether the other end reads."""
RESERVED = 320
"""Descriptors that connections leave: the store, the policy, files, and those that are just being closed."""
AT_ONCE = 32
"""Connections accepted without a check of their number: there is always room for these."""
MOST_DESCRIPTORS = 65_536
MOST, MOST_AT_SOCKET, LEAST = 8192, 1024, 16
MOST_OF_ONE = 1024
"""Connections of one address, or one account at the UNIX socket; never more than three quarters of all."""
_FULL = b'{"error": "too many connections are open from here; try again in a second"}'
_LATE = b'{"error": "the request did not come in time"}'


class Connection(Protocol):
    """One of them, as the count knows it."""

    def drop(self) -> None:
        """Close it now."""
        ...


class Connections:
    """Open connections by caller, oldest first; those that wait for an answer are kept apart."""

    def __init__(self, most: int, most_of_one: int | None = None) -> None:
        self.most = most
        self.most_of_one = most_of_one or min(MOST_OF_ONE, max(1, most * 3 // 4))
        self.count = 0
        self._idle: dict[str, dict[Connection, None]] = {}
        self._busy: dict[str, set[Connection]] = {}

    def enter(self, who: str, one: Connection) -> bool:
        """Let one in, if need be in place of an idle one; False if all the others wait for answers."""
        while self.of(who) >= self.most_of_one:
            if not self._drop_idle(who):
                return False
        while self.count >= self.most:
            if not self._drop_idle(max(self._idle, key=lambda name: len(self._idle[name]), default="")):
                return False
        self._idle.setdefault(who, {})[one] = None
        self.count += 1
        return True

    def of(self, who: str) -> int:
        """How many of theirs are open."""
        return len(self._idle.get(who, ())) + len(self._busy.get(who, ()))

    def ask(self, who: str, one: Connection) -> None:
        """A request is there whole: it is not closed before it is answered."""
        if one in self._idle.get(who, {}):
            del self._idle[who][one]
            self._busy.setdefault(who, set()).add(one)

    def rest(self, who: str, one: Connection) -> None:
        """It has been answered."""
        if one in self._busy.get(who, ()):
            self._busy[who].discard(one)
            self._idle.setdefault(who, {})[one] = None

    def leave(self, who: str, one: Connection) -> None:
        """It is closed; nothing happens if it was taken off before."""
        idle, busy = self._idle.get(who, {}), self._busy.get(who, set())
        if one in idle or one in busy:
            idle.pop(one, None)
            busy.discard(one)
            self.count -= 1
        if not idle:
            self._idle.pop(who, None)
        if not busy:
            self._busy.pop(who, None)

    def _drop_idle(self, who: str) -> bool:
        oldest = next(iter(self._idle.get(who, ())), None)
        if oldest is None:
            return False
        self.leave(who, oldest)
        oldest.drop()
        return True


def raise_descriptors() -> None:
    """As many open files as the system lets this process have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def most_connections() -> tuple[int, int]:
    """To the port, and of other accounts to the UNIX socket: together they leave descriptors for all else."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MOST, MOST_AT_SOCKET
    left = soft - RESERVED
    at_socket = max(LEAST, min(MOST_AT_SOCKET, left // 4))
    return max(LEAST, min(MOST, left - at_socket)), at_socket


class JoinedWrites:
    """A transport that holds the head of an answer until its body, so that the reader is woken once.

    It waits no longer than this turn of the event loop: a stream's head leaves before its first message.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop, self._head = transport, loop, b""

    def write(self, data: bytes) -> None:
        """Send it with what waits; a head waits itself."""
        if not self._head and data.endswith(b"\r\n\r\n") and data.startswith(b"HTTP/1."):
            self._head = data
            self._loop.call_soon(self._flush)
        elif self._head:
            head, self._head = self._head, b""
            self._transport.write(head + data)
        else:
            self._transport.write(data)

    def close(self) -> None:
        """Once all is sent."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class CountedProtocol(H11Protocol):
    """HTTP/1.1 on a connection that is counted.

    It is closed if the other end does not send its request in time, or does not read the answer.
    """

    def __init__(
        self,
        *args: Any,
        header_s: float = HEADER_S,
        body_s: float = BODY_S,
        write_s: float = WRITE_S,
        **more: Any,
    ) -> None:
        super().__init__(*args, **more)
        self.counted: Connections | None = None
        """Among which it is counted; None if it is not."""
        self.who = ""
        self._header_s, self._body_s, self._write_s = header_s, body_s, write_s
        self._timer: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        """Runs while not all is read that was sent."""
        self._awaits: Any = None
        """The state of the request that the timer is about."""
        self._is_out = False

    def admit(self, transport: asyncio.Transport, counted: Connections | None, who: str) -> bool:
        """Count it; one too many gets a 503 and is closed."""
        self.transport = transport
        if counted is not None and not counted.enter(who, self):
            self._is_out = True
            transport.write(_refusal("503 Service Unavailable", _FULL))
            transport.close()
            return False
        self.counted, self.who = counted, who
        transport.set_write_buffer_limits(high=0)  # so that writing pauses as soon as anything is unread
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, UNREAD_BYTES)
        self._watch()
        return True

    def drop(self) -> None:
        """Close it now: another connection, or a newer answer, takes its place."""
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Part of a request."""
        if self._is_out:
            return
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """The next one may close it."""
        if self.counted is not None:
            self.counted.rest(self.who, self)
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is counted no longer."""
        self._stop_timer()
        self._stop_unread()
        if self.counted is not None:
            self.counted.leave(self.who, self)
        if not self._is_out:
            super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Part of the sent data is unread."""
        super().pause_writing()
        self._await_reader()

    def resume_writing(self) -> None:
        """All of it has been read."""
        self._stop_unread()
        super().resume_writing()

    def _await_reader(self) -> None:
        left = self.transport.get_write_buffer_size()
        self._unread = self.loop.call_later(self._write_s, self._look_whether_read, left)

    def _look_whether_read(self, before: int) -> None:
        """The other end continues to read, however slowly, or does not need the answer."""
        if self.transport.get_write_buffer_size() < before:
            self._await_reader()
        else:
            self.transport.abort()

    def _stop_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
        self._unread = None

    def _watch(self) -> None:
        """Time the wait for the rest of an incomplete request."""
        state = self.conn.their_state
        if state is not h11.IDLE and self.counted is not None:
            self.counted.ask(self.who, self)
        if state is self._awaits:
            return
        self._stop_timer()
        if state in (h11.IDLE, h11.SEND_BODY):
            self._awaits = state
            wait_s = self._header_s if state is h11.IDLE else self._body_s
            self._timer = self.loop.call_later(wait_s, self._give_up)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._awaits = None

    def _give_up(self) -> None:
        if self.conn.our_state is h11.IDLE:
            self.transport.write(_refusal("408 Request Timeout", _LATE))
        self.transport.close()


def _refusal(status: str, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode() + body
