"""The most frequent calls, a submission, a wait and an agent's question: order, pieces, limits."""

from __future__ import annotations

import contextlib
import json
import logging
import re
import socket
from pathlib import Path

import pytest
from serving_toys import Stage, eventually, served

from rota.client import Refused
from rota.server.api.app import ApiSettings
from rota.server.api.forms import NewUser

BODY = b'{"spec": {"command": ["x"]}}'
SYNC = {"incarnation": "i", "seen": 0, "controller": "c", "wait_s": 0.0}
OTHERS = b'{"spec": {"command": ["x"], "tenant": "nlp"}}'
ASKED = json.dumps(SYNC).encode()
LAST = b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def call(first: str, token: str, body: bytes | None = None) -> bytes:
    """A call as Rota's clients write it."""
    length = () if body is None else ("Content-Type: application/json", f"Content-Length: {len(body)}")
    lines = (f"{first} HTTP/1.1", "Host: x", f"Authorization: Bearer {token}", *length)
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b"")


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


CASES = {
    "submission": ("alice", "POST /v1/jobs", BODY, 201),
    "submission that cannot be": ("alice", "POST /v1/jobs", b'{"spec": {"command": []}}', 422),
    "submission for others": ("alice", "POST /v1/jobs", OTHERS, 403),
    "no JSON": ("alice", "POST /v1/jobs", b"{", 400),
    "of an agent": ("agent", "POST /v1/jobs", BODY, 403),
    "of a stranger": ("stranger", "POST /v1/jobs", BODY, 401),
    "question": ("agent", "POST /v1/agents/n1/sync", ASKED, 200),
    "question of another": ("agent", "POST /v1/agents/n2/sync", ASKED, 403),
    "question of a person": ("alice", "POST /v1/agents/n1/sync", ASKED, 403),
    "question that cannot be": ("agent", "POST /v1/agents/n1/sync", b"{}", 422),
    "question with more": ("agent", "POST /v1/agents/n1/sync?a=b", ASKED, 400),
    "wait": ("alice", "GET /v1/jobs/1/wait?wait_s=0", None, 200),
    "wait of a stranger": ("stranger", "GET /v1/jobs/1/wait?wait_s=0", None, 401),
    "wait for none": ("alice", "GET /v1/jobs/999/wait?wait_s=0", None, 404),
    "wait with more": ("alice", "GET /v1/jobs/1/wait?wait_s=0&b=1", None, 400),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_answers(case: str, stage: Stage) -> None:
    stage.client().call("POST", "/v1/jobs", {"spec": {"command": ["x"]}})
    who, first, body, status = CASES[case]
    answer = exchanged(stage, call(first, stage.tokens.get(who, "no.body"), body), LAST)
    assert re.findall(rb"HTTP/1\.1 (\d+)", answer)[0] == b"%d" % status


def test_they_are_counted(stage: Stage) -> None:
    before = counted(stage)
    stage.client("agent").call("POST", "/v1/agents/n1/sync", SYNC)
    assert counted(stage) == before + 1


def counted(stage: Stage) -> float:
    page = stage.client("admin").text("/metrics")
    line = r'rota_api_requests_total\{method="POST",route="/v1/agents/\{node\}/sync",status="200"\} (\S+)'
    match = re.search(line, page)
    return float(match[1]) if match else 0.0


def test_pipelined_calls_are_answered_in_order(stage: Stage) -> None:
    """Calls that arrive while another one is being answered wait for their turn."""
    job = stage.client().call("POST", "/v1/jobs", {"spec": {"command": ["x"]}})["jobs"][0]["id"]
    waits = call(f"GET /v1/jobs/{job}/wait?wait_s=60", stage.tokens["alice"])
    who = call("GET /v1/whoami", stage.tokens["alice"])
    with socket.create_connection(("127.0.0.1", stage.serving.port), timeout=60) as line:
        line.sendall(waits)
        eventually(lambda: stage.controller.waiting == 1)
        for part in (who, waits[:40], waits[40:], who + LAST):
            line.sendall(part)
        stage.controller.end(job)
        received = b""
        while data := line.recv(65536):
            received += data
    bodies = re.findall(rb"\r\n\r\n(\{.*?)(?=HTTP/1\.1|$)", received)
    kinds = ["state" if b'"state"' in one else "tenant" if b'"tenant"' in one else "ok" for one in bodies]
    assert kinds == ["state", "tenant", "state", "tenant", "ok"]


def test_in_pieces(stage: Stage) -> None:
    """A call may arrive in several pieces, and on the heels of another one."""
    whole = call("POST /v1/jobs", stage.tokens["alice"], BODY)
    with socket.create_connection(("127.0.0.1", stage.serving.port), timeout=60) as line:
        for part in (whole, whole[:-5], whole[-5:], whole, LAST):
            line.sendall(part)
        received = b""
        while data := line.recv(65536):
            received += data
    assert re.findall(rb"HTTP/1\.1 (\d+)", received) == [b"201", b"201", b"201", b"200"]


def test_limits_hold(tmp_path: Path) -> None:
    """Limits of size and of rate."""
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


def test_a_viewer_submits_nothing(tmp_path: Path) -> None:
    with served(tmp_path) as own:
        vera = NewUser(name="vera", tenant="vision", viewer=True)
        token = own.controller.add_user(vera).token
        said = exchanged(own, call("POST /v1/jobs", token, BODY), LAST)
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
