"""Limits of one caller: bytes of a body, calls a second, concurrent calls.  Each is a small ASGI middleware.

All stand behind the gate (`rota.server.auth.AuthenticationGate`), so that strangers fill no buckets.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rota.server.callers import Caller

MIB = 1 << 20
MOST_BODY_BYTES = 4 * MIB
CALLS_PER_S = 1000.0
BURST_CALLS = 10_000.0
MOST_AT_ONCE = 4
MOST_UNREAD_BYTES = 32 * MIB
"""Of one caller's answers; the newest may be larger alone."""
PIECE_BYTES = 1 << 16
"""Of an answer, sent once those before it have been read."""
LONG = frozenset(
    f"/v1/{name}" for name in ("jobs", "history", "usage", "costs", "events", "policy/decisions", "whatif")
)
"""Questions here may take a second of the processor, and their answers megabytes until they are read."""


class BodyLimit:
    """Answers 413 to a request with a body larger than `most_bytes`, and reads no more than that of it."""

    def __init__(self, app: ASGIApp, most_bytes: int = MOST_BODY_BYTES) -> None:
        self._app = app
        self._most = most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the call on, or answer it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        length = headers.get("content-length", "")
        if "transfer-encoding" in headers:  # with which the server ignores the length
            whole = await self._read(receive)
            fits, receive = whole is not None, _replayed(whole or b"", receive)
        elif length.isdigit():  # the server holds the caller to it
            fits = len(length) <= 20 and int(length) <= self._most
        else:
            fits = True
        if fits:
            await self._app(scope, receive, send)
        else:
            sentence = f"the request is larger than {self._most / MIB:g} MiB, the most this controller takes"
            await _refused(413, sentence, {"Connection": "close"})(scope, receive, send)

    async def _read(self, receive: Receive) -> bytes | None:
        """The whole body, or None as soon as it is too large."""
        body = bytearray()
        while True:
            message = await receive()
            body += message.get("body", b"")
            if len(body) > self._most:
                return None
            if not message.get("more_body"):
                return bytes(body)


@dataclass(slots=True)
class _Bucket:
    calls: float
    at_s: float


class RateLimit:
    """Answers 429 to a user or agent that calls more often than `rates` allow."""

    def __init__(self, app: ASGIApp, rates: CallRates) -> None:
        self._app, self._rates = app, rates

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the call on, or answer it."""
        who: Caller | None = scope.get("identity")
        wait_s = self._rates.take((who.user, who.node)) if who is not None else 0.0
        if not wait_s:
            await self._app(scope, receive, send)
            return
        sentence = (
            f"too many calls: at most {self._rates.per_s:g} a second are answered; "
            f"try again in {wait_s:.1f} s"
        )
        await _refused(429, sentence, {"Retry-After": str(math.ceil(wait_s))})(scope, receive, send)


class CallRates:
    """Each caller's bucket of calls: `burst` together, `per_s` in the long run."""

    def __init__(
        self,
        per_s: float = CALLS_PER_S,
        burst: float = BURST_CALLS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.per_s = per_s
        self._burst = burst
        self._clock = clock
        self._buckets: dict[tuple[str, str], _Bucket] = {}

    def take(self, key: tuple[str, str]) -> float:
        """Take one call out of a bucket: 0, or the seconds until there is one again."""
        now_s = self._clock()
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _Bucket(self._burst, now_s)
        bucket.calls = min(self._burst, bucket.calls + (now_s - bucket.at_s) * self.per_s)
        bucket.at_s = now_s
        if bucket.calls >= 1.0:
            bucket.calls -= 1.0
            return 0.0
        return (1.0 - bucket.calls) / self.per_s


class LongQuestions:
    """Works on at most `most` long questions of one user together; further ones wait for their turn.

    So one user neither keeps other users waiting nor fills the memory.  A turn ends where the
    answer begins: a slow reader does not block the user's other questions.
    """

    def __init__(self, app: ASGIApp, most: int = MOST_AT_ONCE) -> None:
        self._app, self._most = app, most
        self._turns: dict[str, asyncio.Semaphore] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the call on when it is its turn."""
        who: Caller | None = scope.get("identity")
        is_submission = scope.get("method") == "POST" and scope["path"] == "/v1/jobs"
        if who is None or is_submission or scope["path"] not in LONG:
            await self._app(scope, receive, send)
            return
        turn = self._turns.setdefault(who.user, asyncio.Semaphore(self._most))
        await turn.acquire()
        is_over = False

        def end() -> None:
            nonlocal is_over
            if not is_over:
                is_over = True
                turn.release()

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.body":
                end()
            await send(message)

        try:
            await self._app(scope, receive, sent)
        finally:
            end()


class UnreadAnswers:
    """Sends answers piece by piece, as they are read, and holds at most `most_bytes` for one caller.

    A caller that leaves more unread loses the connection with the longest waiting answer; its next call is
    still answered.
    """

    def __init__(self, app: ASGIApp, most_bytes: int = MOST_UNREAD_BYTES) -> None:
        self._app, self._most = app, most_bytes
        self._unread: dict[tuple[str, str], dict[_Unread, None]] = {}
        """Of each caller, the oldest first."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the call on."""
        who: Caller | None = scope.get("identity")
        if who is None:
            await self._app(scope, receive, send)
            return
        key, drop = (who.user, who.node), scope.get("state", {}).get("drop")

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.body" and len(message.get("body", b"")) > PIECE_BYTES:
                await self._in_pieces(key, _Unread(len(message["body"]), drop), message, send)
            else:
                await send(message)

        await self._app(scope, receive, sent)

    async def _in_pieces(self, key: tuple[str, str], one: _Unread, message: Message, send: Send) -> None:
        body, has_more = message["body"], message.get("more_body", False)
        unread = self._unread.setdefault(key, {})
        unread[one] = None
        self._make_room(unread)
        try:
            for at in range(0, len(body), PIECE_BYTES):
                is_last = at + PIECE_BYTES >= len(body)
                piece = {"body": body[at : at + PIECE_BYTES], "more_body": has_more or not is_last}
                await send({"type": "http.response.body", **piece})
        finally:
            unread.pop(one, None)
            if not unread:
                self._unread.pop(key, None)

    def _make_room(self, unread: dict[_Unread, None]) -> None:
        """Drop one caller's oldest answers while they have too many bytes; keep the newest."""
        left = sum(one.bytes for one in unread)
        for one in list(unread)[:-1]:
            if left <= self._most:
                return
            left -= one.bytes
            del unread[one]
            if one.drop is not None:
                one.drop()


@dataclass(slots=True, eq=False)
class _Unread:
    """An answer that is being sent."""

    bytes: int
    drop: Callable[[], None] | None
    """Closes its connection."""


def _refused(status: int, sentence: str, headers: dict[str, str]) -> Response:
    return Response(json.dumps({"error": sentence}), status, headers, "application/json")


def _replayed(body: bytes, receive: Receive) -> Receive:
    """A receiver that gives the body again, then what really comes."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
