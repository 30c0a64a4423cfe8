"""Calls that wait: hundreds at once, woken by news, over when their caller goes or the server stops."""

from __future__ import annotations

import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from serving_toys import PATIENCE_S, Stage, eventually, served

from rota.client import Refused

SPEC = {"command": ["x"]}
MANY = 300


def submit(stage: Stage) -> str:
    return str(stage.client().call("POST", "/v1/jobs", {"spec": SPEC})["jobs"][0]["id"])


def head(stage: Stage, job: str) -> bytes:
    """A call that waits for the end of `job` for a minute, as it goes over the wire."""
    text = f"GET /v1/jobs/{job}/wait?wait_s=60 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "
    return f"{text}{stage.tokens['alice']}\r\nConnection: close\r\n\r\n".encode()


def connected(stage: Stage) -> socket.socket:
    return socket.create_connection(("127.0.0.1", stage.serving.port), PATIENCE_S)


def report(seen: int, wait_s: float) -> dict[str, object]:
    return {"incarnation": "i", "seen": seen, "controller": "c", "wait_s": wait_s}


def test_wait_ends_with_the_job(stage: Stage) -> None:
    job = submit(stage)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(stage.client().call, "GET", f"/v1/jobs/{job}/wait", None, {"wait_s": 60})
        eventually(lambda: stage.controller.waiting == 1)
        stage.controller.end(job)
        assert waiting.result(50)["state"] == "COMPLETED"
    assert stage.client().call("GET", f"/v1/jobs/{job}/wait")["state"] == "COMPLETED", "at once, from now on"


def test_wait_is_over_after_its_time(stage: Stage) -> None:
    began_s = time.monotonic()
    answer = stage.client().call("GET", f"/v1/jobs/{submit(stage)}/wait", None, {"wait_s": 0.05})
    assert answer["state"] == "PENDING"
    assert 0.05 <= time.monotonic() - began_s < 50


def test_logs(stage: Stage) -> None:
    job, client = submit(stage), stage.client()

    def read(**query: object) -> tuple[int, str]:
        piece = client.call("GET", f"/v1/jobs/{job}/logs", None, query)
        return piece["offset"], piece["text"]

    assert read() == (0, "epoch 1\nepoch 2\n")
    assert read(offset=8, limit=5) == (8, "epoch")
    assert read(offset=-8) == (8, "epoch 2\n")
    assert read(offset=16, wait_s=0.01) == (16, "")


def test_sync(stage: Stage) -> None:
    agent = stage.client("agent")
    seen = agent.call("POST", "/v1/agents/n1/sync", report(0, 0))["version"]
    assert agent.call("POST", "/v1/agents/n1/sync", report(seen, 0.01))["parts"] == []
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(agent.call, "POST", "/v1/agents/n1/sync", report(seen, 60))
        eventually(lambda: stage.controller.waiting == 1)
        stage.controller.tell()
        assert waiting.result(50)["version"] == seen + 1


def sync(stage: Stage, body: bytes) -> bytes:
    """A report of the agent, as it goes over the wire."""
    text = f"POST /v1/agents/n1/sync HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
    text += f"Content-Type: application/json\r\nAuthorization: Bearer {stage.tokens['agent']}\r\n\r\n"
    return text.encode() + body


@pytest.mark.parametrize("wait_s", ["NaN", "-1", "-Infinity"])
def test_odd_patience(stage: Stage, wait_s: str) -> None:
    """No time to wait is no error of an agent; it is answered at once."""
    body = f'{{"incarnation": "i", "seen": 1e6, "controller": "c", "wait_s": {wait_s}}}'.encode()
    with connected(stage) as sock:
        sock.sendall(sync(stage, body))
        assert sock.recv(1000).startswith(b"HTTP/1.1 200 ")


def test_caller_who_goes_ends_the_wait(stage: Stage) -> None:
    cancelled = stage.controller.cancelled
    for message in (head(stage, submit(stage)), sync(stage, json.dumps(report(10**9, 60)).encode())):
        with connected(stage) as sock:
            sock.sendall(message)
            eventually(lambda: stage.controller.waiting == 1)
        eventually(lambda: stage.controller.waiting == 0)
    assert stage.controller.cancelled == cancelled + 2


def test_many_wait_and_others_are_answered(stage: Stage) -> None:
    """Far more than there are threads; the API answers meanwhile, and all are woken at once."""
    job = submit(stage)
    sockets = [connected(stage) for _ in range(MANY)]
    try:
        for sock in sockets:
            sock.sendall(head(stage, job))
        eventually(lambda: stage.controller.waiting == MANY)
        client = stage.client()
        for _ in range(20):
            client.call("GET", "/v1/jobs", None, {"limit": 1})
        assert stage.controller.waiting == MANY
        stage.controller.end(job)
        for sock in sockets:
            with sock.makefile("rb") as file:
                assert b'"state":"COMPLETED"' in file.read()
    finally:
        for sock in sockets:
            sock.close()


def test_stopping_sends_them_home(tmp_path: Path) -> None:
    """With a sentence, and at once: they would hold the server up for a minute."""
    with served(tmp_path) as short:
        job = submit(short)
        with ThreadPoolExecutor(1) as pool:
            client = short.client()
            waiting = pool.submit(client.call, "GET", f"/v1/jobs/{job}/wait", None, {"wait_s": 60})
            eventually(lambda: short.controller.waiting == 1)
            began_s = time.monotonic()
            short.serving.stop()
            with pytest.raises(Refused, match="the controller is stopping") as caught:
                waiting.result(50)
        assert (caught.value.status, caught.value.retry_after_s) == (503, 1.0)
    assert time.monotonic() - began_s < 50
    assert threading.active_count() < 50


@pytest.mark.parametrize("query", ["", "?wait_s=0", "?wait_s=0.01", "?wait_s=1e-3", "?wait_s=%30"])
def test_a_wait_is_answered_alike_however_it_is_written(query: str, stage: Stage) -> None:
    job = submit(stage)
    stage.controller.end(job)
    assert stage.client().call("GET", f"/v1/jobs/{job}/wait{query}")["state"] == "COMPLETED"


@pytest.mark.parametrize(
    ("path", "who", "status"),
    [
        ("/v1/jobs/99/wait?wait_s=1", "alice", 404),
        ("/v1/jobs/x/wait?wait_s=1", "alice", 404),
        ("/v1/jobs/1/wait?wait_s=-1", "alice", 422),
        ("/v1/jobs/1/wait?wait_s=3601", "alice", 422),
        ("/v1/jobs/1/wait?wait=1", "alice", 400),
        ("/v1/jobs/1/wait?wait_s=1", "agent", 403),
    ],
)
def test_a_wait_that_is_refused(path: str, who: str, status: int, stage: Stage) -> None:
    submit(stage)
    with pytest.raises(Refused) as refused:
        stage.client(who).call("GET", path)
    assert refused.value.status == status
