"""Calls that are read without the parser have one reading, and are answered as if it had read them."""

from __future__ import annotations

import contextlib
import json
import logging
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st
from serving_toys import Stage, eventually, served

from rota.client import Refused
from rota.server.api.app import ApiSettings
from rota.server.api.desk import DeskCall, PlainDesk
from rota.server.api.forms import NewUser
from rota.server.api.plain_calls import PlainCall, read, written
from tiers import examples

BODY = b'{"spec": {"command": ["x"]}}'
SYNC = {"incarnation": "i", "seen": 0, "controller": "c", "wait_s": 0.0}
LAST = b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def call(first: str, *fields: str, token: str = "a.b", body: bytes | None = None) -> bytes:
    """A call as our clients write it, with more fields."""
    length = () if body is None else ("Content-Type: application/json", f"Content-Length: {len(body)}")
    lines = (f"{first} HTTP/1.1", "Host: x", f"Authorization: Bearer {token}", *length, *fields)
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b"")


POSTED = call("POST /v1/jobs", body=BODY)


def test_a_plain_call() -> None:
    assert read(POSTED) == PlainCall("POST", "/v1/jobs", "", "a.b", BODY)
    waits = call("GET /v1/jobs/1/wait?wait_s=2", "Accept: application/json", "User-Agent: rota")
    assert read(waits) == PlainCall("GET", "/v1/jobs/1/wait", "wait_s=2", "a.b", b"")


@pytest.mark.parametrize(
    "said",
    [
        POSTED + b"x",
        POSTED[:-1],
        POSTED + POSTED,
        POSTED.replace(b"\r\n", b"\n"),
        POSTED.replace(b"Host: x\r\n", b""),
        POSTED.replace(b"Host: x", b"Host: x\r\nHost: x"),
        POSTED.replace(b"Host: x", b"Host: x\r\n y"),
        POSTED.replace(b"Host: x", b"Host: x\ry"),
        POSTED.replace(b"Host:", b"Host :"),
        POSTED.replace(b"Bearer", b"bearer"),
        POSTED.replace(b"Authorization: Bearer a.b\r\n", b""),
        POSTED.replace(b"a.b", b"a b"),
        POSTED.replace(b"HTTP/1.1", b"HTTP/1.0"),
        POSTED.replace(b"/v1/jobs", b"/v1/%6aobs"),
        POSTED.replace(b"/v1/jobs", b"http://x/v1/jobs"),
        POSTED.replace(b"POST", b"PUT"),
        POSTED.replace(b"Content-Length: 28", b"Content-Length: +28"),
        POSTED.replace(b"Content-Length: 28", b"Content-Length: 28\r\nContent-Length: 28"),
        POSTED.replace(b"Content-Length: 28", b"Content-Length: 28\r\nTransfer-Encoding: chunked"),
        POSTED.replace(b"Content-Length: 28\r\n", b""),
        call("POST /v1/jobs", "Connection: close", body=BODY),
        call("POST /v1/jobs", "Expect: 100-continue", body=BODY),
        call("POST /v1/jobs", "Upgrade: h2c", body=BODY),
        call("POST /v1/jobs", "Accept: text/html", body=BODY),
        call("POST /v1/jobs", "Cookie: a=b", body=BODY),
        call("POST /v1/jobs", "Sec-Fetch-Mode: navigate", body=BODY),
        call("GET /v1/jobs/1/wait", body=BODY),
        call("GET /v1/jobs/1/wait", "Content-Length: 0"),
    ],
)
def test_what_the_parser_is_to_read(said: bytes) -> None:
    assert read(said) is None


PIECES = [
    *(
        b"\r\n",
        b"\n",
        b"\r",
        b" ",
        b":",
        b"x",
        b"0",
        b"-",
        b"\t",
        b"\x00",
        b"\xff",
        b"%2f",
        b"?a=b",
        b"A: b\r\n",
    ),
    *(b"Content-Length: 3\r\n", b"Host: y\r\n", b"Transfer-Encoding: chunked\r\n"),
    b"Authorization: Bearer c.d\r\n",
]
EDITS = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 3), st.sampled_from(PIECES)), max_size=3)


