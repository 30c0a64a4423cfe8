"""Whose the folders of a row are: a number comes again where a store was restored from a backup.

The jobs that the backup does not know have left exit records and checkpoints under their numbers.  The next
job of such a number must neither be taken for one that has ended already, nor restore what is not its own.
"""

from __future__ import annotations

import json
import logging
import os
import time
from pathlib import Path

from rota.crash import crash_point
from rota.engines.rota.below import entered, is_ours, opened, write
from rota.engines.rota.folder import AgentFolder, open_theirs, spread
from rota.training.checked import number
from rota.wire.numbers import LATEST_S
from rota.wire.sync import Part, are_two

LOG = logging.getLogger("rota.engines.rota")
OWNER = "job.json"
MOST_BYTES = 65536
"""Of a file that says whose a folder is."""


def claim(home: AgentFolder, part: Part) -> None:
    """The folders of the part's row are its job's from now on; those of another job are set aside.

    A folder that says nothing (of an older agent, or after a power cut: it is not worth a flush at every
    start) is taken for the job's own.  What no agent of this user has made, a link or a folder that somebody
    has put there before, is set aside as well.  Raises OSError.
    """
    for root in (home.checkpoints, home.attempts):  # each by itself: machines may share the first
        if not root.is_dir():
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            spread(root)
        with opened(root) as top:
            _claim(top, root / str(part.row), part)


def _claim(top: int, row: Path, part: Part) -> None:
    is_there = is_ours(top, row.name)
    if is_there is False:
        _set_aside(top, row, "foreign", "was put there by somebody else")
    if not part.submit_s:  # an older controller does not tell
        return
    owner_s = submitted_s(row / OWNER) if is_there else None
    if owner_s is not None and not are_two(owner_s, part.submit_s):
        return
    if owner_s is not None:
        _set_aside(top, row, "earlier", "holds what a job left that the store does not know any more")
    with entered(top, row.name, {os.geteuid()}, mode=0o700, where=str(row)) as fd:
        write(fd, OWNER, json.dumps({"version": 1, "job": part.job, "submit_s": part.submit_s}))


def _set_aside(top: int, row: Path, why: str, sentence: str) -> None:
    """Keep it under another name: it is deleted by nobody but its owner."""
    aside = f"{row.name}.{why}-{time.time():.0f}"
    os.rename(row.name, aside, src_dir_fd=top, dst_dir_fd=top)
    os.fsync(top)
    crash_point("set aside")
    LOG.warning("%s %s", row.with_name(aside), sentence)


def submitted_s(path: Path) -> float | None:
    """When the job was submitted that a file names; None if it names none."""
    try:
        with open(open_theirs(path), encoding="utf-8") as file:
            return number(json.loads(file.read(MOST_BYTES))["submit_s"], 0.0, LATEST_S)
    except (OSError, KeyError, TypeError, ValueError, RecursionError):
        return None
