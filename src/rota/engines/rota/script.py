"""The script of an attempt as a file: a copy for its user, which lasts as long as the attempt."""

from __future__ import annotations

import os
from contextlib import suppress

from rota.engines.rota.below import write_all
from rota.engines.rota.folder import Folder
from rota.wire.script import interpreter
from rota.wire.sync import Part, Rank

MODE = 0o700
"""Mode of the file: only its user may read, write and run it, so that `exec "$0"` works."""


def put_script(folder: Folder, text: str, owner: tuple[int, int] | None) -> None:
    """Write the script into the attempt's folder, for `owner` (uid, gid) if that is another user.

    Replaces what an earlier attempt to write left there. Raises OSError.
    """
    with suppress(FileNotFoundError):
        os.unlink(folder.script)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(folder.script, flags, MODE)
    try:
        write_all(fd, text.encode())
        os.fchmod(fd, MODE)
        if owner is not None:
            os.fchown(fd, *owner)
    finally:
        os.close(fd)


def command_of(part: Part, folder: Folder) -> list[str]:
    """Program and arguments of each rank; with a script, the program of its `#!` line and the copy.

    The copy may therefore lie in a folder from which programs cannot be executed.
    """
    if not part.script:
        return part.command
    return [*interpreter(part.script), str(folder.script), *part.command[1:]]


def slurm_environment(part: Part, rank: Rank) -> dict[str, str]:
    """Variables that Slurm would set for a script; empty for a program."""
    if not part.script:
        return {}
    known = {
        "SLURM_JOB_ID": part.job,
        "SLURM_JOBID": part.job,
        "SLURM_NODEID": str(part.node_rank),
        "SLURM_PROCID": str(rank.rank),
        "SLURM_LOCALID": str(rank.local_rank),
        "SLURM_RESTART_COUNT": part.env.get("ROTA_RESTARTS", str(part.attempt - 1)),
    }
    if index := part.env.get("ROTA_ARRAY_INDEX"):
        known |= {"SLURM_ARRAY_TASK_ID": index, "SLURM_ARRAY_JOB_ID": part.env.get("ROTA_ARRAY_JOB_ID", "")}
    return known
