"""The output of a job through all its attempts, followed until it ends."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rota.cli.live.tables import signal_name, warn

if TYPE_CHECKING:
    from rota.client import Client
    from rota.wire.sync import Piece
    from rota.wire.views import AttemptView, JobView

TIMED_OUT, CANCELLED = 124, 130
PIECE_BYTES = 1 << 18
QUICK_S, SLOW_S = 0.2, 2.0
"""Pause between looks at a log: short while it grows, longer while it does not."""
TAIL_BYTES, MOST_TAIL_BYTES = 1 << 16, 1 << 20
NOT_NOW = frozenset({429, 502, 503, 504})
"""Status codes after which a call may be repeated."""
CONFLICT = 409
PATIENCE_S = 600.0
"""Seconds without a controller after which a follower gives up."""


class Follower:
    """Prints new output of some ranks of a job, and changes of its state.

    `ranks` None is all; `from_end` begins with that number of last lines of the present attempt.
    """

    def __init__(
        self,
        client: Client,
        id: str,
        ranks: Sequence[int] | None,
        *,
        from_end: int | None = None,
        quiet: bool = False,
    ) -> None:
        self._client = client
        self._ranks = ranks
        self._from_end = from_end
        self._quiet = quiet
        self._attempt = 0
        self._state = ""
        self._offsets: dict[int, int] = {}
        self._begun: dict[int, str] = {}
        self._processes: Sequence[int] = ()
        self._is_by_gpu = True
        self.id = id

    def look(self, wait_s: float) -> tuple[JobView, bool]:
        """The job as it is once it has ended or `wait_s` has passed, and whether it wrote anything since."""
        from rota.client import route
        from rota.wire.views import JobView

        path, query = route("v1", "jobs", self.id, "wait"), {"wait_s": wait_s}
        job = JobView.model_validate(self._client.call("GET", path, query=query, timeout_s=wait_s + 30))
        new = False
        if job.attempt > self._attempt:
            new = self._next_attempts(job)
        if self._attempt:
            new = self._drain() or new
        self._tell(job)
        return job, new

    def cancel(self, reason: str = "Ctrl-C in rota run") -> None:
        """Ask the controller to cancel the job, unless it has ended by now."""
        from rota.client import Refused, route

        body = {"reason": reason}
        try:
            self._client.call("POST", route("v1", "jobs", self.id, "cancel"), body, idempotent=True)
        except Refused as refused:
            if refused.status != CONFLICT:
                raise

    def finish(self) -> None:
        """Print last lines that have no end of line."""
        for rank, text in self._begun.items():
            if text:
                self._write(rank, text + "\n")
        self._begun.clear()

    def _next_attempts(self, job: JobView) -> bool:
        """Read the present attempt to its end, then the following ones; true if any of them wrote."""
        wrote = bool(self._attempt) and self._drain()
        # With `from_end` the user asks for the end of the output, not for all earlier attempts.
        first = job.attempt if self._attempt == 0 and self._from_end is not None else self._attempt + 1
        tells = not self._quiet and (self._attempt or first < job.attempt)
        attempts = self._attempts() if self._ranks is None or tells else {}
        for number in range(first, job.attempt + 1):
            self.finish()
            if self._attempt and not self._quiet:
                before = attempts.get(number - 1)
                why = f": {before.cause}" if before is not None and before.cause else ""
                warn(f"job {self.id}: attempt {number} begins{why}")
            self._attempt, self._offsets = number, {}
            self._processes = self._processes_of(attempts.get(number))
            if number == first == job.attempt and self._from_end is not None:
                self._begin_near_end(self._from_end)
            elif number < job.attempt:
                wrote = self._drain() or wrote
        self._from_end = None
        return wrote

    def _begin_near_end(self, lines: int) -> None:
        for rank in self._processes:
            text, self._offsets[rank] = tail(self._client, self.id, self._attempt, rank, lines)
            self._put(rank, text)

    def _attempts(self) -> Mapping[int, AttemptView]:
        """All attempts, by number."""
        from rota.client import route
        from rota.wire.views import JobDetail

        detail = JobDetail.model_validate(self._client.call("GET", route("v1", "jobs", self.id)))
        self._is_by_gpu = detail.spec.ranks_by == "gpu"
        return {attempt.number: attempt for attempt in detail.attempts}

    def _processes_of(self, attempt: AttemptView | None) -> Sequence[int]:
        """The ranks to read: the chosen ones, or all of that attempt."""
        if self._ranks is not None:
            return self._ranks
        if attempt is None:
            return [0]
        by_gpu = self._is_by_gpu and attempt.devices
        return range(len(attempt.devices) if by_gpu else max(len(attempt.nodes), 1))

    def _drain(self) -> bool:
        """Print new output; true if there was any."""
        wrote = False
        for rank in self._processes:
            for text, offset in pieces(
                self._client, self.id, self._attempt, rank, self._offsets.get(rank, 0)
            ):
                self._put(rank, text)
                self._offsets[rank] = offset
                wrote = True
        return wrote

    def _put(self, rank: int, text: str) -> None:
        """Print whole lines of one of several ranks; of a single rank, everything immediately."""
        if self._ranks is not None and len(self._ranks) == 1:
            self._write(rank, text)
            return
        whole, newline, rest = (self._begun.get(rank, "") + text).rpartition("\n")
        self._begun[rank] = rest
        if newline:
            self._write(rank, whole + "\n")

    def _write(self, rank: int, text: str) -> None:
        if self._ranks is None or len(self._ranks) > 1:
            text = "".join(f"{rank}: {line}" for line in text.splitlines(keepends=True))
        sys.stdout.write(text)
        sys.stdout.flush()

    def _tell(self, job: JobView) -> None:
        """Report that the job waits, is suspended, or continues."""
        state, self._state = self._state, job.state
        if self._quiet or job.state == state or has_ended(job):
            return
        if job.state == "SUSPENDED":
            warn(f"job {self.id} is suspended" + _because(job))
        elif state == "SUSPENDED" and job.state == "RUNNING":
            warn(f"job {self.id} runs again")
        elif state and job.state in ("PENDING", "REQUEUED"):
            warn(f"job {self.id} was stopped and waits" + _because(job))
        elif not state and job.state in ("PENDING", "REQUEUED"):
            warn(f"job {self.id} waits" + _because(job) + f"; `rota why {self.id}` says more")


def has_ended(job: JobView) -> bool:
    """True if nothing of it is left; a job that is ending may still write, and has no exit code yet."""
    return job.end_s is not None and job.state != "COMPLETING"


def already(job: JobView) -> str:
    """What to say first of a job that is ending or completed; `follow_to_end` reports all other ends."""
    if job.state == "COMPLETING":
        return f"job {job.id} has been told to end" + _because(job)
    return f"job {job.id} has completed already" if job.state == "COMPLETED" else ""


def _because(job: JobView) -> str:
    return f": {job.cause or job.reason}" if job.cause or job.reason else ""


def follow_to_end(follower: Follower, *, cancels: bool) -> int:
    """Follow until the job ends; the exit code that goes with its end.

    The first Ctrl-C cancels the job if `cancels`; the next one, or the first if not, leaves it to itself.
    """
    with Interrupts() as interrupts:
        try:
            wait = _until_ended_or_cancelled if cancels else _until_ended
            job = wait(follower, interrupts)
        except KeyboardInterrupt:
            warn(f"job {follower.id} is left to itself; `rota attach {follower.id}` follows it again")
            raise
    if job.state != "COMPLETED":
        warn(f"job {job.id} ended: {job.state.lower()}" + how_it_ended(job))
    return exit_code(job)


class Interrupts:
    """Remembers Ctrl-C: its exception is lost if it comes while an object is being destroyed."""

    def __init__(self, *more: signal.Signals) -> None:
        """Signals in `more` count as Ctrl-C does."""
        self._pending = False
        self._signals = (signal.SIGINT, *more)
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._heard) for number in self._signals}
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def _heard(self, *_: object) -> None:
        self._pending = True
        raise KeyboardInterrupt

    def check(self) -> None:
        """Raise KeyboardInterrupt if a Ctrl-C got lost."""
        if self._pending:
            raise KeyboardInterrupt

    def clear(self) -> None:
        """Forget the Ctrl-C that has been handled."""
        self._pending = False


def _until_ended_or_cancelled(follower: Follower, interrupts: Interrupts) -> JobView:
    try:
        return _until_ended(follower, interrupts)
    except KeyboardInterrupt:
        interrupts.clear()
        warn(f"cancelling job {follower.id}; Ctrl-C again leaves it to itself")
        follower.cancel()
        return _until_ended(follower, interrupts)


def _until_ended(follower: Follower, interrupts: Interrupts) -> JobView:
    """Poll, and wait for a controller that is temporarily away."""
    from rota.client import Refused, Unreachable

    pause_s, away_since = QUICK_S, None
    while True:
        interrupts.check()
        try:
            job, new = follower.look(pause_s)
        except (Unreachable, Refused) as error:
            if isinstance(error, Refused) and error.status not in NOT_NOW:
                raise
            if away_since is None:
                away_since = time.monotonic()
                warn(f"{error}; job {follower.id} goes on, trying again")
            elif time.monotonic() - away_since > PATIENCE_S:
                raise
            time.sleep(SLOW_S)
            continue
        away_since = None
        if has_ended(job):
            follower.finish()
            return job
        pause_s = QUICK_S if new else min(pause_s * 1.5, SLOW_S)


def exit_code(job: JobView) -> int:
    """The program's own, 128+N for signal N, 124 for a time-out, 130 if it was cancelled, 1 for the rest."""
    if job.state == "TIMEOUT":
        return TIMED_OUT
    if job.state == "CANCELLED":
        return CANCELLED
    if job.signal is not None:
        return 128 + job.signal
    if job.exit_code is not None:
        return job.exit_code
    return 0 if job.state == "COMPLETED" else 1


