"""What an attempt left behind when its shim died is found by its environment or its session, and killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from rota.engines.rota.identity import ProcessIdentity, boot_id
from rota.engines.rota.processes import all_of, environment, table


def strays(folder: Path, shim: ProcessIdentity | None) -> list[int]:
    """Every living process of the attempt in `folder`.

    ROTA_ATTEMPT_DIR in its environment names it, or it still is in the session that the shim opened: a
    session's number is no process's pid as long as anybody is in it.  A program that hides from both (clears
    its environment and opens a session) is found by its cgroup alone, where there is one.
    """
    mark = b"\0ROTA_ATTEMPT_DIR=" + os.fsencode(folder) + b"\0"
    processes, own = table(), os.getpid()
    session = shim.pid if shim is not None and shim.boot == boot_id() else 0
    leader = processes.get(session)
    if leader is not None and shim is not None and leader.started != shim.started:
        session = 0  # the number is another process's now, so nobody of ours is left in it
    return [
        pid
        for pid, stat in processes.items()
        if pid != own and ((session and stat.session == session) or mark in b"\0" + environment(pid) + b"\0")
    ]


def kill_strays(folder: Path, shim: ProcessIdentity | None) -> list[int]:
    """SIGKILL to all of them; returns those that were still there."""
    return all_of(lambda: strays(folder, shim), signal.SIGKILL)
