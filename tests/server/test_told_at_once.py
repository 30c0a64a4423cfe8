"""What an operator is told in time: moved ports, open addresses, agents that are gone; locks waited for."""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from serving_toys import PATIENCE_S, eventually, served
from test_agents_talk import Talk

from rota.client import Refused, route
from rota.engines.rota import main as agent_main
from rota.errors import WorldError
from rota.server.config import without_password
from rota.server.http_server import Address, _listen_again, in_the_clear
from rota.server.store.failures import StoreError
from rota.server.store.locks import FileLock
from rota.wire.sync import SyncRequest


@pytest.mark.parametrize(
    ("host", "is_told"),
    [("127.0.0.1", False), ("localhost", False), ("::1", False), ("0.0.0.0", True), ("10.1.2.3", True)],
)
def test_an_address_without_tls_is_told(host: str, is_told: bool) -> None:
    assert ("without TLS" in in_the_clear(host)) is is_told


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("postgresql+psycopg://ann:se@cret@db/rota", "postgresql+psycopg://…@db/rota"),
        ("postgresql+psycopg://ann@db/rota?password=secret", "postgresql+psycopg://…@db/rota?password=…"),
        ("postgresql:///rota?host=/run&sslpassword=se%26cret", "postgresql:///rota?host=/run&sslpassword=…"),
        ("sqlite:////tmp/rota.db", "sqlite:////tmp/rota.db"),
        (3, 3),
    ],
)
def test_passwords_stay_out_of_files(value: object, kept: object) -> None:
    assert without_password(value) == kept


def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        (tmp_path / "controller.port").write_text(str(port))
        sock, moved = _listen_again(Address(socket=tmp_path / "c.sock"))
        sock.close()
    assert moved.startswith("the API has moved to port ")
    assert f"127.0.0.1:{port}: Address already in use, where it was last time" in moved
    sock, moved = _listen_again(Address(socket=tmp_path / "c.sock"))
    sock.close()
    assert moved == ""


def test_an_agent_that_breaks_off_is_told_before_it_is_lost() -> None:
    talk = Talk()
    talk.agents._heard["n1"] = 0.0

    async def broken_off() -> None:
        asks = asyncio.ensure_future(
            talk.agents.sync("n1", SyncRequest(incarnation="a", seen=0, controller="one", wait_s=20.0))
        )
        await asyncio.sleep(0.05)
        asks.cancel()
        await asyncio.wait({asks})

    asyncio.run(broken_off())
    talk.agents._clock = type("At9", (), {"epoch_unix_s": 0.0, "__call__": lambda self: 9.0})()
    said = ["node n1 is silent: its agent broke its connection 4s ago; it counts as lost after 1m"]
    assert talk.agents.silent() == said
    talk.say()
    assert talk.agents.silent() == []


def test_an_agent_that_is_silent_for_long_is_told() -> None:
    talk = Talk()
    talk.agents._heard["n1"] = 5.0 - 30.0
    assert talk.agents.silent() == ["node n1 is silent for 30s; it counts as lost after 1m"]
    talk.row.state = "lost"
    assert talk.agents.silent() == []


@pytest.mark.parametrize("verb", ["drain", "undrain", "forget"])
def test_a_node_may_have_a_name_with_slashes(tmp_path: Path, verb: str) -> None:
    with served(tmp_path) as stage, pytest.raises(Refused, match="no node 'a/b'"):
        stage.client("admin").call("POST", route("v1", "nodes", "a/b", verb))


def _held_until(path: Path, may_leave: Callable[[], object]) -> threading.Thread:
    """Somebody else has the lock until `may_leave` returns."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX)
    os.pwrite(fd, b"4242\n", 0)

    def leave() -> None:
        may_leave()
        os.close(fd)

    thread = threading.Thread(target=leave)
    thread.start()
    return thread


@pytest.mark.slow
def test_successors_wait_for_the_lock_and_say_for_whom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    def told() -> None:
        """Until the successor says for whom it waits."""
        eventually(lambda: "waits for process 4242" in caplog.text)
        caplog.clear()

    leaving = _held_until(tmp_path / agent_main.LOCK, told)
    with agent_main.locked(tmp_path):
        leaving.join()
    leaving = _held_until(tmp_path / "db.lock", told)
    FileLock(tmp_path / "db.lock", "the database", wait_s=PATIENCE_S).release()
    leaving.join()
    monkeypatch.setattr(agent_main, "LOCK_S", 0.1)
    over = threading.Event()
    staying = [_held_until(tmp_path / agent_main.LOCK, over.wait)]
    try:
        with pytest.raises(WorldError, match="another agent \\(process 4242\\) works in"):
            agent_main.locked(tmp_path).__enter__()
        staying.append(_held_until(tmp_path / "db.lock", over.wait))
        with pytest.raises(StoreError, match="in use by another controller \\(process 4242\\)"):
            FileLock(tmp_path / "db.lock", "the database", wait_s=0.1)
    finally:
        over.set()
        for thread in staying:
            thread.join()
