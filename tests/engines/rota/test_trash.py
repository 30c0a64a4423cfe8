"""Folders that go: all of them in the end, whoever is killed meanwhile, and nothing a link points to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import tracemalloc
from pathlib import Path

import pytest

from rota.crash import VARIABLE
from rota.engines.rota import trash
from rota.engines.rota.trash import TRASH, empty, numbered, size_of, throw_away

PROGRAM = """
import sys
from pathlib import Path
from rota.engines.rota.trash import empty, throw_away
for name in sys.argv[2:]:
    throw_away(Path(sys.argv[1]), name)
empty(Path(sys.argv[1]))
"""


def filled(folder: Path) -> Path:
    """A folder with something in it."""
    (folder / "logs").mkdir(parents=True)
    (folder / "logs" / "rank-0.log").write_bytes(b"x" * 10_000)
    return folder


def left(root: Path) -> list[str]:
    """What is in `root` besides an empty trash."""
    assert not list((root / TRASH).iterdir())
    return sorted(path.name for path in root.iterdir() if path.name != TRASH)


def test_thrown_away_and_deleted(tmp_path: Path) -> None:
    filled(tmp_path / "3" / "1")
    filled(tmp_path / "4" / "1")
    assert throw_away(tmp_path, "3")
    assert not (tmp_path / "3").exists()
    assert not throw_away(tmp_path, "3"), "it is not there any more"
    empty(tmp_path)
    empty(tmp_path)
    assert left(tmp_path) == ["4"]
    assert (tmp_path / TRASH).stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("point", ["moved to trash", "moved to trash:2", "trash deleted", "trash deleted:2"])
def test_killed_on_the_way(tmp_path: Path, point: str) -> None:
    """Whoever comes next finishes it; what was not to go is as it was."""
    for row in (1, 2, 3):
        filled(tmp_path / str(row) / "1")
    arguments = [sys.executable, "-c", PROGRAM, str(tmp_path), "1", "2"]
    done = subprocess.run(arguments, env={**os.environ, VARIABLE: point}, check=False)
    assert done.returncode == -signal.SIGKILL
    assert (tmp_path / "3" / "1" / "logs" / "rank-0.log").stat().st_size == 10_000
    subprocess.run(arguments, check=True)
    assert left(tmp_path) == ["3"]
    assert size_of(tmp_path / "3") >= 10_000


def test_links_are_removed_and_never_followed(tmp_path: Path) -> None:
    """Inside a folder that goes, in its place, and in the trash itself."""
    precious = filled(tmp_path / "precious")
    root = tmp_path / "root"
    filled(root / "1" / "1")
    (root / "1" / "link").symlink_to(precious)
    (root / "1" / "1" / "logs" / "up").symlink_to(tmp_path)
    (root / "2").symlink_to(precious)
    assert throw_away(root, "1")
    assert not throw_away(root, "2"), "no folder that an agent made"
    (root / TRASH / "planted").symlink_to(precious)
    empty(root)
    assert left(root) == ["2"]
    assert (precious / "logs" / "rank-0.log").exists()
    assert size_of(root) < 50_000


def test_a_trash_that_leads_elsewhere_is_not_used(tmp_path: Path) -> None:
    precious = filled(tmp_path / "precious")
    root = tmp_path / "root"
    filled(root / "1")
    (root / TRASH).symlink_to(precious)
    for act in (lambda: throw_away(root, "1"), lambda: empty(root)):
        with pytest.raises(OSError, match=r"\.trash"):
            act()
    assert (root / "1").exists()
    assert (precious / "logs" / "rank-0.log").exists()


def test_what_belongs_to_somebody_else_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(tmp_path / "1")
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert not throw_away(tmp_path, "1")
    (tmp_path / TRASH).mkdir()
    with pytest.raises(PermissionError, match="belongs to somebody else"):
        empty(tmp_path)


def test_folders_that_a_job_has_closed() -> None:
    """Without the right to write or even to enter them, they go all the same."""
    program = PROGRAM
    with tempfile.TemporaryDirectory() as root:  # where another account may come, too
        folder = Path(root)
        filled(folder / "1" / "a")
        filled(folder / "1" / "b")
        if os.geteuid() == 0:  # root may do all that anyway
            for path in (folder, *folder.rglob("*")):
                os.chown(path, 65534, 65534)
            program = f"import os, shutil, rota.engines.rota.trash; os.setuid(65534)\n{PROGRAM}"
        (folder / "1" / "a" / "logs").chmod(0o500)
        (folder / "1" / "a").chmod(0o500)
        (folder / "1" / "b").chmod(0)
        subprocess.run([sys.executable, "-c", program, root, "1"], check=True)
        assert left(folder) == []


def test_one_that_cannot_be_deleted_does_not_keep_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for row in (1, 2, 3):
        filled(tmp_path / str(row))
        throw_away(tmp_path, str(row))
    delete = trash._emptied

    def stubborn(name: str, fd: int) -> list[str]:
        if name.startswith("2."):
            raise OSError(5, "Input/output error", name)
        return delete(name, fd)

    monkeypatch.setattr(trash, "_emptied", stubborn)
    with pytest.raises(OSError, match="Input/output error"):
        empty(tmp_path)
    assert [path.name.partition(".")[0] for path in (tmp_path / TRASH).iterdir()] == ["2"]


def test_numbers_are_those_that_rota_writes(tmp_path: Path) -> None:
    for name in ("0", "17", "007", "1.5", "-3", "²", "2024-01", TRASH, "x"):
        (tmp_path / name).mkdir()
    (tmp_path / "5").write_text("a file")
    (tmp_path / "6").symlink_to(tmp_path / "17")
    assert sorted(numbered(tmp_path)) == [0, 17]
    assert list(numbered(tmp_path / "nowhere")) == []


def test_sizes(tmp_path: Path) -> None:
    assert size_of(tmp_path / "nowhere") == 0
    (tmp_path / "file").write_bytes(b"x" * 100_000)
    assert size_of(tmp_path / "file") == 0, "no folder"
    assert 100_000 <= size_of(tmp_path) < 200_000


@pytest.mark.slow
def test_no_depth_is_too_deep(tmp_path: Path) -> None:
    """3,000 folders in one another, and a file in the last: counted, thrown away and deleted."""
    top = tmp_path / "1"
    top.mkdir()
    fd = os.open(top, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=fd)
        inner = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    with open(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=fd), "wb") as file:
        file.write(b"x" * 100_000)
    os.close(fd)
    assert size_of(top) >= 100_000
    assert throw_away(tmp_path, "1")
    empty(tmp_path)
    assert left(tmp_path) == []


def test_measuring_takes_no_memory_for_the_path_of_each_folder(tmp_path: Path) -> None:
    """600 folders in one another, each with another one beside it; of 40,000 it took 8.7 GB once."""
    top = tmp_path / "1"
    top.mkdir()
    fd = os.open(top, os.O_RDONLY)
    for depth in range(600):
        os.mkdir("d", dir_fd=fd)
        os.mkdir(f"beside{depth}", dir_fd=fd)
        inner = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(fd)
    tracemalloc.start()
    try:
        size_of(top)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        throw_away(tmp_path, "1")
        empty(tmp_path)
    assert peak_bytes < 3e5


def test_a_folder_within_an_attempt_is_removed_however_it_looks(tmp_path: Path) -> None:
    precious = filled(tmp_path / "precious")
    (tmp_path / "own" / "training" / "a" / "b").mkdir(parents=True)
    (tmp_path / "own" / "training" / "a" / "link").symlink_to(precious)
    trash.remove(tmp_path / "own", "training")
    assert list((tmp_path / "own").iterdir()) == []
    assert (precious / "logs" / "rank-0.log").exists()
    trash.remove(tmp_path / "own", "training")
