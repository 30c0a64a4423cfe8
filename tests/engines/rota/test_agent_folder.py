"""Files of an attempt are whole or absent, and a job cannot lead its agent astray."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from rota.engines.rota.folder import AgentFolder, open_theirs, read_json, tail, write_json


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    """With the mode asked for, whatever the umask, and no trace of the writing."""
    path = tmp_path / "a.json"
    assert read_json(path) is None
    write_json(path, {"x": 1})
    write_json(path, {"x": "ü"}, mode=0o644)
    assert read_json(path) == {"x": "ü"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    """The error names the file, and nothing half-written stays."""
    path = tmp_path / "a.json"
    write_json(path, {"x": 1})
    with pytest.raises(TypeError):
        write_json(path, {"x": object()})
    assert read_json(path) == {"x": 1}
    assert os.listdir(tmp_path) == ["a.json"]
    with pytest.raises(FileNotFoundError, match=r"none/b\.json"):
        write_json(tmp_path / "none" / "b.json", {})


@pytest.mark.parametrize("kind", ["link", "hard link", "pipe", "folder"])
def test_a_trap_in_a_folder_of_the_job(tmp_path: Path, kind: str) -> None:
    """Only an ordinary file of its own is read: an agent that is root would show any other to the job."""
    secret, path = tmp_path / "secret", tmp_path / "rank-0.log"
    secret.write_text("secret")
    match kind:
        case "link":
            path.symlink_to(secret)
        case "hard link":
            path.hardlink_to(secret)
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
    with pytest.raises(OSError, match=r"rank-0\.log"):
        open_theirs(path)
    with pytest.raises(OSError, match=r"rank-0\.log"):
        tail(path)


@pytest.mark.parametrize(
    ("text", "most", "end"),
    [
        (b"", 10, ""),
        (b"short", 10, "short"),
        (b"0123456789", 4, "6789"),
        ("ääää".encode(), 2, "ää"),
        (b"\xff\xfe", 4, "\ufffd\ufffd"),  # no text: shown as far as it is
    ],
)
def test_the_tail_of_a_log(tmp_path: Path, text: bytes, most: int, end: str) -> None:
    """The last characters, whatever the bytes."""
    path = tmp_path / "log"
    assert tail(path) == ""
    path.write_bytes(text)
    assert tail(path, most) == end


def test_attempts_are_found_in_order(tmp_path: Path) -> None:
    """Those with a launch file, by number and not by name."""
    home = AgentFolder(tmp_path, tmp_path / "checkpoints")
    for row, attempt in [(10, 1), (9, 2), (9, 10), (9, 1)]:
        home.of(row, attempt).path.mkdir(parents=True)
    for row, attempt in [(10, 1), (9, 10), (9, 2)]:
        home.of(row, attempt).launch.touch()
    assert list(home.launched()) == [(9, 2), (9, 10), (10, 1)]
