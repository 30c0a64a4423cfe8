"""The program, folders and files of a job that are missing or unusable on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator

from rota.wire.job import JobSpec
from rota.wire.programs import why_not_here
from rota.wire.script import interpreter

_OTHERWISE = "; on a node where that is so as well the job ends at once"
"""End of each sentence: the job may run on another machine, so nothing is refused."""


def missing_here(spec: JobSpec) -> Iterator[str]:
    """Sentences about problems with a job's folder, its program and its output files on this machine.

    If a name has a `%` in it, only the folders before the `%` are checked.
    """
    is_there = not spec.workdir or os.path.isdir(spec.workdir)
    if not is_there:
        yield f"workdir={spec.workdir}: there is no such folder on this machine{_OTHERWISE}"
    program = interpreter(spec.script)[0] if spec.script else spec.command[0]
    if why := why_not_here(program, spec.workdir, spec.env.get("PATH")):
        yield why + _OTHERWISE
    for name, given in (("output", spec.output), ("error", spec.error)):
        path = os.path.join(spec.workdir, given)
        if (
            not given
            or path == os.devnull
            or not os.path.isabs(path)
            or not (is_there or os.path.isabs(given))
        ):
            continue
        if why := _unwritable(path):
            yield f"{name}={given}: {why} on this machine{_OTHERWISE}"


def _unwritable(path: str) -> str:
    """Why `path` cannot be appended to, as far as that is known before the job has a number; else empty."""
    known, percent, _ = path.partition("%")
    folder = os.path.dirname(known)
    if not os.path.isdir(folder):
        return f"there is no folder {folder}, and none is made,"
    if percent:
        is_last = "/" not in path[len(folder) + 1 :]
        return "" if not is_last or os.access(folder, os.W_OK | os.X_OK) else f"you may not write in {folder}"
    if os.path.isdir(path):
        return f"{path} is a folder"
    if os.path.exists(path):
        return "" if os.access(path, os.W_OK) else f"you may not write {path}"
    return "" if os.access(folder, os.W_OK | os.X_OK) else f"you may not write in {folder}"
