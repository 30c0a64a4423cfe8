"""Whether this machine can start any attempt: after one that could not start, a rehearsal finds out.

A machine with a full disk, or without free descriptors or processes, refuses a start at once. It is therefore
always free, and would attract one job after the other until all their retries are used up. While the
rehearsal fails, the machine's devices take no jobs; the rehearsal is repeated until it succeeds. Some faults
it cannot find. If several jobs in a row could not start, the machine pauses as if a rehearsal had failed, and
the next job is the test.
"""

from __future__ import annotations

import errno
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from rota.engines.rota import native
from rota.engines.rota.folder import AgentFolder
from rota.engines.rota.live import Live
from rota.engines.shared.ledger import Key
from rota.wire.accounts import NO_ACCOUNT
from rota.wire.sync import PartStatus

LOG = logging.getLogger("rota.engines.rota")
FILES, BYTES, PROCESSES = 16, 1 << 16, 4
"""What a rehearsal uses at once: open files, bytes in each, and processes; more than one start needs."""
FIRST_S, MOST_S = 2.0, 300.0
"""Seconds before the next rehearsal: the first pause and the longest. It grows if a machine passed although
it could start nothing."""
IN_A_ROW = 3
"""Attempts of several jobs that fail in a row before starting: with this number it is no coincidence."""
REHEARSAL = ".rehearsal"
_WAYS = {
    errno.ENOSPC: "free some space there",
    errno.EDQUOT: "raise the quota, or free some space there",
    errno.EMFILE: "start the agent with a higher `ulimit -n`",
    errno.ENFILE: "raise fs.file-max of this machine, or end what keeps so many files open",
    errno.EAGAIN: "raise `ulimit -u` (or TasksMax of the agent's service), or end what runs there",
    errno.ENOMEM: "end what takes the memory of this machine",
}
"""What an operator can do about each error."""


class Fitness:
    """Result of the last rehearsal; a single thread calls it."""

    def __init__(
        self,
        home: AgentFolder,
        *,
        clock: Callable[[], float] = time.monotonic,
        rehearse: Callable[[AgentFolder], str] | None = None,
    ) -> None:
        self.trouble = ""
        """Why nothing can start here, and what to do; empty if no problem is known."""
        self.next_s = float("inf")
        """When the next rehearsal is due, by `clock`."""
        self._home, self._clock, self._rehearse = home, clock, rehearse or rehearsed
        self._pause_s, self._well_s = FIRST_S, -float("inf")
        self._failed: set[Key] = set()
        self._begun: set[Key] = set()
        self._in_a_row: list[Live] = []
        """Attempts that could not start since the last that could."""

    def look(self, lives: Iterable[Live]) -> None:
        """Rehearse after each attempt that ended before it started, and whenever a rehearsal is due."""
        is_new = self._note(list(lives))
        now_s = self._clock()
        if not is_new and now_s < self.next_s:
            return
        lacks, before = self._rehearse(self._home), self.trouble
        if is_new:
            lacks = lacks or unlike_chance(self._in_a_row)
        if lacks and not before:
            flaps = now_s - self._well_s < MOST_S
            self._pause_s = min(2 * self._pause_s, MOST_S) if flaps else FIRST_S
        elif before and not lacks:
            self._well_s = now_s
        if lacks != before:
            LOG.warning("%s", lacks or "attempts can begin here again")
        self.trouble, self.next_s = lacks, now_s + self._pause_s if lacks else float("inf")

    def _note(self, lives: list[Live]) -> bool:
        """Record which attempts started and which could not; True if one that could not is new."""
        begun = {live.key for live in lives if live.started_s is not None}
        failed = {live.key: live for live in lives if could_not_begin(live)}
        if begun - self._begun:
            self._in_a_row.clear()
        fresh = [live for key, live in failed.items() if key not in self._failed]
        self._in_a_row = [*self._in_a_row, *fresh][-IN_A_ROW:]
        self._begun, self._failed = begun, set(failed)
        return bool(fresh)


def unlike_chance(failed: Sequence[Live]) -> str:
    """Why the machine should pause after its last attempts could not start, as a sentence; empty if it should
    not.

    A single job may lack something of its own; so may a single user, where each user has an account here.
    """
    jobs, users = {live.row for live in failed}, {live.part.user for live in failed}
    if len(failed) < IN_A_ROW or len(jobs) < 2 or (os.geteuid() == 0 and len(users) < 2):
        return ""
    last = failed[-1]
    why = last.why or (last.end.error if last.end is not None else "") or "nobody knows why"
    return f"the last {len(failed)} attempts could not begin, and nothing is known to be lacking: {why}"


def could_not_begin(live: Live) -> bool:
    """Whether an attempt ended before any of its processes started, through no fault of its own."""
    if live.part.user in ("", NO_ACCOUNT):
        return False
    by_us = live.status is PartStatus.LOST or (live.end is not None and live.end.infrastructure)
    return live.gone and live.started_s is None and by_us


def rehearsed(home: AgentFolder) -> str:
    """Try everything that an attempt needs to start: what is missing, as a sentence; empty if nothing is."""
    try:
        with _folder(home.attempts / REHEARSAL) as own:
            _files_and_processes(own)
        shared_with_others = home.checkpoints / f"{REHEARSAL}-{os.uname().nodename}-{os.getpid()}"
        with _folder(shared_with_others):
            return ""
    except OSError as error:
        said = os.strerror(error.errno) if error.errno is not None else str(error)
        place = f" in {home.path}" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        way = _WAYS.get(error.errno or 0, "see the log of the agent")
        return f"no attempt can begin{place}: {said}; {way}"


@contextmanager
def _folder(path: Path) -> Iterator[Path]:
    """A folder that exists during the block; one left by a killed agent is used again."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.mkdir(mode=0o700, exist_ok=True)
    try:
        yield path
    finally:
        with suppress(OSError):
            for one in path.iterdir():
                one.unlink()
            path.rmdir()


def _files_and_processes(folder: Path) -> None:
    """Open and fill files, and start processes, as an attempt needs them; raises OSError."""
    with ExitStack() as kept:
        for number in range(FILES):
            fd = os.open(folder / str(number), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            kept.callback(os.close, fd)
            os.posix_fallocate(fd, 0, BYTES)
        for _ in range(PROCESSES):  # start all of them before waiting for one: a process counts until then
            kept.callback(os.waitpid, _started(), 0)


def _started() -> int:
    """Start a process that ends at once: a shim without an attempt."""
    shim = native.program()
    words = [str(shim)] if shim is not None else [sys.executable, "-I", "-S", "-c", ""]
    nowhere = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
    return os.posix_spawn(words[0], words, dict(os.environ), file_actions=nowhere)
