"""Limits of cores and host memory for the program, which may change while it runs.

A data loader can adapt its workers to the cores, and a cache its items to the memory:

    said = rota.training.limits()
    if said.cpus != workers: ...

Both are None without a limit.  The agent replaces the file in one step; nothing restarts.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rota.training.checked import count, number, read_json
from rota.training.protocol import write_json

FILE = "limits.json"
MOST_CORE = 2**16

if TYPE_CHECKING:
    from pathlib import Path

    Folder = str | Path


@dataclass(frozen=True)
class Limits:
    """What the program may use on this node."""

    cpus: float | None = None
    """CPU cores of all ranks on this node together; None without a limit."""
    memory_gib: float | None = None
    """Host memory of all ranks on this node, a budget for the program's own cache; None without a limit."""
    cores: tuple[int, ...] = ()
    """Cores to which its threads are pinned; empty if they are not."""


def limits() -> Limits:
    """The present limits; empty outside Rota, or before any were set."""
    folder = os.environ.get("ROTA_TRAINING_DIR", "")
    return read(folder) if folder else Limits()


def tell(folder: Folder, said: Limits) -> None:
    """Write the limits (by the agent) in one step, so that a reader sees the old or the new ones."""
    stated = {"cpus": said.cpus, "memory_gib": said.memory_gib, "cores": list(said.cores)}
    write_json(os.path.join(str(folder), FILE), stated)


def read(folder: Folder) -> Limits:
    """The limits in a folder; invalid values are ignored, since the folder belongs to the program."""
    said = read_json(os.path.join(str(folder), FILE)) or {}
    named = said.get("cores")
    cores = [count(one, MOST_CORE) for one in named] if isinstance(named, list) else []
    return Limits(
        number(said.get("cpus"), 0.0),
        number(said.get("memory_gib"), 0.0),
        tuple(dict.fromkeys(core for core in cores if core is not None)),
    )
