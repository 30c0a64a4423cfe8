"""Whether this machine can begin anything at all: after an attempt that could not, a rehearsal finds out.

A machine whose disk is full, or that has no descriptor or process left, refuses a start at once.  So it is
always free, and would draw one job after the other until the retries of all are used up.  While the rehearsal
fails its devices take no jobs; it is repeated until it succeeds.  What no rehearsal finds is seen by several
jobs in a row that could not begin: the machine rests as if one had failed, and the next job is the proof.
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
"""What is had at one time: files that are open, the room of each, and processes: more than one start."""
FIRST_S, MOST_S = 2.0, 300.0
"""Pause before the next rehearsal; longer where a machine had been found well that was not, after all."""
IN_A_ROW = 3
"""So many attempts of several jobs that could not begin, with none between that could, are no chance."""
REHEARSAL = ".rehearsal"
_WAYS = {
    errno.ENOSPC: "free some space there",
    errno.EDQUOT: "raise the quota, or free some space there",
    errno.EMFILE: "start the agent with a higher `ulimit -n`",
    errno.ENFILE: "raise fs.file-max of this machine, or end what keeps so many files open",
    errno.EAGAIN: "raise `ulimit -u` (or TasksMax of the agent's service), or end what runs there",
    errno.ENOMEM: "end what takes the memory of this machine",
}
"""What an operator does about it."""


class Fitness:
    """What the last rehearsal has found; one thread calls it."""

    def __init__(
        self,
        home: AgentFolder,
        *,
        clock: Callable[[], float] = time.monotonic,
        rehearse: Callable[[AgentFolder], str] | None = None,
    ) -> None:
        self.trouble = ""
        """Why nothing can begin here, and what to do; empty if nothing is known against it."""
        self.next_s = float("inf")
        """By `clock`, when the next rehearsal is due."""
        self._home, self._clock, self._rehearse = home, clock, rehearse or rehearsed
        self._pause_s, self._well_s = FIRST_S, -float("inf")
        self._failed: set[Key] = set()
        self._begun: set[Key] = set()
        self._in_a_row: list[Live] = []
        """Those that could not begin since one could."""

    def look(self, lives: Iterable[Live]) -> None:
        """Rehearse after each attempt that has ended before it had begun, and whenever it is time again."""
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
        """Who has begun, and who could not; whether anybody could not who had not been seen."""
        begun = {live.key for live in lives if live.started_s is not None}
        failed = {live.key: live for live in lives if could_not_begin(live)}
        if begun - self._begun:
            self._in_a_row.clear()
        fresh = [live for key, live in failed.items() if key not in self._failed]
        self._in_a_row = [*self._in_a_row, *fresh][-IN_A_ROW:]
        self._begun, self._failed = begun, set(failed)
        return bool(fresh)


def unlike_chance(failed: Sequence[Live]) -> str:
    """Why a machine is to rest on which the last attempts could not begin, as a sentence; or nothing.

    One job may lack what is its own; so may one user, where each has an account of their own here.
    """
    jobs, users = {live.row for live in failed}, {live.part.user for live in failed}
    if len(failed) < IN_A_ROW or len(jobs) < 2 or (os.geteuid() == 0 and len(users) < 2):
        return ""
    last = failed[-1]
    why = last.why or (last.end.error if last.end is not None else "") or "nobody knows why"
    return f"the last {len(failed)} attempts could not begin, and nothing is known to be lacking: {why}"


def could_not_begin(live: Live) -> bool:
    """Whether an attempt has ended before any of its processes had begun, by no fault of its own."""
    if live.part.user in ("", NO_ACCOUNT):
        return False
    by_us = live.status is PartStatus.LOST or (live.end is not None and live.end.infrastructure)
    return live.gone and live.started_s is None and by_us


def rehearsed(home: AgentFolder) -> str:
    """Have all that an attempt needs to begin, without one: what was lacking, as a sentence, or nothing."""
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
    """A folder that is there while the block runs; one that an agent left which was killed is as good."""
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
    """Open and fill the files of an attempt, and start its processes beside; raises OSError."""
    with ExitStack() as kept:
        for number in range(FILES):
            fd = os.open(folder / str(number), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            kept.callback(os.close, fd)
            os.posix_fallocate(fd, 0, BYTES)
        for _ in range(PROCESSES):  # none is waited for before all are there: they count until then
            kept.callback(os.waitpid, _started(), 0)


def _started() -> int:
    """A process that ends at once, as the shim does that is not told what to keep."""
    shim = native.program()
    words = [str(shim)] if shim is not None else [sys.executable, "-I", "-S", "-c", ""]
    nowhere = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
    return os.posix_spawn(words[0], words, dict(os.environ), file_actions=nowhere)
