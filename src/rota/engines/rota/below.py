"""Folders in places where users may write, opened one name at a time and never through a link.

A user must not redirect an agent that runs as root: only real folders with the expected owner are accepted.
All functions use descriptors, so that nothing can be replaced between a check and its use.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


@contextmanager
def opened(top: Path) -> Iterator[int]:
    """Descriptor of a folder that an operator names; raises OSError if it does not exist."""
    fd = os.open(top, _FOLDER)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def entered(
    fd: int, name: str, owners: Collection[int], *, mode: int | None = None, where: str = ""
) -> Iterator[int]:
    """Descriptor of the folder `name` in `fd`; with `mode`, a missing folder is made with that mode.

    Raises OSError: FileNotFoundError if the folder is missing, PermissionError for a link or another owner.
    """
    if mode is not None:
        try:
            os.mkdir(name, mode, dir_fd=fd)
        except FileExistsError:
            pass  # checked below
        except OSError as error:
            raise OSError(error.errno, error.strerror, where or name) from None
    try:
        inner = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=fd)
    except NotADirectoryError:
        raise PermissionError(f"{where or name} is no folder, or a link to one; remove it") from None
    try:
        owner = os.fstat(inner).st_uid
        if owner not in owners:
            raise PermissionError(f"{where or name} belongs to user {owner}; remove it")
        yield inner
    finally:
        os.close(inner)


def is_ours(fd: int, name: str) -> bool | None:
    """Whether `name` in `fd` is a folder of this process's user; None if it does not exist."""
    try:
        status = os.stat(name, dir_fd=fd, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def mark(fd: int, name: str) -> None:
    """Make the empty file `name` in `fd`, unless the name is taken."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        os.close(os.open(name, flags, 0o644, dir_fd=fd))
    except FileExistsError:
        return


def write(fd: int, name: str, text: str) -> None:
    """Write the file `name` in `fd`, a folder that only this process's user may change."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    out = os.open(name, flags, 0o644, dir_fd=fd)
    try:
        write_all(out, text.encode())
    finally:
        os.close(out)


def write_all(fd: int, data: bytes) -> None:
    """Write all of `data`; raises OSError. For small texts this takes half the time of a file object."""
    while data:
        data = data[os.write(fd, data) :]
