"""How long jobs in a Slurm accounting dump ran, and their time limits."""

from __future__ import annotations

import re

import numpy as np

from rota.model.columns import Floats
from rota.traces.table import TextTable, is_blank

MINUTE_S = 60.0
NO_LIMIT = ("unlimited", "partition_limit", "invalid")
_LIMIT = re.compile(r"(?:(\d{1,9})-)?(?:(\d{1,9}):)?(\d{1,9}):(\d\d)(?:\.\d+)?")
_MINUTES = re.compile(r"\d{1,12}")


def elapsed_of(table: TextTable, start_s: Floats, end_s: Floats) -> Floats:
    """Seconds that each row ran; NaN if that is not recorded."""
    if table.has("ElapsedRaw"):
        return table.floats("ElapsedRaw", blank=np.nan)
    if not table.has("Elapsed"):
        return end_s - start_s
    cells = table.text("Elapsed").str.strip_chars()
    seconds = np.array([_clock(cell) for cell in cells])
    table.reject(np.isnan(seconds) & ~is_blank(cells), "Elapsed", "{} is no run time", "days-hours:min:sec")
    return seconds


def limits_of(jobs: TextTable) -> Floats:
    """Run time stated at submission, in seconds; NaN if it is missing or unlimited."""
    name = next((name for name in ("TimelimitRaw", "Timelimit") if jobs.has(name)), None)
    if name is None:
        return np.full(len(jobs), np.nan)
    cells = jobs.text(name).str.strip_chars()
    free = is_blank(cells) | cells.str.to_lowercase().is_in(list(NO_LIMIT)).to_numpy()
    seconds = np.array([_clock(cell) for cell in cells])
    expected = "minutes" if name == "TimelimitRaw" else "days-hours:minutes:seconds"
    jobs.reject(np.isnan(seconds) & ~free, name, "{} is not a time limit", expected)
    return seconds


def _clock(text: str) -> float:
    """Seconds of `1-12:00:00`, `02:30:00`, `30:00`, or of a bare number of minutes; else NaN."""
    if _MINUTES.fullmatch(text):
        return int(text) * MINUTE_S
    match = _LIMIT.fullmatch(text)
    if not match:
        return np.nan
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(days * 86400 + hours * 3600 + minutes * 60 + seconds)
