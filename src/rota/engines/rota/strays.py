"""Finds processes of an attempt whose shim has died, by their environment or session, and kills them."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from rota.engines.rota.identity import ProcessIdentity, boot_id
from rota.engines.rota.processes import all_of, environment, table


def strays(folder: Path, shim: ProcessIdentity | None) -> list[int]:
    """Every living process of the attempt in `folder`.

    ROTA_ATTEMPT_DIR in its environment names the folder, or it is still in the session that the shim opened.
    A session's number is not reused as a pid while the session has a process. A program that hides from both
    (clears its environment and opens a session) is found only by its cgroup, if it has one.
    """
    mark = b"\0ROTA_ATTEMPT_DIR=" + os.fsencode(folder) + b"\0"
    processes, own = table(), os.getpid()
    session = shim.pid if shim is not None and shim.boot == boot_id() else 0
    leader = processes.get(session)
    if leader is not None and shim is not None and leader.started != shim.started:
        session = 0  # the number is another process's now, so the session has no process of ours
    return [
        pid
        for pid, stat in processes.items()
        if pid != own and ((session and stat.session == session) or mark in b"\0" + environment(pid) + b"\0")
    ]


def kill_strays(folder: Path, shim: ProcessIdentity | None) -> list[int]:
    """Send SIGKILL to all strays; returns the pids of those that still lived."""
    return all_of(lambda: strays(folder, shim), signal.SIGKILL)
