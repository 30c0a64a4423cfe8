"""HTTP/1.1, read by llhttp (C), one request at a time, and none that two readers could read differently.

A proxy in front and this server have to agree where a request ends.  What llhttp lets through and has more
than one reading is refused: no or two hosts, a length beside chunks, chunks below other codings; fields
behind the chunks are not heard.  What comes before the request before has its answer waits unread.
"""

from __future__ import annotations

import asyncio
import re
from enum import Enum
from typing import Any
from urllib.parse import unquote

from httptools import HttpParserError, HttpParserUpgrade
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

MOST_HEAD_BYTES = 65_536
"""Of a request's line and headers; also of what surrounds chunks, from one byte of the body to the next."""
_VERSIONS = ("1.1", "1.0")
_FRAMING = frozenset({b"host", b"transfer-encoding", b"content-length", b"expect"})
_LENGTH = re.compile(rb"[0-9]{1,20}")
_HOPELESS = re.compile(rb"\A[^!-~\r\n]|(?<!\r)\n")
"""What begins like this (TLS, say) or ends its lines so becomes no head, however long one waits."""
_UNREADABLE = b'{"error": "this is no request of HTTP/1.1 that can be read"}'
_LONG = b'{"error": "the line and the headers of a request take at most 64 KiB"}'


class Awaited(Enum):
    """What a connection waits for."""

    HEAD = "line and headers of a request"
    BODY = "its body"
    ANSWER = "what is to be answered"
    END = "nothing that could be said"


class StrictProtocol(HttpToolsProtocol):
    """One connection; `awaits` says how far its present request has come."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.awaits = Awaited.HEAD
        self._rest = b""
        """Received and not yet given to the parser."""
        self._left: int | None = 0
        """Bytes of the body that are to come; None if it comes in chunks."""
        self._dry = 0
        """Bytes since the last one that was part of a body."""
        self._may_begin = False
        """Whether the parser has been given the head of a request, and nothing behind it."""
        self._framing: list[tuple[bytes, bytes]] = []

    def data_received(self, data: bytes) -> None:
        """Part of a request, or of several."""
        self._unset_keepalive_if_required()
        if self.awaits is not Awaited.END:
            self._rest = self._rest + data if self._rest else data
            self._read()

    def _read(self) -> None:
        while self._rest and self.awaits is not Awaited.END and not self.transport.is_closing():
            if self.awaits is Awaited.ANSWER:
                self.flow.pause_reading()
                return
            if not (piece := self._head() if self.awaits is Awaited.HEAD else self._body()):
                return
            try:
                self.parser.feed_data(piece)
            except HttpParserUpgrade:  # to what this server does not speak: answered as if it had not asked
                pass
            except HttpParserError:
                self._misread()
                return

    def _head(self) -> bytes:
        """The head, once it is there; it is given to the parser as a whole."""
        rest = self._rest
        end = rest.find(b"\r\n\r\n") + 4
        if max(end, len(rest) if end < 4 else 0) > MOST_HEAD_BYTES:
            self._refuse("431 Request Header Fields Too Large", _LONG)
            return b""
        if end < 4:
            if _HOPELESS.search(rest):
                self._misread()
            return b""
        self._rest = rest[end:]
        self._may_begin = True
        return rest[:end]

    def _body(self) -> bytes:
        rest, self._may_begin = self._rest, False
        if self._left is None:
            self._rest = b""
            self._dry += len(rest)
            if self._dry - len(rest) > MOST_HEAD_BYTES:
                self._misread()
                return b""
            return rest
        self._rest = rest[self._left :]
        piece = rest[: self._left]
        self._left -= len(piece)
        return piece

    def on_message_begin(self) -> None:
        """The parser has seen a first byte."""
        if not self._may_begin:
            raise ValueError("behind the last chunk of a request another one begins")
        self._may_begin = False
        self._framing = []
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header; those behind chunks are not heard."""
        if self.awaits is Awaited.HEAD:
            field = (name.lower(), value.rstrip(b" \t"))
            self.headers.append(field)
            if field[0] in _FRAMING:
                self._framing.append(field)

    def on_headers_complete(self) -> None:
        """Begin to answer.  Raises ValueError for what is ambiguous, which the parser's caller hears of."""
        version, method = self.parser.get_http_version(), self.parser.get_method().decode("ascii")
        self._left, waits = _framed(version, self._framing)
        raw_path, _, query = self.url.partition(b"?")
        path = raw_path.decode("ascii")
        scope = self.scope
        scope["method"], scope["http_version"] = method, version
        scope["path"] = self.root_path + (unquote(path) if "%" in path else path)
        scope["raw_path"] = self.root_path.encode("ascii") + raw_path
        scope["query_string"] = query
        self.awaits, self._dry = Awaited.BODY, 0
        self.cycle = RequestResponseCycle(
            scope=self.scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=self.access_log,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=waits,
            keep_alive=version == "1.1" and self.parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )
        task = self.loop.create_task(self.cycle.run_asgi(self.app))
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)

    def on_body(self, body: bytes) -> None:
        """Part of it."""
        self._dry = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """All of it is here."""
        super().on_message_complete()
        self.awaits = Awaited.HEAD if self.cycle.response_complete else Awaited.ANSWER

    def on_response_complete(self) -> None:
        """The next one may come, if this one's body is here."""
        super().on_response_complete()
        if self.awaits is Awaited.ANSWER:
            self.awaits = Awaited.HEAD
        if self._rest:
            self._unset_keepalive_if_required()
            self._read()

    def _misread(self) -> None:
        self._refuse("400 Bad Request", _UNREADABLE)

    def _refuse(self, status: str, body: bytes) -> None:
        """Say so, if nothing has been said, and close; a request that is here whole is answered first."""
        part, self.awaits, self._rest = self.awaits, Awaited.END, b""
        cycle = self.cycle
        is_answered = cycle is None or cycle.response_complete
        if part is Awaited.ANSWER and not is_answered:
            cycle.keep_alive = False
            return
        self.logger.warning("Invalid HTTP request received.")
        if not is_answered:
            cycle.disconnected = True
            cycle.message_event.set()
        if part is Awaited.HEAD or not cycle.response_started:
            self.transport.write(refusal(status, body))
        self.transport.close()


def _framed(version: str, said: list[tuple[bytes, bytes]]) -> tuple[int | None, bool]:
    """Length of the body (None: chunks), and whether the caller waits to be told to send it.

    Raises ValueError if there is more than one reading.
    """
    if version not in _VERSIONS:
        raise ValueError(f"version {version}")
    fields: dict[bytes, bytes] = dict(said)
    if len(fields) != len(said) or (version == "1.1" and b"host" not in fields):
        raise ValueError("a field that must be there once is not, or twice")
    coding, length = fields.get(b"transfer-encoding"), fields.get(b"content-length")
    waits = version == "1.1" and fields.get(b"expect", b"").lower() == b"100-continue"
    if coding is not None:
        if version != "1.1" or coding.lower() != b"chunked" or length is not None:
            raise ValueError("chunks with something else")
        return None, waits
    if length is not None and not _LENGTH.fullmatch(length):
        raise ValueError("a length that is none")
    return int(length or 0), waits


def refusal(status: str, body: bytes) -> bytes:
    """An answer in JSON after which the connection is closed."""
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode() + body
