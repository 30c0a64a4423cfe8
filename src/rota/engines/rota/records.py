"""The records of an attempt, checked when they are read.

They lie in a folder of the agent's own. If the agent is not root, its jobs run as the same user and may have
written anything there; that affects only the one attempt.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from rota.engines.rota.folder import EXIT, LAUNCH, NOTICE, PLACE, RANKS, SCRIPT, SHIM, STOP, SUSPEND, Folder
from rota.engines.rota.identity import ProcessIdentity
from rota.engines.rota.live import Live
from rota.engines.rota.stopping import StopPlan
from rota.training.checked import count, shown
from rota.wire.sync import Mechanism, Part, PartStatus, Wanted

MOST_PID, MOST_PORT = 2**31 - 1, 65535
NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)
"""Errors that say nothing about a record: it can be read later."""


@dataclass
class FoundAttempt:
    """An attempt that another agent launched."""

    live: Live
    plan: StopPlan | None = None
    fault: str = ""
    """Why its records cannot be used; empty if they can."""


class RankProcesses(NamedTuple):
    """The processes of an attempt that has started."""

    by_rank: dict[int, ProcessIdentity]
    pgid: int
    form: dict[str, Any]
    """The record of the shim, with the moment at which the processes started."""


@contextmanager
def making_sense(name: object) -> Iterator[None]:
    """Turn errors about missing or wrong fields of a record into a ValueError that names the record."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, IndexError, OverflowError) as error:
        raise ValueError(f"{name} makes no sense: {type(error).__name__}: {error}") from error


def find(folder: Folder, row: int, attempt: int, clock: Callable[[], float]) -> FoundAttempt:
    """Read the records of `folder`; raises OSError only if no descriptor is free to read them."""
    try:
        return _find(folder, (row, attempt), clock)
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in NO_DESCRIPTOR:
            raise
        part = Part(row=row, job=str(row + 1), attempt=attempt, version=0, wanted=Wanted.RUN)
        fault = f"{folder.launch} cannot be read: {error}"
        return FoundAttempt(Live(part, folder, PartStatus.STARTING, clock()), fault=fault)


def _find(folder: Folder, key: tuple[int, int], clock: Callable[[], float]) -> FoundAttempt:
    with making_sense(folder.path):
        form = folder.read(LAUNCH) or {}
        part = Part.model_validate(form["part"])
        if (part.row, part.attempt) != key:
            raise ValueError(f"it is of attempt {part.attempt} of row {part.row}")
        place = {**form, **(folder.read(PLACE) or {})}
        devices, cores = (tuple(int(one) for one in place[name]) for name in ("devices", "cores"))
        live = Live(part, folder, PartStatus.STARTING, clock(), devices, cores)
        live.port = None if form["port"] is None else count(form["port"], MOST_PORT)
        live.cgroup = next((Path(path).parent for path in form["cgroups"]), None)
        stop, suspend = folder.read(STOP), folder.read(SUSPEND)
        live.suspended = None if suspend is None else Mechanism(suspend["mechanism"])
        return FoundAttempt(live, None if stop is None else StopPlan.read(stop))


def read_shim(folder: Folder) -> ProcessIdentity | None:
    """The shim of an attempt; None if it has not recorded itself. Raises OSError and ValueError."""
    form = folder.read(SHIM)
    if form is None:
        return None
    with making_sense(folder.path / SHIM):
        return _process(form)


def read_ranks(folder: Folder) -> RankProcesses | None:
    """The ranks of an attempt; None if they have not started. Raises OSError and ValueError."""
    form = folder.read(RANKS)
    if form is None:
        return None
    with making_sense(folder.path / RANKS):
        by_rank = {int(one["rank"]): _process(one) for one in form["ranks"]}
        return RankProcesses(by_rank, _pid(form["pgid"]), form)


def _process(form: dict[str, Any]) -> ProcessIdentity:
    _pid(form["pid"])
    return ProcessIdentity.read(form)


def _pid(value: object) -> int:
    """A pid that a job's process can have: a signal to 0 or 1 would reach other processes."""
    if (pid := count(value, MOST_PID)) is None or pid < 2:
        raise ValueError(f"{shown(value)} is the number of no process")
    return pid


def clear(folder: Folder, record: dict[str, Any]) -> None:
    """Remove environment and orders; `launch.json` first, since nothing starts without it.

    Small files that record only that it ran are removed with the logs: to remove them now would take as long
    as the start of a short job. Raises OSError if there is no exit record and `record` cannot be written in
    its place: the attempt could be started again.
    """
    try:
        here = set(os.listdir(folder.path))
    except FileNotFoundError:  # another process was faster
        return
    if LAUNCH in here and EXIT not in here:
        folder.write(EXIT, record)
    rooms = [name for name in here if name.endswith((".room", ".sock"))]
    for name in (LAUNCH, SCRIPT, STOP, SUSPEND, PLACE, NOTICE, *rooms):
        if name in here:
            os.unlink(folder.path / name)
