"""How jobs in a Slurm accounting dump ended, and which of them are tasks of one array."""

from __future__ import annotations

import re

from rota.traces.table import TextTable

_TASK = re.compile(r"((?:[^:]+:)?\d+)_(?:\d+|\[.*\])")
_EXIT = re.compile(r"(\d+):(\d+)")
OUT_OF_MEMORY = "0:125"
"""Slurm's mark for that, beside the state that says so; no signal has this number."""


def arrays_of(jobs: TextTable) -> dict[int, str]:
    """By row: number of the array that the job is a task of, where JobID is such as `17_3`."""
    if not jobs.has("JobID"):
        return {}
    matches = ((row, _TASK.fullmatch(id.strip())) for row, id in enumerate(jobs.text("JobID")))
    return {row: match[1] for row, match in matches if match}


def exits_of(jobs: TextTable) -> dict[int, str]:
    """By row: `signal 9` or `exit 1`, as ExitCode says (`code:signal`), or `out of memory`.

    Nothing for jobs that ended well.
    """
    if not jobs.has("ExitCode"):
        return {}
    exits = {}
    for row, (cell, state) in enumerate(zip(jobs.text("ExitCode"), jobs.text("State"), strict=True)):
        match = _EXIT.fullmatch(cell.strip())
        if match and match[0] == OUT_OF_MEMORY and state == "OUT_OF_MEMORY":
            exits[row] = "out of memory"
        elif match and match[0] != "0:0":
            exits[row] = f"signal {match[2]}" if int(match[2]) else f"exit {match[1]}"
    return exits
