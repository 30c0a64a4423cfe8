"""How many cores and how much host memory the program is to make do with, which may change while it runs.

A loader of data takes as many workers as it has cores, a cache keeps as many items as fit into its memory:

    said = rota.training.limits()
    if said.cpus != workers: ...

Both are None where nobody limits them.  The agent replaces the file whole; nothing restarts.
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
    """CPU cores, of all ranks on this node together."""
    memory_gib: float | None = None
    """Host memory, likewise: a budget for a cache of the program's own."""
    cores: tuple[int, ...] = ()
    """The cores that its threads are held to; empty for any."""


def limits() -> Limits:
    """What holds now; nothing outside Rota, or before anything was said."""
    folder = os.environ.get("ROTA_TRAINING_DIR", "")
    return read(folder) if folder else Limits()


def tell(folder: Folder, said: Limits) -> None:
    """The agent's side: write them down, so that a reader sees the old or the new ones."""
    stated = {"cpus": said.cpus, "memory_gib": said.memory_gib, "cores": list(said.cores)}
    write_json(os.path.join(str(folder), FILE), stated)


def read(folder: Folder) -> Limits:
    """What stands in a folder; of what makes no sense, nothing: the folder is the program's."""
    said = read_json(os.path.join(str(folder), FILE)) or {}
    named = said.get("cores")
    cores = [count(one, MOST_CORE) for one in named] if isinstance(named, list) else []
    return Limits(
        number(said.get("cpus"), 0.0),
        number(said.get("memory_gib"), 0.0),
        tuple(dict.fromkeys(core for core in cores if core is not None)),
    )
