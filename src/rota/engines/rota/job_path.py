"""The folder on the jobs' PYTHONPATH: `rota.training` for any Python, with or without Rota installed.

It holds a tiny package `rota` that contains only `training`. Each version of the files has a folder of its
own, named by their digest and made by one rename. A job therefore never sees half of a folder, and what a
running job imports late has the version it started with. Folders of versions that no job has started with for
a long time are removed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

import rota.training

KEPT_S = 60 * 86400.0
"""Seconds that an older version's folder is kept after its last use: jobs may still run with it."""
PACKAGE = '''\
"""Makes `rota.training` importable; everything else comes from the Rota installed here, if there is one."""

import os
from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
for _folder in __path__[1:]:
    _file = os.path.join(_folder, "__init__.py")
    if os.path.isfile(_file):
        with open(_file, encoding="utf-8") as _stream:
            exec(compile(_stream.read(), _file, "exec"))
        break
'''


def job_path(python: Path) -> Path:
    """The folder below `python` for a PYTHONPATH, whether or not it exists."""
    return python / _digest()


def make_job_path(python: Path) -> Path:
    """Make the folder of `job_path` if it is missing, and return it. Raises OSError."""
    folder = job_path(python)
    if not folder.is_dir():
        _make(folder, _files())
        _remove_old(python, folder)
    os.utime(folder)  # marks it as in use
    return folder


@cache
def _files() -> dict[str, bytes]:
    """Contents of every file of the folder, by relative name."""
    source = Path(rota.training.__file__).parent
    training = {f"rota/training/{path.name}": path.read_bytes() for path in sorted(source.glob("*.py"))}
    return {"rota/__init__.py": PACKAGE.encode(), **training}


@cache
def _digest() -> str:
    digest = hashlib.sha256()
    for name, content in _files().items():
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:16]


def _make(folder: Path, files: dict[str, bytes]) -> None:
    """Make all the files or none, readable for every user whatever our umask."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.parent.chmod(0o755)
    partial = Path(tempfile.mkdtemp(prefix=".part-", dir=folder.parent))
    try:
        for name, content in files.items():
            path = partial / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            path.chmod(0o644)
        for path in (partial, partial / "rota", partial / "rota" / "training"):
            path.chmod(0o755)
        try:
            partial.rename(folder)
        except OSError:
            if not folder.is_dir():  # otherwise another thread or agent was faster
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _remove_old(python: Path, current: Path) -> None:
    """Remove versions that no job has started with for long, and unfinished folders of killed agents."""
    for path in python.iterdir():
        with suppress(FileNotFoundError):  # another thread or agent has finished it
            if path != current and time.time() - path.stat().st_mtime > KEPT_S:
                shutil.rmtree(path, ignore_errors=True)
