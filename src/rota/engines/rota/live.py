"""What this machine knows of one attempt: its folder, its processes, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from rota.engines.rota.folder import Folder
from rota.engines.rota.identity import ProcessIdentity
from rota.wire.sync import Exit, Mechanism, Part, PartStatus

GONE = frozenset({PartStatus.ENDED, PartStatus.LOST})
"""States in which nothing of the attempt runs any more and its devices are free."""


@dataclass(eq=False)
class Live:
    """One attempt in its folder. Only the supervisor changes it; others read."""

    part: Part
    """The order that started it, with its `wanted` and `version` at that moment."""
    folder: Folder
    status: PartStatus
    since_s: float
    """Unix time of the last change of `status`."""
    devices: tuple[int, ...] = ()
    """Local indexes of its last devices; a suspended attempt keeps the list but does not occupy them."""
    cores: tuple[int, ...] = ()
    """Core of each device, in that order; empty where devices are not CPU slots."""
    port: int | None = None
    """Value of MASTER_PORT."""
    started_s: float | None = None
    """Unix time at which the first rank ran."""
    end: Exit | None = None
    """Known once the status is ENDED, and for most that are LOST."""
    why: str = ""
    """One sentence where the status needs one: why it is lost, or what keeps it from stopping."""
    suspended: Mechanism | None = None
    """Mechanism by which it is suspended; None if it is not."""
    deadline_s: float | None = None
    """Monotonic time at which SIGKILL follows; None unless it is being stopped."""
    shim: ProcessIdentity | None = None
    ranks: dict[int, ProcessIdentity] = field(default_factory=dict)
    """Rank -> its process."""
    pgid: int | None = None
    """Process group of the ranks."""
    cgroup: Path | None = None
    """Control group of the attempt, where this machine allows one."""

    @property
    def row(self) -> int:
        return self.part.row

    @property
    def attempt(self) -> int:
        return self.part.attempt

    @property
    def key(self) -> tuple[int, int]:
        """(row, attempt)"""
        return self.part.row, self.part.attempt

    @property
    def asleep(self) -> bool:
        """Whether its processes are stopped (SIGSTOP) during the suspension."""
        return self.suspended in (Mechanism.SIGNAL, Mechanism.CUDA)

    @property
    def pids(self) -> list[int]:
        """Processes of the ranks, by rank."""
        return [self.ranks[rank].pid for rank in sorted(self.ranks)]

    @property
    def gone(self) -> bool:
        """Whether nothing of it runs any more."""
        return self.status in GONE
