"""A control group for each attempt, where this machine allows it, so that no process can hide.

Optional: without it, the process tree below the shim, sessions and environments find all processes except
those that hide on purpose. Version 2 is used, else the freezer hierarchy of version 1, below the agent's own
group if that is writable. Only membership is used; no limit is set, and no other group is touched.
"""

from __future__ import annotations

import os
import signal
import zlib
from dataclasses import dataclass
from pathlib import Path

MEMBERS = "cgroup.procs"


@dataclass(frozen=True)
class Cgroups:
    """Where groups for attempts can be made, or why they cannot."""

    base: Path | None
    """The agent's own group."""
    why: str = ""

    @classmethod
    def probe(cls, proc: Path = Path("/proc/self")) -> Cgroups:
        """Find a hierarchy where we may make groups below our own, by making one."""
        own = memberships(_said(proc / "cgroup")) if (proc / "cgroup").exists() else {}
        problems = []
        for controller, mount in mounts(_said(proc / "mounts")):
            if controller not in own:
                continue
            base = mount / own[controller].lstrip("/")
            trial = base / f"rota-probe-{os.getpid()}"
            try:
                trial.mkdir()
                trial.rmdir()
            except OSError as error:
                problems.append(f"{base}: {error.strerror}")
                continue
            return cls(base)
        return cls(None, "; ".join(problems) or "no cgroup hierarchy is mounted")

    def make(self, name: str) -> Path | None:
        """Make a group for one attempt; None if that is not possible."""
        if self.base is None:
            return None
        path = self.base / name
        try:
            path.mkdir(exist_ok=True)
        except OSError:  # for example at the limit of groups: the attempt runs without
            return None
        return path


def _said(path: Path) -> str:
    """Text of a file of the kernel; names of mounts may be any bytes."""
    return os.fsdecode(path.read_bytes())


def group_name(folder: Path) -> str:
    """Name of the group for an attempt's folder; unique among agents with different homes on one machine."""
    home = zlib.crc32(os.fsencode(folder.parent.parent))
    return f"rota-{home:08x}-{folder.parent.name}-{folder.name}"


def memberships(text: str) -> dict[str, str]:
    """Parse /proc/self/cgroup: controller -> our group; "" is version 2."""
    groups = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        groups.update(dict.fromkeys(controllers.split(","), path))
    return groups


def mounts(text: str) -> list[tuple[str, Path]]:
    """Parse /proc/self/mounts: (controller, folder) of the hierarchies that can be used, the best first."""
    fields = [line.split() for line in text.splitlines()]
    second = [("", Path(field[1])) for field in fields if field[2] == "cgroup2"]
    old = [field for field in fields if field[2] == "cgroup" and "freezer" in field[3].split(",")]
    return second + [("freezer", Path(field[1])) for field in old]


def members(group: Path | None) -> list[int]:
    """Processes in a group; [] if the group does not exist."""
    if group is None:
        return []
    try:
        return [int(line) for line in (group / MEMBERS).read_text().split()]
    except FileNotFoundError:
        return []


def kill_members(group: Path | None) -> list[int]:
    """Send SIGKILL to all processes in a group; returns their pids."""
    pids = members(group)
    if group is None or not pids:
        return []
    at_once = group / "cgroup.kill"
    if at_once.exists():
        at_once.write_text("1")
        return pids
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    return pids


def remove(group: Path | None) -> None:
    """Remove the group of an attempt that has ended."""
    if group is not None:
        try:
            group.rmdir()
        except OSError:  # already gone, or it still has a zombie: an empty group costs nothing
            return
