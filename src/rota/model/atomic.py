"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to, which takes the place of `path` if the block ends without an error.

    Missing folders are made, and the file gets the mode that the umask of the process gives new files. If
    `path` exists and is not a file, such as /dev/null or a pipe, it stays and is written to; if it is a link,
    the file behind it is replaced. An OSError names `path`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if _takes_writing(path):  # replacing /dev/null as root would take it from the whole machine
        yield path
        return
    target = _target_of(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        yield partial
        os.replace(partial, target)
    except OSError as error:
        # A whole sentence, or the name of another file that is being written, is kept.
        if error.errno is not None and str(error.filename or partial) == str(partial):
            error.filename, error.filename2 = str(path), None  # users do not know the temporary file
        raise
    finally:
        with suppress(OSError):  # where it cannot be removed, the first error counts
            partial.unlink()


def _target_of(path: Path) -> Path:
    """The file that `path` is, or that it links to, whether it exists or not."""
    if not path.is_symlink():
        return path
    target = Path(os.path.realpath(path))
    if target.is_symlink():  # they lead in a circle
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return target


def _takes_writing(path: Path) -> bool:
    """Whether `path` is, or leads to, a device or a pipe."""
    try:
        kind = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISCHR(kind) or stat.S_ISBLK(kind) or stat.S_ISFIFO(kind)


def write_durably(path: Path, text: str, *, mode: int = 0o600) -> None:
    """A file with exactly this mode that is written whole or not at all, also after a power cut.

    An OSError names `path`.
    """
    partial = path.with_name(f".{path.name}.{secrets.token_hex(6)}.part")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(partial, flags, mode), "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), mode)  # whatever the umask took away
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        error.filename, error.filename2 = str(path), None  # users do not know the temporary file
        raise
    finally:
        with suppress(OSError):  # where it cannot be removed, the first error counts
            partial.unlink()
    sync_folder(path.parent)


def write_secret(path: Path, text: str) -> None:
    """A file of one line that only its owner can ever read: whole, and on the disk on return.

    Missing folders are made, for the owner alone.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_durably(path, text + "\n")


def sync_folder(path: Path) -> None:
    """Make new and renamed entries of a folder survive a power cut."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
