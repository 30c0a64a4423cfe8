"""Files that are there whole or not at all."""

from __future__ import annotations

import os
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
