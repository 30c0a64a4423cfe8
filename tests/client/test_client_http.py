"""The client against servers that behave, misbehave, close, stall and speak something else."""

from __future__ import annotations

import json
import pickle
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from rota.client import Client, Refused, Unreachable, route
from rota.errors import InputError, RotaError

PATIENCE_S = 60.0


def reply(
    body: object = None, status: str = "200 OK", kind: str = "application/json", extra: str = ""
) -> bytes:
    """Bytes of an answer."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\n{extra}\r\n"
    return head.encode() + data


class Scripted:
    """A server whose connections follow a script: each entry answers one request, or does what it likes."""

    def __init__(self, listener: socket.socket, script: list[list[bytes | Callable[[socket.socket], None]]]):
        self.requests: list[bytes] = []
        self.connections = 0
        self._listener = listener
        self._script = script
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        for connection in self._script:
            sock, _ = self._listener.accept()
            self.connections += 1
            with sock, sock.makefile("rb") as file:
                sock.settimeout(PATIENCE_S)
                for answer in connection:
                    self.requests.append(self._read(file))
                    if callable(answer):
                        answer(sock)
                    else:
                        sock.sendall(answer)

    def _read(self, file: Any) -> bytes:
        head, length = b"", 0
        for line in iter(file.readline, b"\r\n"):
            if not line:
                return head  # the client went away
            head += line
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        return head + b"\r\n" + bytes(file.read(length))

    def join(self) -> None:
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()


@contextmanager
def scripted(*script: list[Any]) -> Iterator[tuple[Scripted, str]]:
    """The server and its address; the block has to use all connections of the script."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE_S)
        server = Scripted(listener, list(script))
        yield server, f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.join()


def test_call() -> None:
    with scripted([reply({"a": 1}), reply([2])]) as (server, address), Client(address, "t0k") as client:
        assert client.call("POST", "/v1/x", {"é": None}, {"b": True, "c": [1, 2], "d": None, "e": "ü&"}) == {
            "a": 1
        }
        assert client.call("GET", "/v1/y") == [2]
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    lines = head.decode().splitlines()
    assert lines[0] == "POST /v1/x?b=true&c=1&c=2&e=%C3%BC%26 HTTP/1.1"
    assert "Authorization: Bearer t0k" in lines
    assert "Content-Type: application/json" in lines
    assert json.loads(body) == {"é": None}
    assert b"Content-Type" not in server.requests[1]
    assert server.connections == 1, "kept alive"


def test_models_are_sent_as_they_are() -> None:
    class Form(BaseModel):
        n: int

    with scripted([reply()]) as (server, address), Client(address) as client:
        assert client.call("PUT", "/", Form(n=3)) is None
    assert server.requests[0].endswith(b'{"n":3}')
    assert b"Authorization" not in server.requests[0]


def test_text() -> None:
    with scripted([reply(b"a,b\n\xff\n", kind="text/csv")]) as (_, address), Client(address) as client:
        assert client.text("/v1/history", {"format": "csv"}) == "a,b\n�\n"


def test_base_path() -> None:
    with scripted([reply(1)]) as (server, address), Client(f"{address}/rota/") as client:
        client.call("GET", "/v1/x")
    assert server.requests[0].startswith(b"GET /rota/v1/x HTTP/1.1\r\n")


@pytest.mark.parametrize(
    ("status", "body", "extra", "expected"),
    [
        ("404 Not Found", {"error": "there is no job 7"}, "", Refused(404, "there is no job 7")),
        ("429 Too Many", {"error": "slowly"}, "Retry-After: 3\r\n", Refused(429, "slowly", 3.0)),
        ("503 Busy", {"error": "b"}, "Retry-After: Wed, 21 Oct\r\n", Refused(503, "b")),
        ("500 Oops", {"detail": "x"}, "", Unreachable("{} answered 500 Oops: is that a Rota controller?")),
        ("502 Bad", b"<html>", "", Unreachable("{} answered 502 Bad: is that a Rota controller?")),
        ("302 Found", b"", "", Unreachable("{} answered 302 Found: is that a Rota controller?")),
        ("200 OK", b"{", "", Unreachable("{} answered with broken JSON: is that a Rota controller?")),
    ],
)
def test_refusals(status: str, body: object, extra: str, expected: RotaError) -> None:
    with scripted([reply(body, status, extra=extra)]) as (_, address), Client(address) as client:
        with pytest.raises(type(expected)) as caught:
            client.call("GET", "/")
        assert str(caught.value) == str(expected).format(address)
    if isinstance(expected, Refused):
        assert isinstance(caught.value, Refused)
        assert (caught.value.status, caught.value.retry_after_s) == (expected.status, expected.retry_after_s)


def test_page_of_something_else() -> None:
    with (
        scripted([reply(b"hello", kind="text/html")]) as (_, address),
        Client(address) as client,
        pytest.raises(Unreachable, match="answered 200 with no JSON: is that a Rota controller"),
    ):
        client.call("GET", "/")


