"""The HTTP server: the API on a TCP port and on a UNIX socket, with one event loop and one application.

The kernel names the process that connects to the UNIX socket (`SO_PEERCRED`); each request of the connection
carries it as `scope["state"]["peer"]`, which a caller cannot set.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import logging
import os
import secrets
import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI

from rota.client.http import socket_address
from rota.errors import WorldError
from rota.model.atomic import replacing
from rota.server.api.route_parts import Waiting
from rota.server.auth import ROOT, Peer
from rota.server.connections import AT_ONCE, Connections, CountedProtocol, JoinedWrites, most_connections

LOOPBACK = "127.0.0.1"
PORT_FILE = "controller.port"
KEEP_ALIVE_S = 75
SHUTDOWN_S = 5
BACKLOG = 2048
SOCKET_MODE = 0o666
"""Any process may connect, unless the folder's mode forbids it: the gate asks the kernel for its user."""
_UCRED = struct.Struct("iII")
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen."""

    host: str = LOOPBACK
    port: int = 0
    """0 is the port of last time, which machines that have joined know, or one that is free."""
    socket: Path | None = None
    """Path of the UNIX socket, with the port in a file next to it; None for no socket."""


class Serving:
    """One running API.

    The sockets listen from construction on (WorldError if they cannot); `run` answers, in the thread that
    calls it, until `stop` is called from anywhere.  Signals are the caller's business.
    """

    def __init__(self, app: FastAPI, address: Address) -> None:
        self._tcp, self.moved = _listen_again(address)
        """`moved` says why the port is not that of last time; empty if it is."""
        self._unix: tuple[socket.socket, Path, int] | None = None
        try:
            if address.socket is not None:
                self._unix = _listen_beside(address.socket)
        except BaseException:
            self._tcp.close()
            raise
        host, self.port = self._tcp.getsockname()[:2]
        if address.socket is not None:
            _keep(address.socket.with_name(PORT_FILE), self.port)
        self.url = f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"
        self.ready = threading.Event()
        """Set once calls are answered."""
        self._server = _Server(_config(app), app.state.waiting, self.ready)

    def run(self) -> None:
        """Answer calls until `stop`; then waiting calls get a refusal, others have SHUTDOWN_S to end."""
        sockets = [self._tcp] + ([self._unix[0]] if self._unix is not None else [])
        try:
            self._server.run(sockets)
        finally:
            self.close()

    def stop(self) -> None:
        """Make `run` return soon; may be called from any thread and from a signal handler."""
        self._server.should_exit = True

    def close(self) -> None:
        """Close the sockets, and remove the UNIX socket's file if it is still this one's."""
        self._tcp.close()
        if self._unix is not None:
            unix, path, inode = self._unix
            unix.close()
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_ino == inode:
                    path.unlink()


class PeerProtocol(CountedProtocol):
    """HTTP/1.1 that knows the process at the other end of a UNIX socket."""

    def __init__(self, port: Connections, accounts: Connections, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._port, self._accounts = port, accounts

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Ask the kernel once, when the connection is made; the controller's own account is not counted."""
        peer = peer_of(transport.get_extra_info("socket"))
        if peer is None:
            counted, who = self._port, str((transport.get_extra_info("peername") or ("",))[0])
        else:
            counted, who = self._accounts, str(peer.uid)
        is_own = peer is not None and peer.uid in (ROOT, os.geteuid())
        if not self.admit(transport, None if is_own else counted, who):
            return
        super().connection_made(JoinedWrites(transport, self.loop))  # type: ignore[arg-type]
        # The dictionary is shared by all connections: this one gets its own.
        self.app_state = {**self.app_state, "peer": peer, "drop": self.drop}


def peer_of(sock: socket.socket) -> Peer | None:
    """The process that connected this UNIX socket; None for other sockets."""
    if sock.family != socket.AF_UNIX:
        return None
    return Peer(*_UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)))


