"""Calls of one controller over TCP or its UNIX socket; standard library only.

Many threads may use a `Client` at once: each call takes an idle connection or opens one, so that a long poll
never delays another call.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, RemoteDisconnected
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from rota.errors import InputError, RotaError
from rota.wire import cluster_clock

IDEMPOTENT = frozenset({"GET", "PUT", "DELETE", "HEAD"})
MOST_IDLE = 8
"""Most idle connections that are kept open."""
LONGEST_SOCKET_PATH = 107
"""Most bytes that fit into the address of a UNIX socket."""
CERTIFICATE_ADVICE = {
    9: "see that the clocks of both machines are right",
    10: "renew it there, unless it is the clock of this machine that is wrong",
    62: "use a name that it is made out to",
    64: "use a name or an address that it is made out to",
}
"""What to do about an untrusted certificate, by OpenSSL's error number."""
NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING", "HTTP_REQUEST"})
"""OpenSSL's reasons when the answer is not TLS, or when there is none."""
NOBODY_LISTENS = (FileNotFoundError, ConnectionRefusedError)
Query = Mapping[str, object]


class Unreachable(RotaError):  # noqa: N818
    """No answer, or none of a controller. If `was_sent`, it is unknown whether the call had an effect."""

    was_sent = True


class Refused(RotaError):  # noqa: N818
    """The controller answered with a refusal."""

    def __init__(self, status: int, sentence: str, retry_after_s: float | None = None) -> None:
        super().__init__(sentence)
        self.status = status
        self.retry_after_s = retry_after_s
        """Seconds after which the call may succeed (429, 503)."""

    def __reduce__(self) -> tuple[type[Refused], tuple[int, str, float | None]]:
        return Refused, (self.status, str(self), self.retry_after_s)


class _Stale(Exception):  # noqa: N818
    """A kept-alive connection was found closed before a byte of the answer came."""


