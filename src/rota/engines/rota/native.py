"""The shim as a compiled program (`shim.c`), if the installation could build it.

Installing Rota compiles it if there is a C compiler; without it `shim.py`, which does the same with an
interpreter of its own, keeps every attempt.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rota.engines.rota.below import write_all

PROGRAM = Path(__file__).with_name("rota-shim")
PLAN_VERSION = 1


def program() -> Path | None:
    """Path of the compiled shim; None if there is none."""
    return PROGRAM if os.access(PROGRAM, os.X_OK) else None


def plan_of(form: Mapping[str, Any]) -> bytes:
    """The part of `launch.json` for the compiled shim: words that end in NUL, lists after their length."""
    user = form["user"] or {"uid": 0, "gid": 0, "groups": []}
    words: list[object] = [PLAN_VERSION, form["workdir"], form["grace_s"]]
    words += [int(form["user"] is not None), user["uid"], user["gid"]]
    words += [*_counted(user["groups"]), *_counted(form["cgroups"]), *_counted(form["command"])]
    words.append(len(form["ranks"]))
    for rank in form["ranks"]:
        env = {**form["env"], **rank["env"]}
        env.pop("ROTA_STARTED_S", None)  # the shim sets it
        words += [rank["rank"], *_counted(rank["cores"])]
        words += _counted([f"{name}={value}" for name, value in env.items()])
    words += [form.get("log_limit", 0), form.get("output_limit", 0)]
    for rank in form["ranks"]:
        words += [rank.get("output", ""), rank.get("error", "")]
    words += [int(form.get("terminal", False)), form.get("contact", "")]
    return os.fsencode("\0".join([*map(str, words), ""]))


def _counted(items: Sequence[object]) -> list[object]:
    return [len(items), *items]


class ShimProcess:
    """A child started without `subprocess`, whose exit code is polled."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._code: int | None = None

    def poll(self) -> int | None:
        """Exit code; None while it runs; a signal's negative number if one ended it."""
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code

    def kill(self) -> None:
        """Send SIGKILL, unless the process has ended."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


def start(
    shim: Path, folder: Path, form: Mapping[str, Any], environment: Mapping[str, str], log: int, pipe: int
) -> ShimProcess:
    """Start the compiled shim; raises OSError if this machine cannot.

    Its messages go to `log` and its progress to `pipe`; the caller closes both.
    """
    plan = os.memfd_create("plan", os.MFD_CLOEXEC)
    try:
        write_all(plan, plan_of(form))
        pid = os.posix_spawn(
            shim,
            [str(shim), str(folder), str(pipe), str(plan)],
            environment,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                *((os.POSIX_SPAWN_DUP2, log, output) for output in (1, 2)),
                *((os.POSIX_SPAWN_DUP2, kept, kept) for kept in (pipe, plan)),  # onto itself: it is inherited
            ],
        )
    finally:
        os.close(plan)
    return ShimProcess(pid)
