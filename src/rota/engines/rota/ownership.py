"""Which job the folders of a row belong to: rows are reused after a store was restored from a backup.

Jobs that the backup does not know have left exit records and checkpoints under their rows. The next job of
such a row must not be taken for one that has already ended, and must not restore another job's state.
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
"""Most bytes of the file that records which job a folder belongs to."""


def claim(home: AgentFolder, part: Part) -> None:
    """Assign the folders of the part's row to its job; set aside those of another job.

    A folder without a record (of an older agent, or after a power cut, since the record is not flushed at
    every start) counts as the job's own. A link, or a folder that no agent of this user made, is set aside as
    well. Raises OSError.
    """
    for root in (home.checkpoints, home.attempts):  # each separately: machines may share the first
        if not root.is_dir():
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            spread(root)
        with opened(root) as top:
            _claim(top, root / str(part.row), part)


def _claim(top: int, row: Path, part: Part) -> None:
    is_there = is_ours(top, row.name)
    if is_there is False:
        _set_aside(top, row, "foreign", "was put there by somebody else")
    if not part.submit_s:  # an older controller does not send it
        return
    owner_s = submitted_s(row / OWNER) if is_there else None
    if owner_s is not None and not are_two(owner_s, part.submit_s):
        return
    if owner_s is not None:
        _set_aside(top, row, "earlier", "holds what a job left that the store does not know any more")
    with entered(top, row.name, {os.geteuid()}, mode=0o700, where=str(row)) as fd:
        write(fd, OWNER, json.dumps({"version": 1, "job": part.job, "submit_s": part.submit_s}))


def _set_aside(top: int, row: Path, why: str, sentence: str) -> None:
    """Keep the folder under another name; the agent never deletes it, its owner may."""
    aside = f"{row.name}.{why}-{time.time():.0f}"
    os.rename(row.name, aside, src_dir_fd=top, dst_dir_fd=top)
    os.fsync(top)
    crash_point("set aside")
    LOG.warning("%s %s", row.with_name(aside), sentence)


def submitted_s(path: Path) -> float | None:
    """Time of submission in the record of a folder; None if it has none."""
    try:
        with open(open_theirs(path), encoding="utf-8") as file:
            return number(json.loads(file.read(MOST_BYTES))["submit_s"], 0.0, LATEST_S)
    except (OSError, KeyError, TypeError, ValueError, RecursionError):
        return None
