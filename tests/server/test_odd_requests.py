"""What is no request, or might be another one to a proxy in front: refused, and the connection closed."""

from __future__ import annotations

import contextlib
import re
import socket

import pytest
from serving_toys import Stage

FIRST = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
LAST = b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def posted(*lines: bytes, body: bytes = b"", host: bytes = b"Host: x") -> bytes:
    head = b"\r\n".join((b"POST /v1/jobs HTTP/1.1", *([host] if host else []), *lines))
    return head + b"\r\n\r\n" + body


def chunked(body: bytes) -> bytes:
    return posted(b"Transfer-Encoding: chunked", body=body)


def answers(stage: Stage, said: bytes) -> list[int]:
    """The status of each answer until the server closes the connection."""
    received = b""
    with (
        socket.create_connection(("127.0.0.1", stage.serving.port), timeout=60) as line,
        contextlib.suppress(ConnectionResetError, BrokenPipeError),  # closed before all was read
    ):
        line.sendall(said)
        while data := line.recv(65536):
            received += data
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+)", received)]


@pytest.mark.parametrize(
    "said",
    [
        posted(b"Content-Length: 2", b"content-length: 3", body=b"{}x"),
        posted(b"Content-Length: -5", body=b"{}"),
        posted(b"Content-Length: +2", body=b"{}"),
        posted(b"Content-Length: 0x2", body=b"{}"),
        posted(b"Content-Length: 1 1", body=b"{}"),
        posted(b"Content-Length:", body=b"{}"),
        posted(b"Content-Length: " + b"9" * 30),
        posted(b"Transfer-Encoding: gzip, chunked", body=b"0\r\n\r\n"),
        posted(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked", body=b"0\r\n\r\n"),
        posted(b"Transfer-Encoding: chunked, identity", body=b"0\r\n\r\n"),
        posted(b"Transfer-Encoding: xchunked", body=b"0\r\n\r\n"),
        posted(b"Transfer-Encoding : chunked", body=b"0\r\n\r\n"),
        posted(host=b""),
        posted(b"Host: y"),
        posted(b"X : a"),
        posted(b": a"),
        posted(b"X: a\x00b"),
        FIRST.replace(b"/health", b"/h\xc3\xa9"),
        FIRST.replace(b"/health", b"/a b"),
        b"GET /\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\x00",
        chunked(b"-1\r\n\r\n"),
        chunked(b"0x1\r\na\r\n0\r\n\r\n"),
        chunked(b"1\r\nab\r\n0\r\n\r\n"),
    ],
)
def test_what_has_no_reading_is_refused(stage: Stage, said: bytes) -> None:
    """With one answer, whatever follows."""
    assert answers(stage, said + LAST if said.endswith(b"\n") else said) == [400]


@pytest.mark.parametrize(
    ("said", "statuses"),
    [
        (FIRST + LAST, [200, 200]),
        (FIRST * 50 + LAST, [200] * 51),
        (posted(b"Content-Length: 2", body=b"{}") + LAST, [401, 200]),
        (chunked(b"2\r\n{}\r\n0\r\n\r\n") + LAST, [401, 200]),
        (posted(b"Content-Length: 99", b"Transfer-Encoding: chunked", body=b"0\r\n\r\n") + LAST, [401, 200]),
        (FIRST.replace(b"1.1", b"1.0") + LAST, [200]),
        (LAST + LAST, [200]),
    ],
    ids=["two", "many", "refused", "behind chunks", "chunks before length", "1.0", "close"],
)
def test_one_after_the_other(stage: Stage, said: bytes, statuses: list[int]) -> None:
    assert answers(stage, said) == statuses


def test_fields_behind_the_chunks_are_not_heard(stage: Stage) -> None:
    """Not as a token either."""
    token = stage.tokens["alice"].encode()
    body = b"2\r\n{}\r\n0\r\nAuthorization: Bearer " + token + b"\r\n\r\n"
    assert answers(stage, chunked(body) + LAST) == [401, 200]