def close(sock: socket.socket) -> None:
    sock.close()


def reset(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    sock.close()


@pytest.mark.parametrize("end", [close, reset])
@pytest.mark.parametrize(
    ("method", "idempotent", "again"),
    [
        ("GET", None, True),
        ("PUT", None, True),
        ("POST", None, False),
        ("POST", True, True),
        ("GET", False, False),
    ],
)
def test_stale_connection(
    end: Callable[[socket.socket], None], method: str, idempotent: bool | None, again: bool
) -> None:
    """Closed between two calls while the second was on its way: repeated only if that does no harm."""
    rest = [[reply(2)]] if again else []
    with scripted([reply(1), end], *rest) as (server, address), Client(address) as client:
        assert client.call("GET", "/") == 1
        if again:
            assert client.call(method, "/", idempotent=idempotent) == 2
        else:
            with pytest.raises(Unreachable, match="closed the connection without an answer"):
                client.call(method, "/", idempotent=idempotent)
    assert len(server.requests) == (3 if again else 2)


def test_connection_closed_while_idle() -> None:
    """Seen before anything is sent on it, so that even what must not be repeated passes."""
    closed = threading.Event()

    def answer_and_close(sock: socket.socket) -> None:
        sock.sendall(reply(1))
        sock.shutdown(socket.SHUT_RDWR)
        closed.set()

    with scripted([answer_and_close], [reply(2)]) as (server, address), Client(address) as client:
        assert client.call("GET", "/") == 1
        assert closed.wait(PATIENCE_S)
        assert client.call("POST", "/") == 2
    assert len(server.requests) == 2


def test_fresh_connection_is_not_repeated() -> None:
    with (
        scripted([close]) as (server, address),
        Client(address) as client,
        pytest.raises(Unreachable, match="closed the connection without an answer"),
    ):
        client.call("GET", "/")
    assert len(server.requests) == 1


def test_answer_before_the_body_was_read() -> None:
    """Who refuses a large body need not read it."""
    huge = {"x": "y" * (8 << 20)}

    with socket.create_server(("127.0.0.1", 0)) as listener:

        def refuse() -> None:
            sock, _ = listener.accept()
            with sock:
                sock.recv(1000)
                sock.sendall(reply({"error": "too large"}, "413 Too Large", extra="Connection: close\r\n"))

        thread = threading.Thread(target=refuse)
        thread.start()
        with pytest.raises(Refused, match="too large") as caught:
            Client(f"http://127.0.0.1:{listener.getsockname()[1]}").call("POST", "/", huge)
        thread.join(PATIENCE_S)
    assert caught.value.status == 413


def test_cut_off_in_the_middle() -> None:
    cut = reply({"long": "answer"})[:-5]
    with (
        scripted([cut]) as (_, address),
        Client(address) as client,
        pytest.raises(Unreachable, match="IncompleteRead"),
    ):
        client.call("GET", "/")


def test_timeout() -> None:
    done = threading.Event()
    with scripted([lambda _: done.wait(PATIENCE_S) and None]) as (_, address), Client(address) as client:
        with pytest.raises(Unreachable, match=r"did not answer within 0\.1 s"):
            client.call("GET", "/", timeout_s=0.1)
        done.set()


def test_timeout_is_each_calls_own() -> None:
    """Also on a connection that an earlier call with another one left behind."""
    done = threading.Event()
    script = [reply(1), lambda _: done.wait(PATIENCE_S) and None]
    with scripted(script) as (_, address), Client(address, timeout_s=60) as client:
        client.call("GET", "/")
        with pytest.raises(Unreachable, match=r"within 0\.1 s"):
            client.call("GET", "/", timeout_s=0.1)
        done.set()


def test_no_http() -> None:
    with (
        scripted([b"SSH-2.0-OpenSSH_9.2\r\n\r\n"]) as (_, address),
        Client(address) as client,
        pytest.raises(Unreachable, match="does not speak HTTP: BadStatusLine"),
    ):
        client.call("GET", "/")


def test_nobody_there(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    for address in (f"http://127.0.0.1:{port}", str(tmp_path / "none.sock")):
        with pytest.raises(Unreachable, match=f"no controller listens at {address}; `rota up` starts one"):
            Client(address).call("GET", "/")
    with pytest.raises(
        Unreachable, match=r"at http://nowhere\.invalid:1: no machine 'nowhere\.invalid' is known"
    ):
        Client("http://nowhere.invalid:1").call("GET", "/")


def test_nobody_there_on_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """`rota up` here would start another cluster; most often the one there listens on loopback only."""

    def refuse(*_: object, **__: object) -> None:
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "create_connection", refuse)
    with pytest.raises(
        Unreachable, match="at http://head:1; on that machine `rota up` starts one, which listens"
    ):
        Client("http://head:1").call("GET", "/")


def test_no_tls() -> None:
    """https:// of a controller, which speaks plain HTTP."""

    def answer(listener: socket.socket) -> None:
        with listener.accept()[0] as connection:
            connection.recv(1)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=answer, args=(listener,))
        server.start()
        secure = f"https://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(Unreachable, match=f"{secure} does not speak TLS; a controller itself is reached"):
            Client(secure).call("GET", "/")
        server.join()


