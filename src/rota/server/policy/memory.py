"""The memory limit of a policy's process, and how it reports that the limit was not enough."""

from __future__ import annotations

import os
import sys

GIB = 1 << 30
SPENT = "spent"
"""Key of the answer of a process that ran out of memory: its task, as a sentence."""
_spare = [bytes(4 << 20)]
"""Given up by a process that has run out, so that it can say so."""


def most_gib(memory_gib: float) -> float:
    """The most that a process may take: `memory_gib`, or half of this machine's memory if it is 0."""
    if memory_gib:
        return memory_gib
    return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / GIB / 2, 3)


def confine(pid: int, memory_gib: float) -> None:
    """From now on the process `pid`, and each process that it starts, gets no more memory; Linux only."""
    if sys.platform != "linux":
        return
    import resource

    most = int(memory_gib * GIB)
    try:
        _, hard = resource.prlimit(pid, resource.RLIMIT_DATA)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.prlimit(pid, resource.RLIMIT_DATA, (most, most))
    except ProcessLookupError:  # it is gone already: its next question fails
        return


def has_run_out(error: BaseException) -> bool:
    """Whether `error` comes of it that there was no more memory; makes room to say so."""
    one: BaseException | None = error
    while one is not None and not isinstance(one, MemoryError):
        one = one.__cause__ or one.__context__
    if one is None:
        return False
    _spare.clear()
    return True