@pytest.mark.soak
@examples(3000)
@given(st.sampled_from([POSTED, call("GET /v1/jobs/1/wait?wait_s=2")]), EDITS)
def test_it_has_one_reading(said: bytes, edits: list[tuple[int, int, bytes]]) -> None:
    """Whatever is read here, the parser reads alike, and has read all of it then."""
    for place, gone, more in edits:
        at = place % (len(said) + 1)
        said = said[:at] + more + said[at + gone :]
    plain = read(said)
    if plain is None:
        return
    parser = h11.Connection(h11.SERVER)
    parser.receive_data(said)
    request = parser.next_event()
    assert isinstance(request, h11.Request)
    fields = dict(request.headers)
    events: list[Any] = []
    while not events or not isinstance(events[-1], h11.EndOfMessage):
        events.append(parser.next_event())
    assert parser.trailing_data == (b"", False)
    path, _, query = request.target.decode().partition("?")
    body = b"".join(event.data for event in events[:-1])
    token = fields[b"authorization"].decode().removeprefix("Bearer ")
    assert plain == PlainCall(request.method.decode(), path, query, token, body)


def test_answers_as_they_are_written() -> None:
    said = written(b"201 Created", [(b"content-length", b"2"), (b"date", b"now")], b"{}")
    assert said == b"HTTP/1.1 201 Created\r\ncontent-length: 2\r\ndate: now\r\n\r\n{}"


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Paths of the calls that are answered without the parser."""
    paths: list[str] = []
    take = PlainDesk.take

    def noted(desk: PlainDesk, data: bytes) -> DeskCall | None:
        answered = take(desk, data)
        paths.extend([] if answered is None else [answered.said.path])
        return answered

    monkeypatch.setattr(PlainDesk, "take", noted)
    return paths


def exchanged(stage: Stage, *said: bytes) -> bytes:
    """All that is answered until the server closes the connection, which the last call asks for."""
    received = b""
    with (
        socket.create_connection(("127.0.0.1", stage.serving.port), timeout=60) as line,
        contextlib.suppress(ConnectionResetError, BrokenPipeError),
    ):
        for one in said:
            line.sendall(one)
        while data := line.recv(65536):
            received += data
    return received


def told(answer: bytes) -> tuple[bytes, list[str], Any]:
    """Status line, names of the fields, and body, without what differs from call to call."""
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *fields = head.split(b"\r\n")
    names = sorted(field.partition(b":")[0].decode().lower() for field in fields)
    plain = json.loads(body)
    for job in plain.get("jobs", ()):
        job |= {"id": "", "row": 0, "submit_s": 0.0}
    return first, [name for name in names if name != "connection"], plain | {"now_s": 0.0}


CASES = {
    "submission": ("alice", "POST /v1/jobs", BODY),
    "submission that cannot be": ("alice", "POST /v1/jobs", b'{"spec": {"command": []}}'),
    "submission for others": ("alice", "POST /v1/jobs", b'{"spec": {"command": ["x"], "tenant": "nlp"}}'),
    "no JSON": ("alice", "POST /v1/jobs", b"{"),
    "of an agent": ("agent", "POST /v1/jobs", BODY),
    "of nobody": ("nobody", "POST /v1/jobs", BODY),
    "question": ("agent", "POST /v1/agents/n1/sync", json.dumps(SYNC).encode()),
    "question of another": ("agent", "POST /v1/agents/n2/sync", json.dumps(SYNC).encode()),
    "question of a person": ("alice", "POST /v1/agents/n1/sync", json.dumps(SYNC).encode()),
    "question that cannot be": ("agent", "POST /v1/agents/n1/sync", b"{}"),
    "question with more": ("agent", "POST /v1/agents/n1/sync?a=b", json.dumps(SYNC).encode()),
    "wait": ("alice", "GET /v1/jobs/1/wait?wait_s=0", None),
    "wait of nobody": ("nobody", "GET /v1/jobs/1/wait?wait_s=0", None),
    "wait for another's": ("bob", "GET /v1/jobs/1/wait?wait_s=0", None),
    "wait for none": ("alice", "GET /v1/jobs/999/wait?wait_s=0", None),
    "wait with more": ("alice", "GET /v1/jobs/1/wait?wait_s=0&b=1", None),
    "another call": ("alice", "GET /v1/whoami", None),
    "none at all": ("alice", "GET /v1/nothing", None),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_answered_as_the_parser_would_have_it(case: str, stage: Stage) -> None:
    """A field that does nothing, and the parser has to read it."""
    stage.client().call("POST", "/v1/jobs", {"spec": {"command": ["x"]}})
    who, first, body = CASES[case]
    token = stage.tokens.get(who, "no.body")
    plain, other = call(first, token=token, body=body), call(first, "X: y", token=token, body=body)
    assert read(plain) is not None
    assert read(other) is None
    answers = [exchanged(stage, one, LAST).rpartition(b"HTTP/1.1 ")[0] for one in (plain, other)]
    assert told(answers[0]) == told(answers[1])


def test_our_clients_write_plain_calls(stage: Stage, taken: list[str]) -> None:
    alice, agent = stage.client(), stage.client("agent")
    job = alice.call("POST", "/v1/jobs", {"spec": {"command": ["x"]}})["jobs"][0]["id"]
    agent.call("POST", "/v1/agents/n1/sync", SYNC)
    alice.call("GET", f"/v1/jobs/{job}/wait", query={"wait_s": 0})
    alice.call("GET", f"/v1/jobs/{job}")
    assert taken == ["/v1/jobs", "/v1/agents/n1/sync", f"/v1/jobs/{job}/wait"]


def test_they_are_counted(stage: Stage) -> None:
    before = counted(stage)
    stage.client("agent").call("POST", "/v1/agents/n1/sync", SYNC)
    assert counted(stage) == before + 1


def counted(stage: Stage) -> float:
    page = stage.client("admin").text("/metrics")
    line = r'rota_api_requests_total\{method="POST",route="/v1/agents/\{node\}/sync",status="200"\} (\S+)'
    match = re.search(line, page)
    return float(match[1]) if match else 0.0


def test_one_after_the_other_whoever_reads_them(stage: Stage, taken: list[str]) -> None:
    """What comes while a plain call is answered waits, and nothing is answered out of turn."""
    job = stage.client().call("POST", "/v1/jobs", {"spec": {"command": ["x"]}})["jobs"][0]["id"]
    waits = call(f"GET /v1/jobs/{job}/wait?wait_s=60", token=stage.tokens["alice"])
    who = call("GET /v1/whoami", token=stage.tokens["alice"])
    with socket.create_connection(("127.0.0.1", stage.serving.port), timeout=60) as line:
        line.sendall(waits)
        eventually(lambda: stage.controller.waiting == 1)
        for part in (who, waits[:40], waits[40:], who + LAST):
            line.sendall(part)
        stage.controller.end(job)
        received = b""
        while data := line.recv(65536):
            received += data
    assert taken[-1].endswith("/wait")
    bodies = re.findall(rb"\r\n\r\n(\{.*?)(?=HTTP/1\.1|$)", received)
    kinds = ["state" if b'"state"' in one else "tenant" if b'"tenant"' in one else "ok" for one in bodies]
    assert kinds == ["state", "tenant", "state", "tenant", "ok"]


def test_in_pieces(stage: Stage) -> None:
    """The parser has begun with it, and ends it."""
    whole = call("POST /v1/jobs", token=stage.tokens["alice"], body=BODY)
    with socket.create_connection(("127.0.0.1", stage.serving.port), timeout=60) as line:
        for part in (whole, whole[:-5], whole[-5:], whole, LAST):
            line.sendall(part)
        received = b""
        while data := line.recv(65536):
            received += data
    assert re.findall(rb"HTTP/1\.1 (\d+)", received) == [b"201", b"201", b"201", b"200"]


def test_limits_hold(tmp_path: Path) -> None:
    """Of how much, and of how often."""
    with served(tmp_path, ApiSettings(most_body_bytes=200, calls_per_s=0.01, burst_calls=3)) as small:
        alice = small.client()
        big = {"spec": {"command": ["x" * 300]}}
        with pytest.raises(Refused) as large:
            alice.call("POST", "/v1/jobs", big)
        job = alice.call("POST", "/v1/jobs", {"spec": {"command": ["x"]}})["jobs"][0]["id"]
        alice.call("GET", f"/v1/jobs/{job}/wait", query={"wait_s": 0})
        with pytest.raises(Refused) as often:
            alice.call("GET", f"/v1/jobs/{job}/wait", query={"wait_s": 0})
    assert (large.value.status, often.value.status) == (413, 429)


def test_who_may_only_look_submits_nothing(tmp_path: Path) -> None:
    with served(tmp_path) as own:
        vera = NewUser(name="vera", tenant="vision", viewer=True)
        token = own.controller.add_user(vera).token
        said = exchanged(own, call("POST /v1/jobs", token=token, body=BODY), LAST)
    assert said.startswith(b"HTTP/1.1 403 ")


def test_a_bug_is_logged_and_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with served(tmp_path) as own:
        monkeypatch.setattr(type(own.controller.services.agents), "sync", broken)
        with caplog.at_level(logging.ERROR), pytest.raises(Refused, match="something is wrong") as caught:
            own.client("agent").call("POST", "/v1/agents/n1/sync", SYNC)
    assert caught.value.status == 500
    assert "POST /v1/agents/n1/sync failed" in caplog.text


async def broken(*_: object) -> None:
    raise ZeroDivisionError("a bug")