class Client:
    """Calls of one controller, as one user or agent.

    `address` is `http://host:port` (or https, or with a path before all routes) or the path of a UNIX socket,
    with or without `unix:`. `token` may be empty on a UNIX socket: the controller then asks the kernel for
    the caller's account. Raises InputError for an invalid address or token.
    """

    def __init__(self, address: str, token: str = "", timeout_s: float = 30.0) -> None:
        self.address = str(address)
        self.timeout_s = timeout_s
        self._scheme, self._host, self._port, self._base = _parsed(self.address)
        if not token.isascii() or any(c <= " " for c in token):
            raise InputError.at("the token holds blanks or letters that no token has", expected="one word")
        self._headers = {"Accept": "application/json", "User-Agent": "rota"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._idle: list[HTTPConnection] = []
        self._lock = threading.Lock()

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        query: Query | None = None,
        timeout_s: float | None = None,
        *,
        idempotent: bool | None = None,
    ) -> Any:
        """Answer of `method path`, parsed from JSON.

        `body` is any JSON value, or a pydantic model. Values of None are left out of `query`. `idempotent`
        means that a call may be sent twice: it is then repeated once if the kept-alive connection was closed
        during the call; GET, PUT and DELETE are idempotent by default. Raises Unreachable and Refused.
        """
        may_repeat = method in IDEMPOTENT if idempotent is None else idempotent
        response, data = self._exchange(method, path, _encoded(body), query, timeout_s, may_repeat)
        if response.getheader("Content-Type", "").partition(";")[0].strip() != "application/json":
            raise self._stranger(f"answered {response.status} with no JSON")
        try:
            return json.loads(data)
        except ValueError:
            raise self._stranger("answered with broken JSON") from None

    def text(self, path: str, query: Query | None = None, timeout_s: float | None = None) -> str:
        """Answer of `GET path` as text, such as a CSV file or metrics."""
        return self._exchange("GET", path, None, query, timeout_s, True)[1].decode("utf-8", "replace")

    def close(self) -> None:
        """Close the idle connections; the client remains usable and opens new ones."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _exchange(
        self,
        method: str,
        path: str,
        body: bytes | None,
        query: Query | None,
        timeout_s: float | None,
        may_repeat: bool,
    ) -> tuple[HTTPResponse, bytes]:
        target = self._base + path + _query(query)
        limit_s = self.timeout_s if timeout_s is None else timeout_s
        connection = self._taken(limit_s)
        try:
            if connection is not None:
                try:
                    response, data = self._once(connection, method, target, body)
                except _Stale:
                    if not may_repeat:
                        raise
                    connection = None
            if connection is None:
                connection = self._opened(limit_s)
                response, data = self._once(connection, method, target, body)
        except _Stale:
            raise Unreachable(
                f"the controller at {self.address} closed the connection without an answer"
            ) from None
        except TimeoutError:
            raise Unreachable(
                f"the controller at {self.address} did not answer within {limit_s:g} s"
            ) from None
        except (OSError, HTTPException) as error:
            unreachable = Unreachable(self._unreached(error))
            unreachable.was_sent = not isinstance(error, NOBODY_LISTENS)
            raise unreachable from None
        self._put_back(connection, response)
        cluster_clock.hear(response.getheader(cluster_clock.HEADER))
        if not 200 <= response.status < 300:
            raise self._refusal(response, data)
        return response, data

    def _once(
        self, connection: HTTPConnection, method: str, target: str, body: bytes | None
    ) -> tuple[HTTPResponse, bytes]:
        """Send one request and read its answer; close the connection if that fails."""
        headers = self._headers if body is None else {**self._headers, "Content-Type": "application/json"}
        try:
            if connection.sock is None:
                connection.connect()
            # A server that refuses a body may answer and close before all of it was sent: read its answer
            # anyway.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.request(method, target, body=body, headers=headers)
            response = connection.getresponse()
            return response, response.read()
        except (RemoteDisconnected, ConnectionResetError, BrokenPipeError):
            connection.close()
            raise _Stale from None
        except BaseException:
            connection.close()
            raise

    def _taken(self, timeout_s: float) -> HTTPConnection | None:
        """An idle connection that still seems open, or None."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection = self._idle.pop()
            # If an idle connection can be read, the other side has closed it (or broken the protocol).
            if connection.sock is not None and not _readable(connection.sock):
                connection.sock.settimeout(timeout_s)
                return connection
            connection.close()

    def _opened(self, timeout_s: float) -> HTTPConnection:
        if self._scheme == "unix":
            return _UnixConnection(self._host, timeout_s)
        kind = HTTPSConnection if self._scheme == "https" else _PlainConnection
        return kind(self._host, self._port, timeout=timeout_s)

    def _put_back(self, connection: HTTPConnection, response: HTTPResponse) -> None:
        with self._lock:
            if not response.will_close and connection.sock is not None and len(self._idle) < MOST_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def _refusal(self, response: HTTPResponse, data: bytes) -> RotaError:
        try:
            sentence = json.loads(data)["error"]
        except (ValueError, TypeError, KeyError):
            return self._stranger(f"answered {response.status} {response.reason}")
        after = response.getheader("Retry-After", "")
        return Refused(response.status, str(sentence), float(after) if after.isdigit() else None)

    def _unreached(self, error: OSError | HTTPException) -> str:
        if isinstance(error, HTTPException):
            return f"{self.address} does not speak HTTP: {type(error).__name__} {error}".rstrip()
        if isinstance(error, NOBODY_LISTENS):
            return f"no controller listens at {self.address}; {self._remedy()}"
        if isinstance(error, socket.gaierror):
            return f"cannot reach the controller at {self.address}: no machine {self._host!r} is known here"
        if isinstance(error, ssl.SSLCertVerificationError):
            return self._untrusted(error)
        if isinstance(error, ssl.SSLError) and error.reason in NO_TLS:
            return f"{self.address} does not speak TLS; a controller itself is reached at http://HOST:PORT"
        return f"cannot reach the controller at {self.address}: {error.strerror or error}"

    def _untrusted(self, error: ssl.SSLCertVerificationError) -> str:
        """Why the certificate is not trusted, and what to do about it."""
        code, file = getattr(error, "verify_code", 0), os.environ.get("SSL_CERT_FILE", "")
        if code not in CERTIFICATE_ADVICE and file and not os.access(file, os.R_OK):
            advice = f"SSL_CERT_FILE names {file}, which cannot be read"
        else:
            advice = CERTIFICATE_ADVICE.get(code, "SSL_CERT_FILE names a file of authorities to trust")
        why = error.verify_message.rstrip(".")
        return f"the certificate of {self.address} is not trusted: {why}; {advice}"

    def _remedy(self) -> str:
        """What to do if no server listens at the address."""
        if self._scheme == "unix" or is_loopback(self._host):
            return "`rota up` starts one"
        return "on that machine `rota up` starts one, which listens beyond it if `--host` says so"

    def _stranger(self, what: str) -> Unreachable:
        return Unreachable(f"{self.address} {what}: is that a Rota controller?")


