"""Callers who have not said who they are: half requests, many connections, and the lines they have logged."""

from __future__ import annotations

import json
import logging
import os
import re
import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from serving_toys import Stage, eventually, served

from rota.client import Client
from rota.server import connections, http_server
from rota.server.auth import Peer
from rota.server.connections import Connections
from rota.server.json_logs import JsonLines, Quiet

HALF_HEADERS = b"GET /health HTTP/1.1\r\nHost: x\r\nX-Slow: "
WHOLE = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
HALF_BODY = b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{"


class Line:
    """A connection that remembers whether it was closed."""

    def __init__(self) -> None:
        self.is_open = True

    def drop(self) -> None:
        self.is_open = False


def test_the_oldest_idle_one_makes_room() -> None:
    count, lines = Connections(most=100, most_of_one=3), [Line() for _ in range(5)]
    assert all(count.enter("a", line) for line in lines[:3])
    count.ask("a", lines[0])
    assert count.enter("a", lines[3])
    assert [line.is_open for line in lines[:4]] == [True, False, True, True]
    count.ask("a", lines[2])
    count.ask("a", lines[3])
    assert not count.enter("a", lines[4]), "all of them wait for an answer"
    assert count.enter("b", lines[4]), "another address is another matter"
    count.rest("a", lines[0])
    assert count.enter("a", Line())
    assert not lines[0].is_open


def test_all_together_have_a_limit() -> None:
    count = Connections(most=4, most_of_one=3)
    many, few = [Line() for _ in range(3)], Line()
    assert all(count.enter("many", line) for line in many)
    assert count.enter("few", few)
    assert count.enter("new", Line())
    assert ([line.is_open for line in many], few.is_open, count.count) == ([False, True, True], True, 4)


def test_who_leaves_is_counted_no_more() -> None:
    count, line = Connections(most=1), Line()
    assert count.enter("a", line)
    count.leave("a", line)
    count.leave("a", line)
    assert (count.count, count.of("a")) == (0, 0)


@contextmanager
def impatient(
    folder: Path, monkeypatch: pytest.MonkeyPatch, most: int = 64, most_of_one: int = 8
) -> Iterator[Stage]:
    """An API that waits for a fifth of a second."""
    patience = {"header_s": 0.2, "body_s": 0.2, "write_s": 0.5}
    monkeypatch.setattr(http_server, "PeerProtocol", partial(http_server.PeerProtocol, **patience))
    monkeypatch.setattr(http_server, "most_connections", lambda: (most, most))
    monkeypatch.setattr(http_server, "Connections", partial(Connections, most_of_one=most_of_one))
    with served(folder) as stage:
        yield stage


def opened(stage: Stage, said: bytes = b"") -> socket.socket:
    line = socket.create_connection(("127.0.0.1", stage.serving.port), timeout=30)
    line.sendall(said)
    return line


@pytest.mark.slow
@pytest.mark.parametrize(
    ("said", "answer"),
    [(b"", b"408"), (HALF_HEADERS, b"408"), (HALF_BODY, b"401")],
    ids=["nothing", "half the headers", "half a body"],
)
def test_what_does_not_come_in_time_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: bytes, answer: bytes
) -> None:
    with impatient(tmp_path, monkeypatch) as stage, opened(stage, said) as line:
        received = b""
        while data := line.recv(4096):
            received += data
        assert received.startswith(b"HTTP/1.1 " + answer)


@pytest.mark.slow
@pytest.mark.parametrize("reads", [True, False])
def test_who_does_not_read_an_answer_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: bool
) -> None:
    """What no buffer of the kernel takes is given up; a slow reader gets all of it."""
    with impatient(tmp_path, monkeypatch) as stage:
        long = "a" * 128
        spec = {"command": ["x"], "name": long, "group": long, "workload": long, "array": "1-1000"}
        stage.client("alice").call("POST", "/v1/jobs", {"spec": spec})
        token = stage.tokens["alice"]
        said = f"GET /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n"
        with socket.socket() as line:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 15)
            line.settimeout(30)
            line.connect(("127.0.0.1", stage.serving.port))
            line.sendall(said.encode())
            head, _, body = line.recv(1024).partition(b"\r\n\r\n")
            whole, received = int(re.findall(rb"(?i)content-length: (\d+)", head)[0]), len(body)
            for _ in range(20):
                time.sleep(0.05)
                received += len(line.recv(1 << 15)) if reads else 0
            while received < whole and (data := line.recv(1 << 16)):
                received += len(data)
        assert (received == whole) == reads