class _Server(uvicorn.Server):
    """Leaves signals alone, says when it is ready, and sends waiting calls home before it stops."""

    def __init__(self, config: uvicorn.Config, waiting: Waiting, ready: threading.Event) -> None:
        super().__init__(config)
        self._waiting = waiting
        self._ready = ready

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for sock in sockets or ():
            sock.listen(BACKLOG)  # asyncio has made that as small as one read
        self._ready.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._waiting.close()
        await super().shutdown(sockets)


def _config(app: FastAPI) -> uvicorn.Config:
    port, accounts = map(Connections, most_connections())
    return uvicorn.Config(
        app,
        http=partial(PeerProtocol, port, accounts),  # type: ignore[arg-type]
        loop="asyncio",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=AT_ONCE,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=SHUTDOWN_S,
    )


def _listen_again(address: Address) -> tuple[socket.socket, str]:
    """At the port that is asked for; if that is any, at that of last time, or with a word about another."""
    moved = ""
    if address.port == 0 and address.socket is not None:
        kept = address.socket.with_name(PORT_FILE)
        try:
            return _listen(address.host, int(kept.read_text(encoding="ascii"))), ""
        except (FileNotFoundError, ValueError):
            log.debug("no port is kept in %s", kept)
        except WorldError as error:
            moved = str(error).removesuffix("; choose another address")
            log.warning("%s (it was that of last time)", error)
    sock = _listen(address.host, address.port)
    if moved:
        moved = (
            f"the API has moved to port {sock.getsockname()[1]}: {moved}, where it was last time; the "
            "old address does not work any more: free that port and restart, or give users the new one"
        )
    return sock, moved


def _keep(path: Path, port: int) -> None:
    """For the next start, which can do without."""
    try:
        with replacing(path) as partial:
            partial.write_text(str(port), encoding="ascii")
    except OSError as error:
        log.warning("the port is not kept in %s: %s", path, error.strerror or error)


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port < 1 << 16:  # the resolver would take it modulo 65536
        raise WorldError(f"cannot listen at {host}:{port}: ports go from 0 to 65535")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # With its protocol named, asyncio sets TCP_NODELAY; without, each answer waits 40 ms for the caller.
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(address)
            sock.listen(BACKLOG)
        except BaseException:
            sock.close()
            raise
    except OSError as error:
        reason = error.strerror or error
        raise WorldError(f"cannot listen at {host}:{port}: {reason}; choose another address") from None
    return sock


def _listen_beside(path: Path) -> tuple[socket.socket, Path, int]:
    """A listening UNIX socket that takes the place of a dead one at `path`; the path and the inode."""
    if _answers(path):
        raise WorldError(f"another process listens at {path}; if it is a controller, `rota down` ends it")
    # Made under another name and moved into place, so that there is never a moment without one that answers.
    partial = path.with_name(f".{secrets.token_hex(4)}.sock")
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with socket_address(partial) as address:
            sock.bind(address)
        partial.chmod(SOCKET_MODE)
        sock.listen(BACKLOG)
        partial.replace(path)
    except OSError as error:
        sock.close()
        partial.unlink(missing_ok=True)
        raise WorldError(f"cannot listen at {path}: {error.strerror or error}") from None
    return sock, path, path.stat().st_ino


def _answers(path: Path) -> bool:
    """Whether a process listens at the socket; False if there is none, or a file that a dead one left."""
    if not path.exists():
        return False
    if not path.is_socket():
        raise WorldError(f"{path} is there and is no socket; move it away")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe, socket_address(path) as address:
        return probe.connect_ex(address) != errno.ECONNREFUSED


def in_the_clear(host: str) -> str:
    """A warning about an address that other machines reach; empty for loopback."""
    try:
        is_own = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_own = False
    if is_own:
        return ""
    return (
        f"the API listens at {host} without TLS: tokens and logs cross the network as they are; put a proxy "
        "with TLS before it (docs/live.md), or trust that network"
    )