@pytest.mark.parametrize(
    ("code", "why", "file", "advice"),
    [
        (18, "self-signed certificate", "", "SSL_CERT_FILE names a file of authorities to trust"),
        (20, "no issuer.", "/proc/self/stat", "SSL_CERT_FILE names a file of authorities to trust"),
        (20, "no issuer.", "/not/there", "SSL_CERT_FILE names /not/there, which cannot be read"),
        (9, "not yet valid", "/not/there", "see that the clocks of both machines are right"),
        (10, "has expired", "", "renew it there, unless it is the clock of this machine that is wrong"),
        (62, "Hostname mismatch", "", "use a name that it is made out to"),
        (64, "IP address mismatch", "", "use a name or an address that it is made out to"),
    ],
)
def test_a_certificate_that_is_not_trusted(
    code: int, why: str, file: str, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Authorities are spoken of where they are what is missing."""
    monkeypatch.setenv("SSL_CERT_FILE", file)
    error = ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed")
    error.verify_message, error.verify_code = why, code

    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(socket, "create_connection", refuse)
    with pytest.raises(Unreachable) as unreached:
        Client("https://head:1").call("GET", "/")
    said = f"the certificate of https://head:1 is not trusted: {why.rstrip('.')}; {advice}"
    assert str(unreached.value) == said


def test_unix_socket(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    for path in (tmp_path / "s", deep / "s"):
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(tmp_path / "s")) if path.parent == tmp_path else bind_deep(listener, path)
            listener.listen()
            listener.settimeout(PATIENCE_S)
            server = Scripted(listener, [[reply(1), reply(2)]])
            with Client(f"unix:{path}") as client:
                assert [client.call("GET", "/"), client.call("GET", "/")] == [1, 2]
            server.join()


def bind_deep(listener: socket.socket, path: Path) -> None:
    short = path.parents[1] / "link"
    short.symlink_to(path.parent)
    listener.bind(str(short / path.name))


def test_threads_share_a_client() -> None:
    """A call that waits stands in nobody's way, and connections are used again afterwards."""
    wait = threading.Event()

    def late(sock: socket.socket) -> None:
        wait.wait(PATIENCE_S)
        sock.sendall(reply("late"))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE_S)
        slow = Scripted(listener, [[late]])
        client = Client(f"http://127.0.0.1:{listener.getsockname()[1]}")
        answers: list[str] = []
        thread = threading.Thread(target=lambda: answers.append(client.call("GET", "/")))
        thread.start()
        while not slow.connections:
            wait.wait(0.01)
        quick = Scripted(listener, [[reply("quick"), reply("again")]])
        assert [client.call("GET", "/"), client.call("GET", "/")] == ["quick", "again"]
        wait.set()
        thread.join(PATIENCE_S)
        assert answers == ["late"]
        client.close()
        slow.join()
        quick.join()


def test_closed_client_opens_again() -> None:
    with scripted([reply(1)], [reply(2)]) as (_, address), Client(address) as client:
        assert client.call("GET", "/") == 1
        client.close()
        assert client.call("GET", "/") == 2


@pytest.mark.parametrize(
    "address",
    [
        "",
        "localhost:80",
        "ftp://x/",
        "http://",
        "http://x:y",
        "http://a:b@c",
        "http://x/?q=1",
        "x.sock",
        "unix:",
    ],
)
def test_wrong_addresses(address: str) -> None:
    with pytest.raises(InputError, match=r"expected http://HOST:PORT") as caught:
        Client(address)
    assert repr(address) in str(caught.value)


@pytest.mark.parametrize("token", ["two words", "line\n", "é", "\0"])
def test_wrong_tokens_are_not_sent(token: str) -> None:
    with pytest.raises(InputError, match="expected one word") as caught:
        Client("http://x:1", token)
    assert token not in str(caught.value)


def test_body_that_is_no_json() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        Client("http://x:1").call("POST", "/", float("nan"))


def test_route() -> None:
    assert route("v1", "nodes", "rack 1/gpu-3", "drain") == "/v1/nodes/rack%201%2Fgpu-3/drain"
    assert route("v1", "jobs", 17) == "/v1/jobs/17"


def test_refusal_travels_between_processes() -> None:
    back = pickle.loads(pickle.dumps(Refused(429, "slowly", 2.0)))
    assert (back.status, str(back), back.retry_after_s) == (429, "slowly", 2.0)
