"""Whether a job's program can be started from this machine: the lookup of its start, made beforehand."""

from __future__ import annotations

import os


def why_not_here(name: str, folder: str, path: str | None) -> str:
    """Why this machine would not start the program `name` in `folder`; empty if it would, or if that is
    unknown.

    `path` is the PATH that the job gets; without one the PATH of another account decides, which is not known
    here. Standard library only, and no slow imports: each submission calls this.
    """
    file = os.path.join(folder, name)
    if "/" in name:
        if _runs(file) or not (os.path.isdir(folder) or os.path.isabs(name)):
            return ""
        if not os.path.exists(file):
            return f"there is no file {name!r} to run on this machine"
        return f"{name!r} is no program on this machine: `chmod +x` it, or put its interpreter before it"
    if path is None or any(_runs(os.path.join(folder, part, name)) for part in path.split(os.pathsep)):
        return ""
    if os.path.isfile(file):
        hint = f"put its interpreter before it, or run './{name}'"
        return f"there is no command {name!r} on this machine, only a file: {hint}"
    return f"there is no command {name!r} on this machine"


def _runs(file: str) -> bool:
    return os.path.isfile(file) and os.access(file, os.X_OK)
