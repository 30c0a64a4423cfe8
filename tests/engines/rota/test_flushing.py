"""What has to survive a power cut is flushed soon, unless something that says more is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rota.engines.rota import flushing
from rota.engines.rota.flushing import Flusher


@pytest.fixture
def flushed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the folders that were flushed, in order."""
    names: list[str] = []
    monkeypatch.setattr(flushing, "sync_folder", lambda folder: names.append(folder.name))
    return names


def queued(flusher: Flusher, folder: Path) -> int:
    folder.mkdir()
    fd = os.open(folder / "launch.json", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC)
    flusher.soon(fd, folder)
    return fd


def test_all_is_flushed_in_order_but_for_what_was_dropped(tmp_path: Path, flushed: list[str]) -> None:
    flusher = Flusher()
    fds = [queued(flusher, tmp_path / name) for name in ("a", "b", "c")]
    flusher.drop(tmp_path / "b")
    flusher.drop(tmp_path / "never")
    flusher.close()
    assert flushed in (["a", "c"], ["a", "b", "c"]), "what was dropped too late was flushed"
    for fd in fds:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)


def test_what_is_dropped_at_once_is_not_flushed(
    tmp_path: Path, flushed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flushing, "SOON_S", 600.0)
    flusher = Flusher()
    queued(flusher, tmp_path / "a")
    queued(flusher, tmp_path / "b")
    flusher.drop(tmp_path / "a")
    flusher.close()
    assert flushed == ["b"]


def test_a_folder_that_is_gone_is_no_trouble(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    flusher = Flusher()
    queued(flusher, tmp_path / "a")
    (tmp_path / "a" / "launch.json").unlink()
    (tmp_path / "a").rmdir()
    flusher.close()
    assert caplog.records == []
