"""A checkpoint is either complete and verified, or it is not there; the newest `keep` of them stay.

    FOLDER/step-000000001200/state            contents as the writer wrote them
    FOLDER/step-000000001200/manifest.json    version, step, facts; size and SHA-256 of `state`
    FOLDER/.new-...                           unfinished: removed when the next process starts
    FOLDER/VOID                               no checkpoint may be published here any more

Publishing writes under another name, brings files and folders to the disk (fsync), looks for VOID, and
renames.  A failed write changes nothing.  Reading takes the newest valid one, first in the own folder, then
in the folders of earlier attempts in the order given, and prints which ones it skipped and why.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn

from rota.training import protocol
from rota.training.checked import read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

VERSION = 1
STATE, MANIFEST = "state", "manifest.json"
_BLOCK = 1 << 20


class CheckpointError(OSError):
    """A checkpoint could not be written or read; earlier ones are unchanged."""


class Voided(SystemExit):
    """This attempt may not publish any more: ends the program with `protocol.VOID_CODE`.

    It is a SystemExit, so that a loop that catches every Exception does not keep training in parallel with
    its successor.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(protocol.VOID_CODE)
        self.folder = folder

    def __str__(self) -> str:
        return (
            f"{self.folder} is void: another attempt of this job has taken over, nothing is published there; "
            f"this program ends with code {protocol.VOID_CODE}"
        )


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint on disk."""

    path: Path
    step: int
    manifest: dict[str, Any]

    @property
    def state(self) -> Path:
        """Path of the state file that the writer wrote."""
        return self.path / STATE

    @property
    def bytes(self) -> int:
        """Bytes of the state file."""
        return int(self.manifest["files"][STATE]["bytes"])


def say(text: str) -> None:
    """Write one line to standard error, which Rota keeps in the rank's log."""
    print(f"rota.training: {text}", file=sys.stderr, flush=True)


