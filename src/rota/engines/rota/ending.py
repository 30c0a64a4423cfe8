"""How an attempt ended: read from the shim's record, or concluded if there is none."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rota.engines.rota.folder import SHIM_LOG, Folder, tail
from rota.engines.rota.identity import ProcessIdentity, boot_id
from rota.engines.shared.steady import as_told_here
from rota.wire.sync import Exit

SIGKILL = 9
NO_ROOM = 74
"""Exit code of a shim that could not reserve space for its records."""
CHILD_KILLED = re.compile(r"signal: Killed|SIGKILL|exitcode:? -9|Out of memory: Killed")


def exit_of(
    record: dict[str, Any], folder: Folder, killed_s: float | None, touched_s: float | None = 0.0
) -> Exit:
    """The wire's form of `exit.json`.

    `killed_s` is the time at which our own SIGKILL was due, None if it was not. `touched_s` is the moment
    from which its end may be caused by us; None if nothing was done to it.

    One rank represents the attempt: the first that failed; else one that left by checkpoint; else the lowest.
    """
    ranks = record["ranks"]
    speaks = next((end for end in ranks if end["rank"] == record["first"]), None)
    speaks = (
        speaks or next((end for end in ranks if end["code"] == 85), None) or (ranks[0] if ranks else None)
    )
    rank = speaks["rank"] if speaks else 0
    lines = log_tail(folder, rank)
    return Exit(
        ended_s=record["ended_s"],
        code=speaks["code"] if speaks else None,
        signal=speaks["signal"] if speaks else None,
        rank=rank,
        error=record["error"],
        infrastructure=record["infrastructure"],
        tail=lines,
        oom=speaks is not None and record["oom_kills"] > 0 and starved(speaks, lines, killed_s),
        cpu_s=sum(end.get("cpu_s", 0.0) for end in ranks) if ranks else None,
        peak_gib=sum(end.get("peak_bytes", 0) for end in ranks) / 2**30 if ranks else None,
        by_itself=speaks is not None and (touched_s is None or speaks["ended_s"] < touched_s),
    )


def began_s(record: dict[str, Any], ranks: Mapping[int, ProcessIdentity]) -> float:
    """When the ranks of `ranks.json` started, by this process's clock."""
    return float(record["started_s"]) + _later_s(record, "started_s", ranks)


def moved(record: dict[str, Any], ranks: Mapping[int, ProcessIdentity]) -> dict[str, Any]:
    """An exit record with its moments converted to this process's clock."""
    if not (by_s := _later_s(record, "ended_s", ranks)):
        return record
    ends = [{**one, "ended_s": one["ended_s"] + by_s} for one in record["ranks"]]
    return {**record, "ended_s": record["ended_s"] + by_s, "ranks": ends}


def _later_s(record: dict[str, Any], moment: str, ranks: Mapping[int, ProcessIdentity]) -> float:
    """A moment by this process's clock, even if the wall clock was set; of another boot, as recorded."""
    if "steady_s" not in record or not any(one.boot == boot_id() for one in ranks.values()):
        return 0.0
    return as_told_here(record[moment], record["steady_s"])


def starved(end: dict[str, Any], lines: str, killed_s: float | None) -> bool:
    """Whether a rank probably died for lack of memory: by a SIGKILL not from us, itself or a child."""
    if killed_s is not None and end["ended_s"] >= killed_s:
        return False
    if end["signal"] == SIGKILL or end["code"] == 128 + SIGKILL:
        return True
    return bool(end["code"]) and CHILD_KILLED.search(lines) is not None


def log_tail(folder: Folder, rank: int) -> str:
    """Last lines of a rank's log; a log that the job has damaged does no harm."""
    return last_words(folder.log(rank))


def last_words(log: Path) -> str:
    """The last lines of a log, or why there are none."""
    try:
        return tail(log)
    except OSError as error:
        return f"(the log cannot be read: {error})"


def lost_because(shim: ProcessIdentity | None, code: int | None, folder: Folder) -> str:
    """Why an attempt without a record is lost; `code` is the exit code of the shim's first process."""
    if shim is not None and shim.boot != boot_id():
        return "the machine was restarted while it ran"
    if shim is not None:
        return "its shim was killed, and its processes with it"
    if code == NO_ROOM:
        return "the disk of this machine has no room for its record; make room, or drain the node"
    said = last_words(folder.path / SHIM_LOG).strip().splitlines()
    return f"its shim died before it began: {said[-1] if said else 'it said nothing'}"


def unrecorded(folder: Folder, ranks: Iterable[ProcessIdentity]) -> str:
    """A sentence if its programs have ended and its shim cannot write the record; else empty."""
    if os.access(folder.path, os.W_OK) or any(one.alive() for one in ranks):
        return ""
    return f"its programs have ended, which will be known once {folder.path} can be written"


def unreadable(now_s: float, folder: Folder, error: Exception) -> dict[str, Any]:
    """A record that says that the records are unreadable; re-raises `error` if it says nothing about them.

    Without a free descriptor the end is only unknown for now: the records can be read later.
    """
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        raise error
    return verdict(now_s, f"the records in {folder.path} cannot be read: {error}")


def verdict(now_s: float, sentence: str) -> dict[str, Any]:
    """Record of an attempt whose shim left none: it is lost, through no fault of its program."""
    return {
        "version": 1,
        "ended_s": now_s,
        "ranks": [],
        "first": None,
        "error": sentence,
        "infrastructure": True,
        "oom_kills": 0,
        "lost": True,
    }
