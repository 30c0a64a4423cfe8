"""An attempt's folder: where its files are; each file is there complete or not at all."""

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
"""`FS_IOC_GETFLAGS`, `FS_IOC_SETFLAGS` and `FS_TOPDIR_FL` of linux/fs.h, as `chattr +T` uses them."""
LAUNCH = "launch.json"
LOCK = "lock"
SHIM = "shim.json"
SHIM_LOG = "shim.log"
TERMINAL = "terminal.sock"
"""Socket of the shim for the terminal of rank 0, if it has one."""
RANKS = "ranks.json"
SCRIPT = "script"
"""The job's script as submitted, if it has one."""
EXIT = "exit.json"
NOTICE = "notice.json"
STOP = "stop.json"
SUSPEND = "suspend.json"
PLACE = "place.json"
MOST_RECORD = 1 << 26
"""Most bytes of a JSON file: one holds the command and the environment of a job."""
CONTACT = "contact"
"""File in the agent's folder: when the controller was last heard."""


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
        """Path of a rank's log, with its standard output and error."""
        return self.logs / f"rank-{rank}.log"

    def read(self, name: str) -> dict[str, Any] | None:
        """Contents of one of the JSON files; None if it does not exist."""
        return read_json(f"{self.path}/{name}")

    def write(self, name: str, value: dict[str, Any], *, mode: int = 0o600) -> None:
        """Replace one of the JSON files, durably."""
        write_json(self.path / name, value, mode=mode)

    def write_new(self, name: str, value: dict[str, Any]) -> int:
        """Write one of the JSON files for the first time; returns its descriptor, which the caller has to
        flush.

        The file is complete whatever process dies; a power cut before the flush may leave it empty, which its
        reader takes for a lost attempt, or missing.
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
    """The folder of one agent, with all its attempts and their checkpoints."""

    path: Path
    checkpoints: Path
    """`path/checkpoints`, unless a shared folder is configured."""

    @property
    def attempts(self) -> Path:
        return self.path / "attempts"

    @property
    def python(self) -> Path:
        """Folder for the jobs' PYTHONPATH."""
        return self.path / "python"

    def of(self, row: int, attempt: int) -> Folder:
        """The folder of an attempt, whether or not it exists."""
        return Folder(self.attempts / str(row) / str(attempt), self.checkpoint(row, attempt))

    def checkpoint(self, row: int, attempt: int) -> Path:
        """Checkpoint folder of an attempt; each attempt of a job has its own."""
        return self.checkpoints / str(row) / str(attempt)

    def launched(self) -> Iterator[tuple[int, int]]:
        """(row, attempt) of every attempt that was launched and not yet forgotten, ascending."""
        for row in _numbers(self.attempts):
            for attempt in _numbers(self.attempts / str(row)):
                if os.path.lexists(self.of(row, attempt).launch):
                    yield row, attempt


def _numbers(path: Path) -> list[int]:
    """Numbers that are names of folders in `path`, ascending; empty if `path` cannot be read."""
    try:
        return sorted(numbered(path))
    except OSError as error:
        LOG.warning("attempts in %s are not known: %s", path, error)
        return []


def seize(folder: Folder) -> int | None:
    """Take the attempt's lock; None if its shim has it."""
    path = folder.path / LOCK
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno != errno.EROFS:
            raise
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # enough for a lock
        except OSError:
            raise error from None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


def read_json(path: Path | str) -> dict[str, Any] | None:
    """A JSON object from a file; None if there is no file. Raises OSError; ValueError for other contents."""
    try:
        return read_object(path, MOST_RECORD)
    except FileNotFoundError:
        return None


def write_json(path: Path, value: dict[str, Any], *, mode: int = 0o600) -> None:
    """Write a file that is complete or missing, also after a power cut."""
    # In ASCII, since an environment may contain bytes that are not text.
    write_durably(path, json.dumps(value), mode=mode)


def spread(path: Path) -> None:
    """Tell the file system that the folders in `path` are unrelated.

    ext4 then places the inodes of a new folder where many are free, instead of beside its neighbours'.
    Without a journal it otherwise passes over every inode that was freed in the last minutes, one by one:
    with many short jobs that made each new file ten times as slow. Other file systems ignore this hint.
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

    Otherwise a job could make an agent that is root read any file of the machine. The caller closes the
    descriptor. Raises OSError; FileNotFoundError if the file does not exist.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(fd)
        raise PermissionError(f"{path} is not an ordinary file of its own")
    return fd


def tail(path: Path, most: int = 4000) -> str:
    """Last characters of a log; empty if it does not exist."""
    try:
        fd = open_theirs(path)
    except FileNotFoundError:
        return ""
    with open(fd, "rb") as stream:
        size = os.fstat(fd).st_size
        stream.seek(max(0, size - 4 * most))  # a character has up to 4 bytes
        return stream.read(4 * most).decode("utf-8", errors="replace")[-most:]