class Summing:
    """A binary file that computes the SHA-256 of what is written, and keeps the first disk error."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._sum = hashlib.sha256()
        self.bytes = 0
        self.error: OSError | None = None

    def write(self, piece: Any) -> int:
        """Write one piece completely, as a buffered file does."""
        try:
            self._file.write(piece)
        except OSError as error:
            self.error = error
            raise
        size = memoryview(piece).nbytes
        self._sum.update(piece)
        self.bytes += size
        return size

    def flush(self) -> None:
        """Flush the buffer."""
        self._file.flush()

    @property
    def digest(self) -> str:
        """SHA-256 of all pieces so far."""
        return self._sum.hexdigest()


class Checkpoints:
    """The checkpoints of one attempt, and those of earlier attempts."""

    def __init__(
        self, folder: protocol.Folder, restore: Sequence[protocol.Folder] = (), keep: int = 2
    ) -> None:
        """`folder` is written to, `restore` only read, newest attempt first; keeps the newest `keep` >= 1."""
        if keep < 1:
            raise ValueError(f"keep={keep}: at least 1 checkpoint must stay")
        self.folder = Path(folder)
        self.restore = [Path(one) for one in restore]
        self.keep = keep

    def publish(
        self, step: int, write: Callable[[Summing], None], facts: dict[str, Any] | None = None
    ) -> Checkpoint:
        """Write and publish the checkpoint of `step`; removes those beyond `keep`.

        Raises Voided if the folder is void, CheckpointError if it cannot be written; earlier checkpoints
        stay.
        """
        self.check_void()
        target = self.folder / f"step-{step:012d}"
        temporary = self.folder / f".new-{step}-{os.getpid()}-{time.monotonic_ns()}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            temporary.mkdir(mode=0o700)
            manifest = self._fill(temporary, step, write, facts or {})
            self.check_void()
            if target.exists():
                self._remove(target)
            os.rename(temporary, target)
            _sync_folder(self.folder)
        except OSError as error:
            raise CheckpointError(
                f"the checkpoint of step {step} could not be written to {self.folder}: {error}; "
                "the one before is as it was"
            ) from error
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        self._prune(step)
        return Checkpoint(target, step, manifest)

    def _fill(
        self, folder: Path, step: int, write: Callable[[Summing], None], facts: dict[str, Any]
    ) -> dict[str, Any]:
        """Write both files of a checkpoint to the disk."""
        with open(folder / STATE, "wb", buffering=_BLOCK) as file:
            summing = Summing(file)
            try:
                write(summing)
            except RuntimeError as error:  # torch's writer hides the disk's error in one of its own
                if summing.error is None:
                    raise
                raise summing.error from error
            file.flush()
            os.fsync(file.fileno())
        files = {STATE: {"bytes": summing.bytes, "sha256": summing.digest}}
        manifest = {"version": VERSION, "step": step, "at_s": time.time(), "files": files, **facts}
        protocol.write_json(folder / MANIFEST, manifest)
        with open(folder / MANIFEST, "rb") as file:
            os.fsync(file.fileno())
        _sync_folder(folder)
        return manifest

    def newest(self) -> Checkpoint | None:
        """The newest valid checkpoint; None if there is none. Prints which ones were skipped."""
        passed = 0
        for path in self._candidates():
            problem, checkpoint = _verify(path)
            if checkpoint is not None:
                if passed:
                    say(f"using {path} instead")
                return checkpoint
            passed += 1
            say(f"checkpoint {path} is damaged ({problem}); trying the one before")
        if passed:
            say("no checkpoint is whole: starting from the beginning")
        return None

    def tidy(self) -> None:
        """Remove unfinished files of a process that died while writing (call before the first `publish`)."""
        for path in self.folder.glob(".new-*"):
            shutil.rmtree(path, ignore_errors=True)

    def _candidates(self) -> Iterator[Path]:
        """All checkpoints, newest first; those in the own folder before those of earlier attempts."""
        seen = set()
        for folder in (self.folder, *self.restore):
            if folder not in seen:
                seen.add(folder)
                yield from sorted(folder.glob("step-*"), reverse=True)

    def check_void(self) -> None:
        """Raise Voided if the folder is void."""
        if os.path.lexists(self.folder / protocol.VOID):
            refuse(self.folder)

    def _prune(self, newest: int) -> None:
        """Remove old checkpoints, and later steps than `newest`, which belong to an abandoned history."""
        mine = sorted(self.folder.glob("step-*"))
        old = [path for path in mine if path.name <= f"step-{newest:012d}"]
        for path in [*old[: -self.keep], *(path for path in mine if path not in old)]:
            self._remove(path)

    def _remove(self, path: Path) -> None:
        """Rename the checkpoint before removal, so that a half removed one is not taken for a damaged one."""
        hidden = self.folder / f".new-old-{path.name}-{time.monotonic_ns()}"
        try:
            os.rename(path, hidden)
            shutil.rmtree(hidden)
        except OSError as error:
            say(f"the old checkpoint {path} could not be removed: {error}")


def refuse(folder: Path) -> NoReturn:
    """Print that `folder` is void and end the program: raises Voided."""
    error = Voided(folder)
    say(str(error))
    raise error


def _verify(path: Path) -> tuple[str, Checkpoint | None]:
    """What is wrong with a checkpoint, or the checkpoint."""
    manifest = read_json(path / MANIFEST)
    if manifest is None:
        return "its manifest is missing or unreadable", None
    if manifest.get("version") != VERSION:
        return f"its form has version {manifest.get('version')}, this library reads {VERSION}", None
    try:
        step, expected = int(manifest["step"]), manifest["files"][STATE]
        size, digest = _sum(path / STATE)
        if size != expected["bytes"]:
            return f"{size} bytes instead of {expected['bytes']}", None
        if digest != expected["sha256"]:
            return "its checksum does not match", None
    except (OSError, KeyError, TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}", None
    return "", Checkpoint(path, step, manifest)


def _sum(path: Path) -> tuple[int, str]:
    """Size and SHA-256 of a file."""
    total, size = hashlib.sha256(), 0
    with open(path, "rb", buffering=0) as file:
        while piece := file.read(_BLOCK):
            total.update(piece)
            size += len(piece)
    return size, total.hexdigest()


def _sync_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
