"""Size and rate: what is too much is refused, what is generous passes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from serving_toys import Stage, served
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rota.client import Refused
from rota.server.api.app import ApiSettings
from rota.server.callers import Caller
from rota.server.limits import BodyLimit, CallRates, LongQuestions, RateLimit, UnreadAnswers

SPEC = {"command": ["x"]}


def test_large_body(stage: Stage) -> None:
    """The answer arrives although the server reads none of it, and the next call works."""
    client = stage.client()
    for _ in range(3):
        with pytest.raises(Refused, match="larger than 4 MiB") as caught:
            client.call("POST", "/v1/jobs", {"spec": {"command": ["x" * (5 << 20)]}})
        assert caught.value.status == 413
    assert client.call("GET", "/v1/whoami")["name"] == "alice"


def test_body_that_just_fits(stage: Stage) -> None:
    env = {f"V{n}": "x" * 100_000 for n in range(41)}
    client = stage.client()
    job = client.call("POST", "/v1/jobs", {"spec": SPEC | {"env": env}})["jobs"][0]["id"]
    assert client.call("GET", f"/v1/jobs/{job}")["spec"]["env"] == env


@pytest.mark.parametrize("length", ["", "Content-Length: 2\r\n"], ids=["alone", "beside a length"])
def test_body_in_chunks(stage: Stage, length: str) -> None:
    """As much is read as is allowed, whatever length is said as well: chunks count."""
    head = f"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {stage.tokens['alice']}\r\n"
    head += f"Content-Type: application/json\r\n{length}Transfer-Encoding: chunked\r\n\r\n"
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"

    def send(chunks: int, last: bytes) -> str:
        with socket.create_connection(("127.0.0.1", stage.serving.port), 10) as sock:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # answered before all was sent
                sock.sendall(head.encode() + chunk * chunks + last)
            return sock.recv(65536).decode()

    body = json.dumps({"spec": SPEC}).encode()
    end = f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n"
    assert send(3, end).startswith("HTTP/1.1 201 ")
    assert send(80, end).startswith("HTTP/1.1 413 ")


@given(chunks=st.lists(st.binary(max_size=20), max_size=8), most=st.integers(0, 60), named=st.booleans())
def test_all_of_the_body_or_a_refusal(chunks: list[bytes], most: int, named: bool) -> None:
    """What the application reads is what was sent, however it was cut, unless it is too large."""
    body = b"".join(chunks)
    messages: list[Message] = [{"type": "http.request", "body": c, "more_body": True} for c in chunks]
    messages.append({"type": "http.request", "body": b"", "more_body": False})
    sent: list[Message] = []
    read: list[bytes] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            read.append(message["body"])
            if not message["more_body"]:
                break
        await PlainTextResponse("ok")(scope, receive, send)

    async def receive() -> Message:
        return messages.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    header = (b"content-length", str(len(body)).encode()) if named else (b"transfer-encoding", b"chunked")
    scope: Scope = {"type": "http", "method": "POST", "path": "/", "headers": [header]}
    asyncio.run(BodyLimit(app, most)(scope, receive, send))
    assert sent[0]["status"] == (200 if len(body) <= most else 413)
    assert b"".join(read) == (body if len(body) <= most else b"")


def test_thousand_submissions_at_once(stage: Stage) -> None:
    """Nobody is refused, from eight threads with one client, and each call made its own job."""
    client, ids = stage.client("bob", timeout_s=60), []

    def submit() -> None:
        for _ in range(125):
            jobs = client.call("POST", "/v1/jobs", {"spec": SPEC})["jobs"]
            ids.append(jobs[0]["id"])

    threads = [threading.Thread(target=submit) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(ids)) == 1000


def test_too_many_calls(tmp_path: Path) -> None:
    with served(tmp_path, ApiSettings(calls_per_s=0.01, burst_calls=3)) as small:
        alice, bob = small.client(), small.client("bob")
        for _ in range(3):
            alice.call("GET", "/v1/whoami")
        with pytest.raises(Refused, match=r"too many calls: at most 0\.01 a second") as caught:
            alice.call("GET", "/v1/whoami")
        assert caught.value.status == 429
        assert 90 <= (caught.value.retry_after_s or 0) <= 100
        bob.call("GET", "/v1/whoami")
        assert small.client("nobody").call("GET", "/health")["ok"] is True


def test_bucket_fills_again() -> None:
    now_s = 0.0
    limit = CallRates(per_s=10, burst=2, clock=lambda: now_s)
    key = ("alice", "")
    assert [limit.take(key) for _ in range(3)] == [0.0, 0.0, pytest.approx(0.1)]
    now_s = 0.1
    assert [limit.take(key) for _ in range(2)] == [0.0, pytest.approx(0.1)]
    now_s = 1000.0
    assert [limit.take(key) for _ in range(3)] == [0.0, 0.0, pytest.approx(0.1)], "no more than the burst"
    assert limit.take(("bob", "")) == 0.0


def test_strangers_fill_no_buckets() -> None:
    """Open paths carry no identity; buckets grow with known callers only."""
    rates = CallRates()
    limit = RateLimit(PlainTextResponse("ok"), rates)

    async def calls() -> None:
        async def receive() -> Message:
            return {"type": "http.request"}

        async def send(_: Message) -> None: ...

        for scope in ({"type": "http"}, {"type": "http", "identity": Caller(node="n1")}):
            await limit(scope, receive, send)

    asyncio.run(calls())
    assert list(rates._buckets) == [("", "n1")]


def test_who_asks_for_much_at_once_has_a_few_turns_and_others_theirs() -> None:
    """What is no long question waits for nobody; turns are given back, whatever becomes of the question."""
    now: dict[str, int] = {}
    most: dict[str, int] = {}
    go = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        who = f"{scope['identity'].user} {scope['method']} {scope['path']}"
        now[who] = now.get(who, 0) + 1
        most[who] = max(most.get(who, 0), now[who])
        try:
            await go.wait()
            if scope["identity"].user == "ann":
                raise RuntimeError("a question that fails")
        finally:
            now[who] -= 1

    async def scene() -> None:
        turns = LongQuestions(app, most=3)
        ann, bob = (Caller(name, "", False) for name in ("ann", "bob"))
        asked = [(ann, "GET", "/v1/jobs")] * 20 + [(bob, "GET", "/v1/jobs"), (ann, "POST", "/v1/jobs")] * 5
        asked += [(ann, "GET", "/v1/jobs/7/wait")] * 6
        calls = [
            asyncio.ensure_future(
                turns({"type": "http", "method": how, "path": path, "identity": who}, None, None)  # type: ignore[arg-type]
            )
            for who, how, path in asked
        ]
        for _ in range(10):
            await asyncio.sleep(0)
        assert now == {
            "ann GET /v1/jobs": 3,
            "bob GET /v1/jobs": 3,
            "ann POST /v1/jobs": 5,
            "ann GET /v1/jobs/7/wait": 6,
        }
        go.set()
        await asyncio.gather(*calls, return_exceptions=True)

    asyncio.run(scene())
    assert most["ann GET /v1/jobs"] == 3
    assert not any(now.values())


def asked_of(
    app: ASGIApp, who: str, send: Send, drop: Callable[[], None] | None = None
) -> asyncio.Future[None]:
    scope = {"type": "http", "method": "GET", "path": "/v1/jobs", "identity": Caller(who, "", False)}
    return asyncio.ensure_future(app({**scope, "state": {"drop": drop}}, None, send))  # type: ignore[arg-type]


class Reader:
    """The other end of a connection, which reads what it is sent once it is let."""

    def __init__(self) -> None:
        self.reads = asyncio.Event()
        self.is_open = True
        self.bodies: list[bytes] = []

    def drop(self) -> None:
        """As a connection that is closed: what is sent then is sent to nobody."""
        self.is_open = False
        self.reads.set()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.body" and self.is_open:
            self.bodies.append(message["body"])
            await self.reads.wait()


def test_unread_answers_are_sent_in_pieces_and_bounded() -> None:
    """A caller who leaves too much unread loses what has waited longest; others lose nothing."""
    body = bytes(range(256)) * 1024  # four pieces
    app = UnreadAnswers(PlainTextResponse(body), most_bytes=3 * len(body))

    async def scene() -> None:
        readers = [Reader() for _ in range(7)]
        calls = []
        for reader, who in zip(readers, ["bob", *["ann"] * 6], strict=True):
            calls.append(asked_of(app, who, reader.send, reader.drop))
            await asyncio.sleep(0)
        assert [len(reader.bodies) for reader in readers] == [1] * 7
        assert [reader.is_open for reader in readers] == [True, False, False, False, True, True, True]
        for reader in readers:
            reader.reads.set()
        await asyncio.gather(*calls)
        whole = [b"".join(reader.bodies) == body for reader in readers]
        assert whole == [reader.is_open for reader in readers]
        assert app._unread == {}

    asyncio.run(scene())


def test_an_answer_larger_than_all_that_may_wait_is_sent() -> None:
    body = bytes(1 << 18)
    app = UnreadAnswers(PlainTextResponse(body), most_bytes=1)

    async def scene() -> None:
        reader = Reader()
        reader.reads.set()
        await asked_of(app, "ann", reader.send, reader.drop)
        assert (b"".join(reader.bodies), reader.is_open) == (body, True)

    asyncio.run(scene())


def test_a_turn_ends_where_the_answer_begins() -> None:
    """Who does not read one answer keeps no other question waiting."""
    app = LongQuestions(PlainTextResponse("x"), most=1)

    async def scene() -> None:
        readers = [Reader() for _ in range(3)]
        calls = [asked_of(app, "ann", reader.send) for reader in readers]
        for _ in range(5):
            await asyncio.sleep(0)
        assert [reader.bodies for reader in readers] == [[b"x"]] * 3
        for call in calls:
            call.cancel()

    asyncio.run(scene())