@pytest.mark.slow
def test_half_requests_after_a_whole_one_are_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        impatient(tmp_path, monkeypatch) as stage,
        opened(stage, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n") as line,
    ):
        assert line.recv(4096).startswith(b"HTTP/1.1 200")
        line.sendall(HALF_HEADERS)
        while line.recv(4096):
            pass


@pytest.mark.slow
def test_a_thousand_half_requests_keep_nobody_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the very address that makes them, and at the socket."""
    with impatient(tmp_path, monkeypatch) as stage:
        lines = [opened(stage, HALF_HEADERS) for _ in range(200)]
        try:
            for _ in range(3):
                assert stage.client("alice").call("GET", "/health")["ok"]
                assert Client(str(stage.socket)).call("GET", "/v1/whoami")["admin"]
        finally:
            for line in lines:
                line.close()


@pytest.mark.parametrize("descriptors", [1024, 1400, 4096, 65_536])
def test_port_and_socket_together_leave_descriptors(
    monkeypatch: pytest.MonkeyPatch, descriptors: int
) -> None:
    """Of 1024 they took 704 and 768: whoever filled both kept the store from its files, and everybody out."""
    monkeypatch.setattr(connections.resource, "getrlimit", lambda kind: (descriptors, descriptors))
    port, at_socket = connections.most_connections()
    assert port + at_socket + connections.RESERVED <= descriptors
    assert port > at_socket >= 100


@pytest.mark.slow
@pytest.mark.parametrize("where", ["port", "socket"])
def test_a_burst_of_connections_takes_no_more_descriptors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, where: str
) -> None:
    """All that had come were taken in before the first was counted, and none was left to accept with."""
    somebody = Peer(pid=1, uid=12_345, gid=1)  # whose connections are counted
    monkeypatch.setattr(
        http_server, "peer_of", lambda sock: somebody if sock.family == socket.AF_UNIX else None
    )
    with impatient(tmp_path, monkeypatch) as stage:
        loop = stage.serving._server.servers[0].get_loop()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        lines: list[socket.socket] = []
        try:
            here = len(os.listdir("/proc/self/fd"))
            resource.setrlimit(resource.RLIMIT_NOFILE, (here + 400 + 8 + 6 * connections.AT_ONCE, hard))
            loop.call_soon_threadsafe(time.sleep, 0.5)
            for _ in range(400):
                family = socket.AF_INET if where == "port" else socket.AF_UNIX
                lines.append(socket.socket(family))
                lines[-1].settimeout(30)
                address = ("127.0.0.1", stage.serving.port) if where == "port" else str(stage.socket)
                lines[-1].connect(address)
            assert Client(stage.serving.url, stage.tokens["alice"]).call("GET", "/health")["ok"]
        finally:
            for line in lines:
                line.close()
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert not [record.message for record in caplog.records if "out of system resource" in record.message]


@pytest.mark.slow
def test_long_questions_are_not_closed_for_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that waits for its answer is no idle connection."""
    with impatient(tmp_path, monkeypatch) as stage:
        answers: list[object] = []
        job = stage.client("alice").call("POST", "/v1/jobs", {"spec": {"command": ["x"]}})["jobs"][0]["id"]
        path = f"/v1/jobs/{job}/wait"
        asks = threading.Thread(
            target=lambda: answers.append(stage.client("alice").call("GET", path, query={"wait_s": 1.0}))
        )
        asks.start()
        eventually(lambda: stage.controller.waiting == 1)
        lines = [opened(stage, HALF_HEADERS) for _ in range(50)]
        asks.join(30)
        assert answers
        for line in lines:
            line.close()


def line_at(number: int) -> logging.LogRecord:
    return logging.LogRecord("asyncio", logging.ERROR, "a.py", number, "no more files", (), None)


def test_a_line_again_and_again_is_written_a_few_times() -> None:
    now = [0.0]
    quiet = Quiet(most=3, every_s=10.0, clock=lambda: now[0])
    records = [
        logging.LogRecord("asyncio", logging.ERROR, "a.py", 7, "no more files", (), None) for _ in range(9)
    ]
    assert [quiet.filter(record) for record in records] == [True] * 3 + [False] * 6
    assert quiet.filter(line_at(8))
    now[0] = 11.0
    again = line_at(7)
    assert quiet.filter(again)
    assert again.__dict__["left_out"] == 6


def test_many_places_take_no_memory() -> None:
    quiet = Quiet(most=2, places=5, clock=lambda: 0.0)
    assert sum(quiet.filter(line_at(number)) for number in range(50)) == 5 + 2


def test_left_out_lines_are_told_in_json() -> None:
    record = line_at(1)
    record.left_out = 12
    assert json.loads(JsonLines().format(record))["left_out"] == 12
