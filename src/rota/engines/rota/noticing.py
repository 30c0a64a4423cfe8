"""Sends the notice signal of an attempt to the processes that handle it.

A process that does not handle the signal would die of it. So only processes that handle it get the signal; in
a rank without one (its program may still be starting) the notice waits.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

from rota.engines.rota.identity import Stat
from rota.engines.rota.live import Live
from rota.engines.rota.processes import send, table

SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "fish"})
"""Shells that pass the signal on to children: a shell runs its trap only after its current program ends."""
HARMLESS = frozenset({signal.SIGURG, signal.SIGWINCH, signal.SIGCONT})
"""Signals that a process ignores unless it handles them."""
NOTICE_S = 0.2
"""Seconds until a notice that no process handled is tried again."""


class NoticeRound:
    """One notice on its way to the ranks of an attempt."""

    def __init__(self, live: Live, signal_name: str) -> None:
        """Prepare a notice; the ranks of `live` are known; `signal_name` is such as SIGUSR1."""
        self._left, self._to = list(live.ranks.values()), live.part.notice_to
        self._number = int(getattr(signal, signal_name))

    def give(self) -> bool:
        """Signal processes that handle it, in each rank without it so far; True once all ranks have it or
        ended."""
        left = [one for one in self._left if one.alive()]
        children = _children(table()) if left and self._to != "rank" else {}
        self._left = []
        for rank in left:
            hearers = list(self._hearers(rank.pid, children))
            send(hearers, self._number)
            if not hearers:
                self._left.append(rank)
        return not self._left

    def _hearers(self, rank: int, children: dict[int, list[int]]) -> Iterator[int]:
        if self._to == "rank" or (self._to == "auto" and handles(rank, self._number)):
            yield rank
            return
        below = list(children.get(rank, ()))
        for pid in below:  # grows during the loop
            is_heard = handles(pid, self._number)
            if is_heard:
                yield pid
            if not is_heard or _name(pid) in SHELLS:
                below += children.get(pid, ())


def handles(pid: int, number: int) -> bool:
    """Whether a process would survive a signal and react to it; False if it has ended."""
    masks = _status(pid)
    if not masks or number in HARMLESS:
        return bool(masks)
    wanted = int(masks.get("SigCgt", "0"), 16) | int(masks.get("SigBlk", "0"), 16)
    return bool(wanted >> (number - 1) & 1) or _waits(pid)


def _waits(pid: int) -> bool:
    """Whether a process is in `sigwait`: the kernel then shows the awaited signals as not blocked."""
    try:
        return "sigtimedwait" in Path(f"/proc/{pid}/wchan").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return False


def _name(pid: int) -> str:
    return _status(pid).get("Name", "")


def _status(pid: int) -> dict[str, str]:
    """The lines of /proc/PID/status by their names; {} if the process has ended."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return {}
    pairs = (line.partition(":") for line in text.split("\n"))
    return {name: value.strip() for name, _, value in pairs}


def _children(processes: dict[int, Stat]) -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for stat in processes.values():
        children.setdefault(stat.parent, []).append(stat.pid)
    return children
