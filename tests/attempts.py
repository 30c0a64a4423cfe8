"""Small attempts for tests of the machine side: parts, and waiting for what becomes of them."""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Callable, Container, Sequence
from pathlib import Path
from typing import Any, TypeVar

from rota.engines.rota.live import Live
from rota.engines.rota.supervisor import Supervisor
from rota.wire.sync import Part, PartStatus, Rank, Wanted

PATIENCE_S = 60.0
ME = pwd.getpwuid(os.geteuid()).pw_name
"""The account of the tests, which a part names like any other."""
T = TypeVar("T")


def part(row: int, *command: str, ranks: int = 1, attempt: int = 1, **fields: Any) -> Part:
    """A part of one node with a device for each rank."""
    return Part(
        row=row,
        job=str(row + 1),
        attempt=attempt,
        version=1,
        wanted=Wanted.RUN,
        devices=list(range(ranks)),
        ranks=[Rank(rank=i, local_rank=i, devices=[i]) for i in range(ranks)],
        world_size=ranks,
        command=list(command),
        workdir=fields.pop("workdir", "/"),
        user=fields.pop("user", ME),
        **fields,
    )


def shell(row: int, script: str, **fields: Any) -> Part:
    """A part whose every rank runs a shell script."""
    return part(row, "/bin/sh", "-c", script, **fields)


def until(supervisor: Supervisor, live: Live, statuses: Container[PartStatus]) -> Live:
    """Wait for one of these statuses."""
    end_s = time.monotonic() + PATIENCE_S
    while live.status not in statuses:
        assert time.monotonic() < end_s, f"still {live.status}: {live.why}; wanted {statuses}"
        supervisor.wait(1.0)
    return live


def gone(supervisor: Supervisor, live: Live) -> Live:
    """Wait for the end, and for the shim, which flushes the record after it has told it."""
    until(supervisor, live, {PartStatus.ENDED, PartStatus.LOST})
    see(lambda: live.shim is None or not live.shim.alive(), "the shim to go")
    return live


def running(supervisor: Supervisor, live: Live) -> Live:
    """Wait until its ranks run."""
    return until(supervisor, live, {PartStatus.RUNNING})


def see(look: Callable[[], T], what: str) -> T:
    """Look again and again at something outside of our processes, until it is true."""
    end_s = time.monotonic() + PATIENCE_S
    while not (found := look()):
        assert time.monotonic() < end_s, f"not seen: {what}"
        time.sleep(0.01)
    return found


def lines(path: Path) -> Sequence[str]:
    """Lines of a file that may not be there yet."""
    return path.read_text().splitlines() if path.exists() else []
