"""Folders go in two steps: one rename takes them out of the way, then they are deleted.

Whoever is killed in between leaves them in `.trash`, beside where they were, and the next one deletes them.
Nothing here follows a link: what a user may have put in our way is removed itself, never what it points to.
"""

from __future__ import annotations

import os
import shutil
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rota.crash import crash_point

TRASH = ".trash"


def numbered(root: Path) -> Iterator[int]:
    """The numbers after which folders in `root` are named; none if there is no such folder."""
    try:
        with os.scandir(root) as entries:
            names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return
    for name in names:
        if name.isascii() and name.isdigit() and str(int(name)) == name:
            yield int(name)


def throw_away(root: Path, name: str) -> bool:
    """Move `root/name` to the trash of `root`; False if it is not there, or not a folder that we made.

    Raises OSError if it cannot be moved.
    """
    try:
        entry = os.lstat(root / name)
    except FileNotFoundError:
        return False
    if not stat.S_ISDIR(entry.st_mode) or entry.st_uid != os.geteuid():
        return False
    with _trash(root) as fd:
        try:
            os.rename(root / name, f"{name}.{uuid.uuid4().hex}", dst_dir_fd=fd)
        except FileNotFoundError:  # on a shared folder another agent was quicker
            return False
    crash_point("moved to trash")
    return True


def empty(root: Path) -> None:
    """Delete all that is in the trash of `root`.  Raises OSError for what cannot be deleted, at the end."""
    if not (root / TRASH).is_dir():
        return
    trouble: OSError | None = None
    with _trash(root) as fd:
        for name in os.listdir(fd):
            try:
                _delete(name, fd)
            except FileNotFoundError:
                continue
            except OSError as error:
                trouble = error
            crash_point("trash deleted")
    if trouble is not None:
        raise trouble


def size_of(root: Path) -> int:
    """Bytes that a folder takes on its disk, 0 if it is not there; what vanishes meanwhile is not counted."""
    total = 0
    try:
        for _, folders, files, fd in os.fwalk(root):
            for name in (*folders, *files):
                with suppress(FileNotFoundError):
                    total += os.stat(name, dir_fd=fd, follow_symlinks=False).st_blocks * 512
    except (FileNotFoundError, NotADirectoryError):
        return total
    return total


@contextmanager
def _trash(root: Path) -> Iterator[int]:
    """Descriptor of the trash of `root`, made if need be; raises PermissionError if it is not ours alone."""
    path = root / TRASH
    path.mkdir(mode=0o700, exist_ok=True)
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(fd).st_uid != os.geteuid():
            raise PermissionError(f"{path} belongs to somebody else; remove it")
        yield fd
    finally:
        os.close(fd)


def _delete(name: str, fd: int) -> None:
    if not stat.S_ISDIR(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=fd)
        return
    try:
        shutil.rmtree(name, dir_fd=fd)
    except PermissionError:
        if os.geteuid() == 0:  # then it is no matter of permission bits
            raise
        _open_up(name, fd)
        shutil.rmtree(name, dir_fd=fd)


def _open_up(name: str, fd: int) -> None:
    """Give ourselves the right to write every folder below: a job may have taken it away."""
    os.chmod(name, 0o700, dir_fd=fd)
    for _, folders, _, inner in os.fwalk(name, dir_fd=fd):
        for folder in folders:
            if stat.S_ISDIR(os.stat(folder, dir_fd=inner, follow_symlinks=False).st_mode):
                os.chmod(folder, 0o700, dir_fd=inner)
