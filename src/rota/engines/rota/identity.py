"""Identity of a process: its pid, its start time and the boot of the machine, since pids are reused."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class ProcessIdentity:
    """One process of one boot."""

    pid: int
    started: int
    """Field 22 of /proc/PID/stat: clock ticks since boot."""
    boot: str

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity | None:
        """The process that has this pid now; None if there is none."""
        stat = Stat.of(pid)
        return cls(pid, stat.started, boot_id()) if stat is not None else None

    def alive(self) -> bool:
        """Whether this very process still runs; a zombie does not."""
        if self.boot != boot_id():
            return False
        stat = Stat.of(self.pid)
        return stat is not None and stat.started == self.started and not stat.dead

    @classmethod
    def read(cls, value: dict[str, Any]) -> ProcessIdentity:
        """Read an identity from its JSON form."""
        return cls(int(value["pid"]), int(value["started"]), str(value["boot"]))

    def form(self) -> dict[str, Any]:
        """The identity in JSON form."""
        return {"pid": self.pid, "started": self.started, "boot": self.boot}

    def open(self) -> int | None:
        """A pidfd of this very process, which the caller closes; None if it has ended.

        The identity is checked after the descriptor is open: from then on the pid cannot pass to another
        process.
        """
        try:
            fd = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return None
        if self.alive():
            return fd
        os.close(fd)
        return None


@dataclass(frozen=True)
class Stat:
    """The fields of one line of /proc/PID/stat that are needed here."""

    pid: int
    state: str
    """One letter as in `ps`: R S D T t Z X."""
    parent: int
    group: int
    session: int
    threads: int
    started: int

    @property
    def dead(self) -> bool:
        """Whether it is a zombie without other living threads."""
        return self.state in "ZX" and self.threads <= 1

    @classmethod
    def of(cls, pid: int) -> Stat | None:
        """Current line of the kernel; None if there is no such process."""
        try:
            text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            return None
        rest = text[text.rindex(")") + 2 :].split()  # the name before it may contain blanks and brackets
        return cls(pid, rest[0], int(rest[1]), int(rest[2]), int(rest[3]), int(rest[17]), int(rest[19]))


@cache
def boot_id() -> str:
    """Id of this boot of the machine; it differs after each restart."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
