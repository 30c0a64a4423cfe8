"""A service manager hears when a service is ready; without one nothing happens."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from rota.model.readiness import READY, tell_manager


@pytest.mark.parametrize("is_abstract", [False, True])
def test_it_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_abstract: bool) -> None:
    """At a path, or at a name that begins with @."""
    name = f"rota-test-{tmp_path.name}-{id(tmp_path)}" if is_abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0{name}" if is_abstract else name)
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}" if is_abstract else name)
        tell_manager(READY)
        assert manager.recv(100) == b"READY=1"


def test_nobody_listens(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "none"))
    tell_manager(READY)
    assert not list(tmp_path.iterdir())
    monkeypatch.delenv("NOTIFY_SOCKET")
    tell_manager(READY)
