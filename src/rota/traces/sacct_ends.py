"""How jobs in a Slurm accounting dump ended, and which of them are tasks of one array."""

from __future__ import annotations

import re

import numpy as np

from rota.model.columns import Bools
from rota.model.failures import NO_SIGNATURE
from rota.traces.sacct_attempts import SacctAttempts
from rota.traces.table import TextTable

SIGNATURES = {
    "NODE_FAIL": "node failure",
    "BOOT_FAIL": "node failure",
    "LAUNCH_FAILED": "node failure",
    "OUT_OF_MEMORY": "CPU out of memory",
    "TIMEOUT": "time limit",
    "DEADLINE": "time limit",
    "FAILED": NO_SIGNATURE,
}
"""Signature of a failed attempt, by state; the other states give none."""

_TASK = re.compile(r"((?:[^:]+:)?\d+)_(?:\d+|\[.*\])")
_EXIT = re.compile(r"(\d{1,9}):(\d{1,9})")
OUT_OF_MEMORY = "0:125"
"""Slurm's code for out of memory, in addition to the state; no signal has this number."""


def arrays_of(jobs: TextTable) -> dict[int, str]:
    """By row: number of the array that the job is a task of, where JobID is such as `17_3`."""
    if not jobs.has("JobID"):
        return {}
    matches = ((row, _TASK.fullmatch(id.strip())) for row, id in enumerate(jobs.text("JobID")))
    return {row: match[1] for row, match in matches if match}


def exits_of(jobs: TextTable) -> dict[int, str]:
    """By row: `signal 9` or `exit 1`, from ExitCode (`code:signal`), or `out of memory`.

    Empty for jobs that ended well.
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


def signatures_of(rows: TextTable, attempts: SacctAttempts, failed: Bools) -> dict[int, tuple[str, ...]]:
    """By job: causes of its failed attempts, by their states; `failed` refers to the last attempt."""
    words, signatures = rows.text("State").to_list(), {}
    for job, last in enumerate(np.flatnonzero(attempts.is_last).tolist()):
        failing = [*attempts.failed_rows.get(job, ()), *([last] if failed[job] else [])]
        names = tuple(SIGNATURES.get(words[row], "") for row in failing)
        if any(names):
            signatures[job] = names
    return signatures
