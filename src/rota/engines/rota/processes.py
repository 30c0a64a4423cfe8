"""Processes below a shim: the tree is complete, because orphans become children of the shim, not of init."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from rota.engines.rota.identity import Stat

ROUNDS = 50
"""Most looks at a growing tree in one call; what a fork bomb has left then is found by the next call."""
HOLD_S = 0.5
"""Seconds for which one call follows a program that forks."""
HAS_CHILDREN = os.path.exists("/proc/thread-self/children")
NUDGE_S = 1.0
"""Seconds between two reminders to shells that were asked to exit."""


def table() -> dict[int, Stat]:
    """Every visible process of the machine, by pid."""
    stats = (Stat.of(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return {stat.pid: stat for stat in stats if stat is not None and not stat.dead}


def below(root: int, processes: dict[int, Stat] | None = None) -> list[Stat]:
    """Every living process that descends from `root`, parents before children."""
    children: dict[int, list[Stat]] = {}
    for stat in (table() if processes is None else processes).values():
        children.setdefault(stat.parent, []).append(stat)
    descendants = children.get(root, [])[:]
    for stat in descendants:  # grows during the loop
        descendants += children.get(stat.pid, [])
    return descendants


def send(pids: Iterable[int], number: int) -> None:
    """Signal processes; skip those that have ended or belong to another user now (`sudo`)."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def send_group(group: int, number: int) -> None:
    """Signal a process group; skip it if it has ended or belongs to another user."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return


def all_of(find: Callable[[], Iterable[int]], number: int) -> list[int]:
    """Signal every process that `find` returns, and those born meanwhile; returns all that were signalled."""
    reached: dict[int, None] = {}
    for _ in range(ROUNDS):
        new = [pid for pid in find() if pid not in reached]
        if not new:
            break
        send(new, number)
        reached.update(dict.fromkeys(new))
    return list(reached)


def terminate(root: int, group: int, has_terminal: bool) -> None:
    """Send SIGTERM to the group of the ranks below `root`; with a terminal, to everything started there."""
    if has_terminal:
        end_session(root, group)
    else:
        send_group(group, signal.SIGTERM)


def end_session(root: int, leader: int) -> None:
    """Send SIGTERM to everything below `root`, where users of a terminal may have made process groups.

    A shell with job control ignores SIGTERM and SIGTSTP; it gets SIGHUP, which it passes on.
    """
    send([stat.pid for stat in below(root)], signal.SIGTERM)
    if ignores(leader, signal.SIGTSTP):
        send([leader], signal.SIGHUP)


def nudge(pids: Iterable[int]) -> None:
    """Remind shells that were asked to exit.

    If SIGHUP reaches Bash between a program's end and its prompt, Bash acts on it only at the next signal or
    key; SIGWINCH is a signal without other effects.
    """
    send(pids, signal.SIGWINCH)


def ignores(pid: int, number: int) -> bool:
    """Whether a process ignores a signal; False if it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return False
    mask = next((line.split()[1] for line in status.splitlines() if line.startswith("SigIgn:")), "0")
    return bool(int(mask, 16) >> (number - 1) & 1)


def stop_tree(root: int) -> None:
    """Send SIGSTOP to everything below `root`: none of it runs when this returns."""
    all_of(lambda: [stat.pid for stat in below(root)], signal.SIGSTOP)


def continue_tree(root: int) -> None:
    """Send SIGCONT to everything below `root`, children first, so that no parent sees its child stopped."""
    send([stat.pid for stat in reversed(below(root))], signal.SIGCONT)


def kill_tree(root: int) -> None:
    """Send SIGKILL to everything below `root`, but not to `root`."""
    all_of(lambda: [stat.pid for stat in below(root)], signal.SIGKILL)


def threads(pid: int) -> list[int]:
    """Thread ids of a process; [] if it has ended."""
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except (FileNotFoundError, ProcessLookupError):
        return []


def children(pid: int) -> list[int]:
    """Processes that a thread of `pid` has started and not yet waited for; [] if it has ended."""
    if not HAS_CHILDREN:
        return [stat.pid for stat in table().values() if stat.parent == pid]
    pids: list[int] = []
    for thread in threads(pid):
        with suppress(FileNotFoundError, ProcessLookupError):
            pids += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    return pids


def hold_ranks(
    shim: int, ranks: Mapping[int, int], cores: Mapping[int, Collection[int]], *, exactly: bool = True
) -> bool:
    """Pin each rank's process (rank -> pid) and its descendants to its cores; orphans may use any of them.

    Unless `exactly`, threads that have pinned themselves to some of those cores stay there. Looks are
    repeated until one finds nothing to move, since a new process has the cores that its parent had. Returns
    True if the last look found nothing, False if the program forked faster than it could be followed for
    `HOLD_S`. A child whose birth began before its parent was moved may still appear later: call again after a
    while. Raises OSError if the machine has none of the cores.
    """
    everywhere = frozenset(core for some in cores.values() for core in some)
    given = {pid: frozenset(cores[rank]) for rank, pid in ranks.items()}
    until_s = time.monotonic() + HOLD_S
    while _held(shim, given, everywhere, exactly, until_s):
        if time.monotonic() >= until_s:
            return False
    return True


def _held(
    shim: int, given: Mapping[int, frozenset[int]], everywhere: frozenset[int], exactly: bool, until_s: float
) -> bool:
    """Look at everything below `shim` once; returns whether anything had to be moved.

    The children of a process are read after it has been moved, so that a chain of forks is overtaken.
    """
    is_moved, waiting = False, [(pid, everywhere) for pid in children(shim)]
    while waiting and (not is_moved or time.monotonic() < until_s):
        pid, cores = waiting.pop()
        cores = given.get(pid, cores)
        is_moved = pin(pid, cores, exactly=exactly) or is_moved
        waiting += [(child, cores) for child in children(pid)]
    return is_moved


def pin(pid: int, cores: frozenset[int], *, exactly: bool = True) -> bool:
    """Pin every thread of a process to `cores`; returns whether that changed any.

    Unless `exactly`, threads that use no other cores stay as they are. Raises OSError if the machine has none
    of the cores.
    """
    is_moved = False
    for thread in threads(pid):
        try:
            before = os.sched_getaffinity(thread)
            if before == cores or (not exactly and before < cores):
                continue
            os.sched_setaffinity(thread, cores)
            is_moved = os.sched_getaffinity(thread) != before or is_moved
        except (ProcessLookupError, PermissionError):
            continue
    return is_moved


def environment(pid: int) -> bytes:
    """The environment a process started with, separated by NUL; empty if it has ended or is not readable."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""
