"""A controller in memory, for tests of an engine: it wants what the test says and receives the reports."""

from __future__ import annotations

import os
import pwd
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from rota.client.http import Unreachable
from rota.wire.keeping import Kept, KeptReply
from rota.wire.sync import Fetch, Part, PartStatus, Piece, Rank, Report, SyncReply, SyncRequest, Wanted

T = TypeVar("T")
Key = tuple[int, int]
"""Row and attempt."""
PATIENCE_S = 60.0


class StandInController:
    """Remembers what engines report, hands out what the test wants, can go away; any thread may call it."""

    def __init__(self, incarnation: str = "one", lost_after_s: float = 60.0) -> None:
        self.incarnation, self.lost_after_s = incarnation, lost_after_s
        self.changed = threading.Condition()
        self.version = 0
        self.parts: dict[Key, Part] = {}
        self.reports: dict[Key, Report] = {}
        self.history: list[tuple[float, Report]] = []
        self.requests: list[SyncRequest] = []
        self.fetches: list[Fetch] = []
        self.pieces: dict[str, Piece] = {}
        self.kept: list[Kept] = []
        self.old: set[int] = set()
        """Rows of jobs that ended long ago."""
        self.away = self.stop = False
        self.kept_in_vain = 0
        """Calls about leftovers of ended jobs while it was away."""
        self.in_vain = 0
        """Calls while it was away."""
        self.whole = True
        """True once it has read its store."""

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        query: Any = None,
        timeout_s: float | None = None,
        *,
        idempotent: bool | None = None,
    ) -> Any:
        """One sync, or a call about leftovers of ended jobs."""
        assert method == "POST"
        if path.endswith("/kept"):
            self.kept_in_vain += self.away
            return self._kept(Kept.model_validate_json(body.model_dump_json())).model_dump(mode="json")
        assert path.endswith("/sync")
        request = SyncRequest.model_validate_json(body.model_dump_json())
        return self.sync(request).model_dump(mode="json")

    def sync(self, request: SyncRequest) -> SyncReply:
        """The answer, once there is something new, or after `request.wait_s`; raises Unreachable."""
        with self.changed:
            self._present()
            self._hear(request)
            known = request.controller == self.incarnation
            end_s = time.monotonic() + request.wait_s
            while known and not self.fetches and self.version <= request.seen and not self.stop:
                left_s = end_s - time.monotonic()
                if left_s <= 0 or not self.changed.wait(left_s):
                    break
                self._present()
                known = request.controller == self.incarnation
            return self._reply(request, known)

    def order(self, part: Part) -> Part:
        """Want something of a part from now on."""
        with self.changed:
            self.version += 1
            part = part.model_copy(update={"version": self.version})
            self.parts[part.row, part.attempt] = part
            self.changed.notify_all()
            return part

    def change(self, key: Key, wanted: Wanted, **more: Any) -> Part:
        """Want something else of a part."""
        return self.order(self.parts[key].model_copy(update={"wanted": wanted, **more}))

    def fetch(self, request: Fetch) -> Piece:
        """Ask for a piece of a log."""
        with self.changed:
            self.fetches.append(request)
            self.changed.notify_all()
        self.until(lambda: request.id in self.pieces)
        return self.pieces[request.id]

    def leave(self) -> None:
        """No call is answered from now on."""
        with self.changed:
            self.away = True
            self.changed.notify_all()

    def come_back(self, incarnation: str | None = None) -> None:
        """Answer again, as the same controller or as a new one whose versions start over."""
        with self.changed:
            self.away = False
            if incarnation is not None:
                self.incarnation = incarnation
                self.requests.clear()
                self.reports.clear()
                parts = sorted(self.parts.values(), key=lambda part: part.version)
                self.version = len(parts)
                self.parts = {
                    (p.row, p.attempt): p.model_copy(update={"version": i + 1}) for i, p in enumerate(parts)
                }
            self.changed.notify_all()

    def until(self, look: Callable[[], T], timeout_s: float = PATIENCE_S) -> T:
        """Wait until `look` returns a true value."""
        end_s = time.monotonic() + timeout_s
        with self.changed:
            while not (value := look()):
                left_s = end_s - time.monotonic()
                assert left_s > 0, f"nothing of it within {timeout_s} s; reports: {self.reports}"
                self.changed.wait(min(left_s, 0.5))
            return value

    def status(self, key: Key, *wanted: PartStatus, timeout_s: float = PATIENCE_S) -> Report:
        """Wait until a part is reported to be in one of these states."""

        def look() -> Report | None:
            report = self.reports.get(key)
            return report if report is not None and report.status in wanted else None

        report = self.until(look, timeout_s)
        assert report is not None
        return report

    def _kept(self, said: Kept) -> KeptReply:
        with self.changed:
            self._present()
            self.kept.append(said)
            self.changed.notify_all()
            rows = [row for row in said.rows if row in self.old]
            return KeptReply(files=rows, checkpoints=rows, again_s=1.0)

    def _present(self) -> None:
        if self.away:
            self.in_vain += 1
            self.changed.notify_all()
            raise Unreachable("no controller listens here")

    def _hear(self, request: SyncRequest) -> None:
        self.requests.append(request)
        for report in request.reports:
            self.reports[report.row, report.attempt] = report
            self.history.append((time.time(), report))
        for piece in request.pieces:
            assert piece.id not in self.pieces, "each piece is read once"
            self.pieces[piece.id] = piece
            self.fetches = [fetch for fetch in self.fetches if fetch.id != piece.id]
        self.changed.notify_all()

    def _reply(self, request: SyncRequest, known: bool) -> SyncReply:
        seen = request.seen if known else 0 if not request.controller else self.version
        parts = [part for part in self.parts.values() if part.version > seen]
        return SyncReply(
            controller=self.incarnation,
            version=self.version,
            now_s=time.time(),
            parts=sorted(parts, key=lambda part: part.version),
            fetch=self.fetches,
            lost_after_s=self.lost_after_s,
            stop=self.stop,
            whole=self.whole,
        )


def part(row: int, attempt: int = 1, *, devices: tuple[int, ...] = (0,), run: list[str], **more: Any) -> Part:
    """An order to run a command as the caller's own account, one rank for each device."""
    ranks = [Rank(rank=i, local_rank=i, devices=[device]) for i, device in enumerate(devices)]
    values: dict[str, Any] = {
        "ranks": ranks or [Rank(rank=0, local_rank=0, devices=[])],
        "world_size": max(1, len(ranks)),
        "nodes": ["here"],
        "workdir": "/",
        "user": pwd.getpwuid(os.geteuid()).pw_name,
        "env": {"PYTHONDONTWRITEBYTECODE": "1"},
        "grace_s": PATIENCE_S,
        **more,
    }
    return Part(
        row=row,
        job=str(row + 1),
        attempt=attempt,
        version=0,
        wanted=Wanted.RUN,
        devices=list(devices),
        command=run,
        **values,
    )
