"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to, which takes the place of `path` if the block ends without an error.

    Missing folders are made, and the file gets the mode that the umask of the process gives new files.
    An OSError names `path`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield partial
        os.replace(partial, path)
    except OSError as error:
        error.filename, error.filename2 = str(path), None  # the half-written one means nothing to anybody
        raise
    finally:
        partial.unlink(missing_ok=True)


def write_secret(path: Path, text: str) -> None:
    """A file of one line that only its owner can ever read: whole, and on the disk on return.

    Missing folders are made, for the owner alone.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{secrets.token_hex(6)}.part")
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w", encoding="ascii") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(descriptor)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