def how_it_ended(job: JobView) -> str:
    """`, its cause`, ` by SIGNAL` or ` with code N`; empty if nothing is known."""
    if job.cause:
        return f", {job.cause}"
    if job.signal is not None:
        return f" by {signal_name(job.signal)}"
    return f" with code {job.exit_code}" if job.exit_code is not None else ""


def pieces(
    client: Client, id: str, attempt: int | None, rank: int, offset: int = 0
) -> Iterator[tuple[str, int]]:
    """Each piece of a log from `offset` on that is there now, and the offset behind it.

    Nothing if there is no log (yet).
    """
    while True:
        piece = read_piece(client, id, attempt, rank, offset)
        if not piece.text:
            return
        offset += len(piece.text.encode())
        yield piece.text, offset
        if offset >= piece.size:
            return


def read_piece(
    client: Client, id: str, attempt: int | None, rank: int, offset: int, limit: int = PIECE_BYTES
) -> Piece:
    """One piece of a log, by the offset in bytes, from the end if negative."""
    from rota.client import route
    from rota.wire.sync import Piece

    query = {"attempt": attempt, "rank": rank, "offset": offset, "limit": limit}
    return Piece.model_validate(client.call("GET", route("v1", "jobs", id, "logs"), query=query))


def tail(client: Client, id: str, attempt: int | None, rank: int, lines: int) -> tuple[str, int]:
    """The last `lines` lines of a log (of its last MiB at most), and where to read on."""
    wanted = TAIL_BYTES
    while True:
        piece = read_piece(client, id, attempt, rank, -wanted, wanted)
        tail_lines = piece.text.splitlines(keepends=True)
        if len(tail_lines) > lines or wanted >= min(piece.size, MOST_TAIL_BYTES):
            return "".join(tail_lines[-lines:] if lines else []), piece.offset + len(piece.text.encode())
        wanted *= 4
