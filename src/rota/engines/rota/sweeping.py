"""What ended jobs left on this machine goes once the controller keeps it no longer.

A thread of its own looks through the folders now and then, asks the controller about the jobs they belong to
(`rota.wire.keeping`), and removes what is named.  It never touches a job of which an attempt is known here or
an order has come, whatever the controller says: that is looked at in the moment of the rename, while nothing
can be started.
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
"""From the agent's start to the first look."""
TELL_S = 60.0
"""The controller hears of the disk so often."""
AGAIN_S = 1.0
"""A sweep that failed is tried again after this time, which doubles up to `TELL_S`."""
MEASURED, REST_S = 50, 0.01
"""After so many folders were measured the agent's other threads get so much time."""


class Sweeper:
    """Keeps the folders of one agent from growing for ever."""

    def __init__(
        self,
        supervisor: Supervisor,
        ask: Callable[[Kept], KeptReply],
        ordered: Callable[[], Set[int]],
        *,
        shares_checkpoints: bool = False,
    ) -> None:
        """`ask` calls the controller; `ordered` tells the rows about which it has said anything.

        A checkpoint folder that machines share is swept, but does not count as this machine's.
        """
        self._supervisor, self._ask, self._ordered = supervisor, ask, ordered
        self._home, self._shares = supervisor.home, shares_checkpoints
        self._sizes: dict[Path, dict[int, int]] = {self._home.attempts: {}, self._home.checkpoints: {}}
        """Bytes that ended jobs take, by folder and row: measured once, for nothing of them changes."""
        self._trouble = ""
        self._guard = JobGuard()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rota-sweeper", daemon=True)

    def start(self) -> None:
        """Sweep from now on."""
        self._thread.start()

    def close(self, timeout_s: float = 0.2) -> None:
        """Stop; what is being deleted is left to the next agent."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def disk(self) -> Disk:
        """The disk with the agent's folder, and what ended jobs take of it as last measured."""
        filesystem = os.statvfs(self._home.path)
        attempts, checkpoints = (sum(sizes.values()) for sizes in self._sizes.values())
        return Disk(
            total_bytes=filesystem.f_blocks * filesystem.f_frsize,
            free_bytes=filesystem.f_bavail * filesystem.f_frsize,
            files_bytes=attempts,
            checkpoints_bytes=checkpoints,
        )

    def sweep(self) -> float:
        """Remove what is not kept any longer; returns after how many seconds to look again.

        Raises what `ask` raises, and OSError for what cannot be removed, after all else.
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
        """Jobs that left something here and of which nothing is to be expected."""
        rows = {*numbered(self._home.attempts), *numbered(self._home.checkpoints)}
        return sorted(rows - self._busy())

    def _submitted_s(self, row: int) -> float | None:
        """When the job was submitted that left what is here, if that says so."""
        said = (submitted_s(root / str(row) / OWNER) for root in self._sizes)
        return next((at_s for at_s in said if at_s is not None), None)

    def _busy(self) -> set[int]:
        return {live.row for live in self._supervisor.known()} | self._ordered()

    def _throw_away(self, root: Path, rows: Iterable[int]) -> None:
        """Those of which nothing is known here; each is looked at again, since orders may have come."""
        for row in rows:
            if row not in self._ordered():
                go = partial(self._supervisor.unless_known, row, partial(throw_away, root, str(row)))
                self._guard.run((row, 0), f"remove {root / str(row)}", go, False)

    def _empty(self) -> None:
        for root in self._sizes:
            empty(root)

    def _measure(self) -> None:
        """What the jobs of which nothing runs here take; known sizes stay."""
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
            except Exception as error:  # whatever it is: jobs must not suffer from it, and it is tried again
                self._note(error)
                due_s = time.monotonic() + pause_s
                pause_s = min(2 * pause_s, TELL_S)
            wait_s = max(0.0, min(TELL_S, due_s - time.monotonic()))

    def _note(self, error: Exception) -> None:
        """Log a trouble once, not at each try."""
        if str(error) != self._trouble:
            self._trouble = str(error)
            LOG.warning("what ended jobs left behind stays for now: %s", error)