class _PlainConnection(HTTPConnection):
    """HTTP that sends head and body of a request in one piece, so that the receiver wakes only once."""

    _held: list[bytes] | None = None

    def request(self, *given: Any, **more: Any) -> None:
        """Send a request as the base class does; its body is bytes."""
        self._held = []
        try:
            super().request(*given, **more)
            data = b"".join(self._held)
        finally:
            self._held = None
        self.send(data)

    def send(self, data: Any) -> None:
        """Send the data now, or together with the rest of the request."""
        if self._held is None:
            super().send(data)
        else:
            self._held.append(data)


class _UnixConnection(_PlainConnection):
    """HTTP over a UNIX socket."""

    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket; its path may have any length."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.sock.settimeout(self.timeout)
            with socket_address(Path(self._path)) as address:
                self.sock.connect(address)
        except BaseException:
            self.close()
            raise


@contextlib.contextmanager
def socket_address(path: Path) -> Iterator[str]:
    """Address for binding or connecting a UNIX socket at `path`, even if the path is too long for an address.

    A long path is reached through an open descriptor of its folder (`/proc/self/fd`), valid within the block.
    """
    if len(os.fsencode(path)) <= LONGEST_SOCKET_PATH:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def is_loopback(host: str) -> bool:
    """Whether `host` in an address means this machine itself."""
    import ipaddress  # imported here to keep the command line's start fast

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def route(*parts: object) -> str:
    """Path of an address: `route("v1", "nodes", "a/b", "drain")` is `/v1/nodes/a%2Fb/drain`."""
    return "".join(f"/{quote(str(part), safe='')}" for part in parts)


def _parsed(address: str) -> tuple[str, str, int | None, str]:
    """Scheme, host or socket path, port, and the path before every route."""
    if address.startswith(("http://", "https://")):
        url = urlsplit(address)
        try:
            port = url.port
        except ValueError:
            raise InputError.at(f"{address!r} has no valid port", expected="http://HOST:PORT") from None
        if not url.hostname or url.username or url.query or url.fragment:
            raise InputError.at(f"{address!r} is no address of a controller", expected="http://HOST:PORT")
        return url.scheme, url.hostname, port, url.path.rstrip("/")
    path = address.removeprefix("unix:")
    if "://" in address or not path or "/" not in path:
        problem = f"{address!r} is no address of a controller"
        raise InputError.at(problem, expected="http://HOST:PORT or the path of its socket")
    return "unix", os.path.expanduser(path), None, ""


def _encoded(body: object) -> bytes | None:
    if body is None:
        return None
    to_json = getattr(body, "model_dump_json", None)
    text: str = to_json() if to_json is not None else json.dumps(body, allow_nan=False)
    return text.encode()


def _query(query: Query | None) -> str:
    pairs = []
    for name, value in (query or {}).items():
        if isinstance(value, bool):
            value = "true" if value else "false"
        if value is not None:
            pairs.append((name, value))
    return "?" + urlencode(pairs, doseq=True) if pairs else ""


def _readable(sock: socket.socket) -> bool:
    poll = select.poll()
    poll.register(sock, select.POLLIN | select.POLLHUP | select.POLLERR)
    return bool(poll.poll(0))
