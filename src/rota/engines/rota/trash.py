"""Removes folders in two steps: a rename moves them to the trash, then they are deleted.

A process killed in between leaves them in `.trash`, beside their old place, and the next one deletes them. No
function follows a link: a link that a user has put there is removed itself, never its target.
"""

from __future__ import annotations

import os
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from rota.crash import crash_point
from rota.engines.rota.below import opened
from rota.wire.numbers import MOST_COUNT

TRASH = ".trash"
MOST_OPENED = 100_000
"""Most folders that are opened to measure one."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def numbered(root: Path) -> Iterator[int]:
    """Numbers that are names of folders in `root`; none if `root` does not exist.

    Other names, and numbers that are not a row or attempt, are skipped.
    """
    try:
        with os.scandir(root) as entries:
            names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return
    for name in names:
        if name.isascii() and name.isdigit() and str(int(name)) == name and int(name) <= MOST_COUNT:
            yield int(name)


def throw_away(root: Path, name: str) -> bool:
    """Move `root/name` to the trash of `root`; False if it is missing, or not a folder that we made.

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
        except FileNotFoundError:  # on a shared folder another agent was faster
            return False
    crash_point("moved to trash")
    return True


def empty(root: Path) -> None:
    """Delete everything in the trash of `root`. Raises OSError at the end for what cannot be deleted."""
    if not (root / TRASH).is_dir():
        return
    with _trash(root) as fd:
        _delete(os.listdir(fd), fd)


def remove(parent: Path, name: str) -> None:
    """Delete the folder `parent/name`, of any depth and any owner. Raises OSError."""
    with opened(parent) as fd:
        _delete([name], fd)


def _delete(names: list[str], fd: int) -> None:
    """Delete all these names in `fd`; errors are raised at the end."""
    trouble: OSError | None = None
    while names:
        name = names.pop()
        try:
            inner = _emptied(name, fd)
            names += [name, *inner] if inner else []
        except FileNotFoundError:
            continue
        except OSError as error:
            trouble = error
        crash_point("trash deleted")
    if trouble is not None:
        raise trouble


@dataclass(frozen=True, slots=True, eq=False)
class _Inside:
    """A folder below the one that is measured, with its parent.

    Full paths would take too much memory: a tree 40,000 levels deep with one more folder in each level would
    not fit into a machine.
    """

    parent: _Inside | None
    name: str


def size_of(root: Path) -> int:
    """Bytes that a folder takes on its disk, 0 if it does not exist; files that vanish meanwhile do not
    count.

    If a folder has more than `MOST_OPENED` folders, only those that were opened count.
    """
    total = 0
    try:
        top = os.open(root, _FOLDER)
    except OSError:
        return total
    here: int = top
    at: _Inside | None = None
    waiting: list[_Inside | None] = [None]
    left = MOST_OPENED
    while waiting and left > 0:
        inner = waiting.pop()
        try:
            fd, count = _descended(top, here, at, inner)
        except OSError:
            continue
        left -= count
        if here != top:
            os.close(here)
        here, at = fd, inner
        with os.scandir(here) as entries:
            for entry in entries:
                with suppress(OSError):  # vanished meanwhile, or in a folder that its job has closed to us
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False) and len(waiting) < MOST_OPENED:
                        waiting.append(_Inside(inner, entry.name))
    for fd in {top, here}:
        os.close(fd)
    return total


def _descended(top: int, here: int, at: _Inside | None, inner: _Inside | None) -> tuple[int, int]:
    """Descriptor of `inner` below `top`, and the number of folders opened for it from `here`, which is
    `at`."""
    if inner is None:
        return top, 1
    if inner.parent is at:
        return os.open(inner.name, _FOLDER, dir_fd=here), 1
    names = _names(inner)
    fd = top
    for name in names:
        try:
            step = os.open(name, _FOLDER, dir_fd=fd)
        finally:
            if fd != top:
                os.close(fd)
        fd = step
    return fd, len(names)


def _names(inner: _Inside | None) -> list[str]:
    """Names on the path to `inner`, from the top."""
    names = []
    while inner is not None:
        names.append(inner.name)
        inner = inner.parent
    return names[::-1]


@contextmanager
def _trash(root: Path) -> Iterator[int]:
    """Descriptor of the trash of `root`, made if missing; PermissionError if it is not ours alone."""
    path = root / TRASH
    path.mkdir(mode=0o700, exist_ok=True)
    fd = os.open(path, _FOLDER)
    try:
        if os.fstat(fd).st_uid != os.geteuid():
            raise PermissionError(f"{path} belongs to somebody else; remove it")
        yield fd
    finally:
        os.close(fd)


def _emptied(name: str, fd: int) -> list[str]:
    """Delete `name` in `fd`, after moving the folders in it beside it, so that any depth works.

    Returns the new names of these folders; `name` has to be deleted after them.
    """
    if not stat.S_ISDIR(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=fd)
        return []
    _open_up(name, fd)
    inner, moved = os.open(name, _FOLDER, dir_fd=fd), []
    try:
        for entry in os.listdir(inner):
            if stat.S_ISDIR(os.stat(entry, dir_fd=inner, follow_symlinks=False).st_mode):
                _open_up(entry, inner)
                moved.append(f"inner.{uuid.uuid4().hex}")
                os.rename(entry, moved[-1], src_dir_fd=inner, dst_dir_fd=fd)
            else:
                os.unlink(entry, dir_fd=inner)
    finally:
        os.close(inner)
    if not moved:
        os.rmdir(name, dir_fd=fd)
    return moved


def _open_up(name: str, fd: int) -> None:
    """Restore our permission to change a folder, which a job may have removed. Root needs none."""
    if os.geteuid() != 0:
        os.chmod(name, 0o700, dir_fd=fd)
