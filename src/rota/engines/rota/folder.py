"""An attempt's folder: where its files lie, and that each is there whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rota.engines.rota.below import write_all
from rota.engines.rota.trash import numbered
from rota.model.atomic import write_durably
from rota.training.checked import read_object

LOG = logging.getLogger("rota.engines.rota")
GET_FLAGS, SET_FLAGS, TOP_FOLDER = 0x80086601, 0x40086602, 0x00020000
"""`FS_IOC_GETFLAGS`, `FS_IOC_SETFLAGS` and `FS_TOPDIR_FL` of linux/fs.h: what `chattr +T` does."""
LAUNCH = "launch.json"
LOCK = "lock"
SHIM = "shim.json"
SHIM_LOG = "shim.log"
TERMINAL = "terminal.sock"
"""The shim's end of the terminal of rank 0, if it has one."""
RANKS = "ranks.json"
SCRIPT = "script"
"""The job's script, if it is one, as it was submitted."""
EXIT = "exit.json"
NOTICE = "notice.json"
STOP = "stop.json"
SUSPEND = "suspend.json"
PLACE = "place.json"
MOST_RECORD = 1 << 26
"""Bytes of a JSON file: the command and the environment of a job are in one."""
CONTACT = "contact"
"""In the agent's folder: when the controller was heard last."""


@dataclass(frozen=True)
class Folder:
    """The folder of one attempt on this machine."""

    path: Path
    checkpoint: Path
    """ROTA_CHECKPOINT_DIR of the attempt."""

    @property
    def launch(self) -> Path:
        return self.path / LAUNCH

    @property
    def script(self) -> Path:
        return self.path / SCRIPT

    @property
    def notice(self) -> Path:
        return self.path / NOTICE

    @property
    def training(self) -> Path:
        return self.path / "training"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    def log(self, rank: int) -> Path:
        """Standard output and error of a rank."""
        return self.logs / f"rank-{rank}.log"

    def read(self, name: str) -> dict[str, Any] | None:
        """One of the JSON files; None if it is not there."""
        return read_json(f"{self.path}/{name}")

    def write(self, name: str, value: dict[str, Any], *, mode: int = 0o600) -> None:
        """Replace one of the JSON files, durably."""
        write_json(self.path / name, value, mode=mode)

    def write_new(self, name: str, value: dict[str, Any]) -> int:
        """Write one of the JSON files for the first time; returns its descriptor, which is to be flushed.

        It is whole whatever process dies; a power cut before it is flushed may leave it empty, which its
        reader takes for an attempt that was lost, or leave nothing of it.
        """
        partial = self.path / f".{name}.part"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(partial, flags, 0o600)
        try:
            write_all(fd, json.dumps(value).encode())
            os.rename(partial, self.path / name)
        except BaseException:
            os.close(fd)
            raise
        return fd


@dataclass(frozen=True)
class AgentFolder:
    """The folder of one agent: all its attempts and their checkpoints."""

    path: Path
    checkpoints: Path
    """`path/checkpoints`, unless a shared folder is configured."""

    @property
    def attempts(self) -> Path:
        return self.path / "attempts"

    @property
    def python(self) -> Path:
        """The folder put on the jobs' PYTHONPATH."""
        return self.path / "python"

    def of(self, row: int, attempt: int) -> Folder:
        """Where an attempt lies, whether or not it is there."""
        return Folder(self.attempts / str(row) / str(attempt), self.checkpoint(row, attempt))

    def checkpoint(self, row: int, attempt: int) -> Path:
        """Checkpoint folder of an attempt of a job; another attempt's is another folder."""
        return self.checkpoints / str(row) / str(attempt)

    def launched(self) -> Iterator[tuple[int, int]]:
        """(row, attempt) of every attempt that was launched and is not forgotten, ascending."""
        for row in _numbers(self.attempts):
            for attempt in _numbers(self.attempts / str(row)):
                if os.path.lexists(self.of(row, attempt).launch):
                    yield row, attempt


def _numbers(path: Path) -> list[int]:
    """The numbers after which folders in `path` are named, ascending; none if it cannot be looked through."""
    try:
        return sorted(numbered(path))
    except OSError as error:
        LOG.warning("attempts in %s are not known: %s", path, error)
        return []


def seize(folder: Folder) -> int | None:
    """The attempt's lock, or None if its shim has it."""
    path = folder.path / LOCK
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno != errno.EROFS:
            raise
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # a lock needs no more
        except OSError:
            raise error from None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


def read_json(path: Path | str) -> dict[str, Any] | None:
    """A JSON object from a file; None if there is no such file.  Raises OSError, ValueError for nonsense."""
    try:
        return read_object(path, MOST_RECORD)
    except FileNotFoundError:
        return None


def write_json(path: Path, value: dict[str, Any], *, mode: int = 0o600) -> None:
    """Write a file that is there whole or not at all, also after a power cut."""
    write_durably(path, json.dumps(value), mode=mode)  # ASCII: an environment may hold bytes that are no text


def spread(path: Path) -> None:
    """Tell the file system that the folders in `path` have nothing to do with one another.

    ext4 then looks for the inodes of a new one where there are many, instead of beside its neighbours'.
    Without a journal it passes over every inode that was freed in the last minutes, one by one: where many
    short jobs come and go that made each new file ten times as dear.  Others know nothing of this hint.
    """
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        flags = bytearray(8)
        fcntl.ioctl(fd, GET_FLAGS, flags)
        fcntl.ioctl(fd, SET_FLAGS, struct.pack("=Q", struct.unpack("=Q", flags)[0] | TOP_FOLDER))
    except OSError:
        return
    finally:
        os.close(fd)


def open_theirs(path: Path) -> int:
    """Open for reading a file in a folder that the job's user may write: never a link, pipe or device.

    Without this, a job could lead an agent that is root to any file of the machine.  The caller closes the
    descriptor; raises OSError, FileNotFoundError if there is no such file.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(fd)
        raise PermissionError(f"{path} is not an ordinary file of its own")
    return fd


def tail(path: Path, most: int = 4000) -> str:
    """The last characters of a log; empty if there is none."""
    try:
        fd = open_theirs(path)
    except FileNotFoundError:
        return ""
    with open(fd, "rb") as stream:
        size = os.fstat(fd).st_size
        stream.seek(max(0, size - 4 * most))  # a character has up to 4 bytes
        return stream.read(4 * most).decode("utf-8", errors="replace")[-most:]
