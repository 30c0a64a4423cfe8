"""File systems of a test's own, which only root can mount; gone afterwards."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A disk with so much room, as `mount` understands it."""
    folder.mkdir()
    with _mounted("-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder):
        yield folder


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Whoever opens, makes, renames or removes a file under `folder` hears that its file system is read-only.

    What is open to be written may still be.
    """
    aside = folder.parent / f".{folder.name}.read-only"  # in place it is too late: somebody writes already
    aside.mkdir(exist_ok=True)
    with ExitStack() as stack:
        for source, place in ((folder, aside), (aside, folder)):
            stack.enter_context(_mounted("--bind", source, place))
            _call("-o", "remount,bind,ro", place)
        yield


@contextmanager
def _mounted(*arguments: str | Path) -> Iterator[None]:
    _call(*arguments)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", arguments[-1]], check=True)


def _call(*arguments: str | Path) -> None:
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root mounts anything")
    done = subprocess.run(["mount", *arguments], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"nothing can be mounted here: {done.stderr.decode().strip()}")
