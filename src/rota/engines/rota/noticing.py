"""Who gets the notice signal of an attempt: processes that do something about it.

A process that does not handle the signal would die of it, which is no notice.  So the signal goes to those
that handle it; where a rank has none yet (its program is still starting) it waits for one.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

from rota.engines.rota.identity import Stat
from rota.engines.rota.live import Live
from rota.engines.rota.processes import send, table

SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "fish"})
"""Below these the signal goes on: a shell runs its trap only once the program that it waits for has ended."""
HARMLESS = frozenset({signal.SIGURG, signal.SIGWINCH, signal.SIGCONT})
"""A process that does not handle one of these passes it over."""
NOTICE_S = 0.2
"""Until a notice that nothing handled is tried again."""


class NoticeRound:
    """One notice on its way to the ranks of an attempt."""

    def __init__(self, live: Live, signal_name: str) -> None:
        """The ranks of `live` are known; `signal_name` such as SIGUSR1."""
        self._left, self._to = list(live.ranks.values()), live.part.notice_to
        self._number = int(getattr(signal, signal_name))

    def give(self) -> bool:
        """Signal what handles it, in each rank that has not had it; True once all have, or are gone."""
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
        for pid in below:  # grows while we walk
            is_heard = handles(pid, self._number)
            if is_heard:
                yield pid
            if not is_heard or _name(pid) in SHELLS:
                below += children.get(pid, ())


def handles(pid: int, number: int) -> bool:
    """Whether a process would live through a signal and see it; False if it is gone."""
    masks = _status(pid)
    if not masks or number in HARMLESS:
        return bool(masks)
    wanted = int(masks.get("SigCgt", "0"), 16) | int(masks.get("SigBlk", "0"), 16)
    return bool(wanted >> (number - 1) & 1) or _waits(pid)


def _waits(pid: int) -> bool:
    """Whether a process is in `sigwait`: meanwhile the kernel shows what it waits for as not blocked."""
    try:
        return "sigtimedwait" in Path(f"/proc/{pid}/wchan").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return False


def _name(pid: int) -> str:
    return _status(pid).get("Name", "")


def _status(pid: int) -> dict[str, str]:
    """The lines of /proc/PID/status by their names; {} if the process is gone."""
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
