"""Removes what ended jobs left on this machine once the controller keeps it no longer.

A thread of its own reads the folders from time to time, asks the controller about their jobs
(`rota.wire.keeping`), and removes what the answer lists. It never removes files of a job that has a known
attempt or an order here, whatever the controller answers: that is checked at the moment of the rename, while
no attempt can start.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Set
from functools import partial
from pathlib import Path

from rota.engines.rota.guarding import JobGuard
from rota.engines.rota.ownership import OWNER, submitted_s
from rota.engines.rota.supervisor import Supervisor
from rota.engines.rota.trash import empty, numbered, size_of, throw_away
from rota.wire.keeping import MOST_ROWS, Disk, Kept, KeptReply

LOG = logging.getLogger("rota.engines.rota")
FIRST_S = 2.0
"""Seconds from the agent's start to the first sweep."""
TELL_S = 60.0
"""Seconds between two reports of the disk to the controller."""
AGAIN_S = 1.0
"""Seconds after which a failed sweep is tried again; doubles up to `TELL_S`."""
MEASURED, REST_S = 50, 0.01
"""Number of folders measured in a row, and seconds of pause for other threads after them."""


class Sweeper:
    """Keeps the folders of one agent from growing without limit."""

    def __init__(
        self,
        supervisor: Supervisor,
        ask: Callable[[Kept], KeptReply],
        ordered: Callable[[], Set[int]],
        *,
        shares_checkpoints: bool = False,
    ) -> None:
        """`ask` calls the controller; `ordered` returns the rows that it has given orders about.

        A checkpoint folder that machines share is swept, but does not count as this machine's.
        """
        self._supervisor, self._ask, self._ordered = supervisor, ask, ordered
        self._home, self._shares = supervisor.home, shares_checkpoints
        self._sizes: dict[Path, dict[int, int]] = {self._home.attempts: {}, self._home.checkpoints: {}}
        """Bytes of ended jobs, by folder and row: measured once, since they no longer change."""
        self._trouble = ""
        self._guard = JobGuard()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rota-sweeper", daemon=True)

    def start(self) -> None:
        """Start sweeping."""
        self._thread.start()

    def close(self, timeout_s: float = 0.2) -> None:
        """Stop; deletions under way are left to the next agent."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def disk(self) -> Disk:
        """The disk with the agent's folder, and the space that ended jobs take there, as last measured."""
        filesystem = os.statvfs(self._home.path)
        attempts, checkpoints = (sum(sizes.values()) for sizes in self._sizes.values())
        return Disk(
            total_bytes=filesystem.f_blocks * filesystem.f_frsize,
            free_bytes=filesystem.f_bavail * filesystem.f_frsize,
            files_bytes=attempts,
            checkpoints_bytes=checkpoints,
        )

    def sweep(self) -> float:
        """Remove what is no longer kept; returns the seconds until the next sweep.

        Raises the errors of `ask`, and OSError for what cannot be removed, after the rest is done.
        """
        self._empty()
        again_s = float("inf")
        rows = self._rows()
        self._guard.keep({(row, 0) for row in rows})
        self._measure()
        sizes = self._sizes[self._home.attempts]
        for first in range(0, max(1, len(rows)), MOST_ROWS):
            asked = rows[first : first + MOST_ROWS]
            owners = {row: at_s for row in asked if (at_s := self._submitted_s(row)) is not None}
            files = {row: sizes[row] for row in asked if row in sizes}
            reply = self._ask(Kept(disk=self.disk(), rows=asked, submit_s=owners, files_bytes=files))
            self._throw_away(self._home.attempts, reply.files)
            self._throw_away(self._home.checkpoints, reply.checkpoints)
            again_s = min(again_s, reply.again_s)
        self._empty()
        self._measure()
        return again_s

    def _rows(self) -> list[int]:
        """Jobs that left something here and have no attempt or order here."""
        rows = {*numbered(self._home.attempts), *numbered(self._home.checkpoints)}
        return sorted(rows - self._busy())

    def _submitted_s(self, row: int) -> float | None:
        """Time of submission of the job that left the files, if it is recorded."""
        said = (submitted_s(root / str(row) / OWNER) for root in self._sizes)
        return next((at_s for at_s in said if at_s is not None), None)

    def _busy(self) -> set[int]:
        return {live.row for live in self._supervisor.known()} | self._ordered()

    def _throw_away(self, root: Path, rows: Iterable[int]) -> None:
        """Remove files of jobs that are unknown here; each is checked again, since orders may have come."""
        for row in rows:
            if row not in self._ordered():
                go = partial(self._supervisor.unless_known, row, partial(throw_away, root, str(row)))
                self._guard.run((row, 0), f"remove {root / str(row)}", go, False)

    def _empty(self) -> None:
        for root in self._sizes:
            empty(root)

    def _measure(self) -> None:
        """Measure jobs that run nothing here and were not measured before."""
        busy, count = self._busy(), 0
        for root, known in self._sizes.items():
            if self._shares and root == self._home.checkpoints:
                continue
            here = set(numbered(root)) - busy
            for row in known.keys() - here:
                del known[row]
            for row in here - known.keys():
                path = root / str(row)
                known[row] = self._guard.run((row, 0), f"measure {path}", partial(size_of, path), 0)
                count += 1
                if count % MEASURED == 0 and self._closing.wait(REST_S):
                    return

    # -- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        wait_s, due_s, again_s, pause_s = FIRST_S, 0.0, float("inf"), AGAIN_S
        while not self._closing.wait(wait_s):
            try:
                if time.monotonic() >= due_s:
                    again_s = self.sweep()
                    due_s = time.monotonic() + again_s
                else:
                    said_s = self._ask(Kept(disk=self.disk())).again_s
                    due_s, again_s = due_s + min(0.0, said_s - again_s), said_s
                self._trouble, pause_s = "", AGAIN_S
            except Exception as error:  # any exception: it must not affect jobs, and the sweep is tried again
                self._note(error)
                due_s = time.monotonic() + pause_s
                pause_s = min(2 * pause_s, TELL_S)
            wait_s = max(0.0, min(TELL_S, due_s - time.monotonic()))

    def _note(self, error: Exception) -> None:
        """Log a problem once, not at each attempt."""
        if str(error) != self._trouble:
            self._trouble = str(error)
            LOG.warning("what ended jobs left behind stays for now: %s", error)
