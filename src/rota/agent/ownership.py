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

from rota.agent.folder import AgentFolder, read_json
from rota.crash import crash_point
from rota.model.atomic import sync_folder
from rota.wire.sync import Part, are_two

LOG = logging.getLogger("rota.agent")
OWNER = "job.json"


def claim(home: AgentFolder, part: Part) -> None:
    """The folders of the part's row are its job's from now on; those of another job are set aside.

    A folder that says nothing (of an older agent, or after a power cut: it is not worth a flush at every
    start) is taken for the job's own.  Raises OSError.
    """
    if part.submit_s:  # an older controller does not tell
        for root in (home.checkpoints, home.attempts):  # each by itself: machines may share the first
            _claim(root / str(part.row), part)


def _claim(row: Path, part: Part) -> None:
    owner_s = submitted_s(row / OWNER)
    if owner_s is not None and not are_two(owner_s, part.submit_s):
        return
    if owner_s is not None:
        aside = row.with_name(f"{row.name}.earlier-{time.time():.0f}")
        os.rename(row, aside)
        sync_folder(row.parent)
        crash_point("set aside")
        LOG.warning("%s holds what a job left that the store does not know any more", aside)
    row.mkdir(mode=0o700, parents=True, exist_ok=True)
    (row / OWNER).write_text(json.dumps({"version": 1, "job": part.job, "submit_s": part.submit_s}))


def submitted_s(path: Path) -> float | None:
    """When the job was submitted that a file names; None if it names none."""
    try:
        return float((read_json(path) or {})["submit_s"])
    except (KeyError, TypeError, ValueError):
        return None
