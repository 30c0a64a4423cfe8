"""What runs below a shim: the tree is complete, because orphans come to the shim and not to init."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from rota.engines.rota.identity import Stat

ROUNDS = 50
"""A tree that still grows after so many looks is a fork bomb; what is left of it comes with the next call."""
HOLD_S = 0.5
"""For so long a program that forks is followed at one call."""
HAS_CHILDREN = os.path.exists("/proc/thread-self/children")
NUDGE_S = 1.0
"""How often shells that were told to go are reminded of it."""


def table() -> dict[int, Stat]:
    """Every process of the machine that we may see, by pid."""
    stats = (Stat.of(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return {stat.pid: stat for stat in stats if stat is not None and not stat.dead}


def below(root: int, processes: dict[int, Stat] | None = None) -> list[Stat]:
    """Every living process that descends from `root`, parents before children."""
    children: dict[int, list[Stat]] = {}
    for stat in (table() if processes is None else processes).values():
        children.setdefault(stat.parent, []).append(stat)
    descendants = children.get(root, [])[:]
    for stat in descendants:  # grows while we walk
        descendants += children.get(stat.pid, [])
    return descendants


def send(pids: Iterable[int], number: int) -> None:
    """Signal processes; those gone already, or become another user's (`sudo`), are passed over."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def send_group(group: int, number: int) -> None:
    """Signal a process group, passing over the same."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return


def all_of(find: Callable[[], Iterable[int]], number: int) -> list[int]:
    """Signal every process that `find` names, and those born meanwhile; returns all that were signalled."""
    reached: dict[int, None] = {}
    for _ in range(ROUNDS):
        new = [pid for pid in find() if pid not in reached]
        if not new:
            break
        send(new, number)
        reached.update(dict.fromkeys(new))
    return list(reached)


def terminate(root: int, group: int, has_terminal: bool) -> None:
    """SIGTERM to the group of the ranks below `root`, or to all that a terminal has begun there."""
    if has_terminal:
        end_session(root, group)
    else:
        send_group(group, signal.SIGTERM)


def end_session(root: int, leader: int) -> None:
    """SIGTERM to everything below `root`, where people at a terminal have made groups of their own.

    A shell with job control is deaf to it, as it is to SIGTSTP: it is hung up on, and passes that on.
    """
    send([stat.pid for stat in below(root)], signal.SIGTERM)
    if ignores(leader, signal.SIGTSTP):
        send([leader], signal.SIGHUP)


def nudge(pids: Iterable[int]) -> None:
    """Let shells that were told to go look at that again.

    Bash that is hung up on between a program's end and its prompt sleeps on it until the next signal or key;
    SIGWINCH is one that changes nothing.
    """
    send(pids, signal.SIGWINCH)


def ignores(pid: int, number: int) -> bool:
    """Whether a process ignores a signal; False if it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return False
    mask = next((line.split()[1] for line in status.splitlines() if line.startswith("SigIgn:")), "0")
    return bool(int(mask, 16) >> (number - 1) & 1)


def stop_tree(root: int) -> None:
    """SIGSTOP to everything below `root`: nothing of it runs when this returns."""
    all_of(lambda: [stat.pid for stat in below(root)], signal.SIGSTOP)


def continue_tree(root: int) -> None:
    """SIGCONT to everything below `root`, children first: no parent finds its child stopped."""
    send([stat.pid for stat in reversed(below(root))], signal.SIGCONT)


def kill_tree(root: int) -> None:
    """SIGKILL to everything below `root`, but not to `root`."""
    all_of(lambda: [stat.pid for stat in below(root)], signal.SIGKILL)


def threads(pid: int) -> list[int]:
    """Thread ids of a process; [] if it is gone."""
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except (FileNotFoundError, ProcessLookupError):
        return []


def children(pid: int) -> list[int]:
    """Processes that `pid` or a thread of it has started and not yet waited for; [] if it is gone."""
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
    """Pin each rank's process (rank -> pid), with all below it, to its cores; orphans may use any of them.

    Not `exactly`, threads that have pinned themselves to some of those cores stay there.  Looks again until a
    look finds nothing to move: what is born meanwhile has the cores that its parent had.  True if the last
    look found nothing; False of a program that forks faster than it can be followed for `HOLD_S`.  A child
    whose birth began before its parent was moved may still come after that: call again in a while.
    Raises OSError if the machine has none of the cores.
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
    """One look at all below `shim`: whether anything had to be moved.

    The children of a process are read once it has been moved: a chain of forks is overtaken.
    """
    is_moved, waiting = False, [(pid, everywhere) for pid in children(shim)]
    while waiting and (not is_moved or time.monotonic() < until_s):
        pid, cores = waiting.pop()
        cores = given.get(pid, cores)
        is_moved = pin(pid, cores, exactly=exactly) or is_moved
        waiting += [(child, cores) for child in children(pid)]
    return is_moved


def pin(pid: int, cores: frozenset[int], *, exactly: bool = True) -> bool:
    """Pin every thread of a process to `cores`; whether that has changed any.

    Not `exactly`, those that use no others stay as they are.  Raises OSError if the machine has none of them.
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
    """The environment a process was started with, NUL separated; empty if it is gone or not ours to see."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""
