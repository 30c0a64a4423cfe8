"""Sessions: a person's terminal at one end, the agent of the job's node at the other, little between them.

All on the API's event loop.  Nothing of it is on record: if the controller dies, both ends notice and the
person's asks for another session, which goes on where the last one broke off.
"""

from __future__ import annotations

import secrets
import time
from contextlib import suppress
from dataclasses import dataclass, field

from rota.server.callers import Caller
from rota.server.notifier import Notifier, unhurried
from rota.server.records import JobRecords
from rota.server.refusals import Busy, Conflict, Forbidden, NotFound
from rota.server.store.failures import StoreError
from rota.server.store.rows import AttemptRow, JobRow
from rota.server.store.store import Store
from rota.server.views import is_over
from rota.wire.terminal import MOST_BYTES, TerminalCall, TerminalReply, TerminalTalk, packed, unpacked

MOST_TYPED, MOST_PRINTED = 1 << 16, 1 << 18
"""Most bytes that wait for the other end; bytes beyond them have to be sent again."""
ROOM_S = 1.0
"""Seconds that a sender waits for room."""
SILENT_S = 90.0
"""Seconds of silence after which an end is gone: it asks at least every LONGEST_WAIT_S."""
QUIET_S, LAST_WORDS_S = 2.0, 3.0
"""Seconds of silence after which an agent may be gone, and its time for the last output of an attempt."""
MOST_SESSIONS = 1000
WHY = {"person": "it was left", "agent": "the terminal was closed"}
"""Why a session is over that this end has ended."""


@dataclass
class Stream:
    """Data that one end has sent and the other has not taken."""

    most: int
    start: int = 0
    """Place of its first byte."""
    data: bytearray = field(default_factory=bytearray)

    @property
    def have(self) -> int:
        """Place behind its last byte."""
        return self.start + len(self.data)

    def put(self, at: int, data: bytes) -> None:
        """Take as many bytes as there is room for; skip known ones, and ignore bytes after a gap."""
        if at > self.have and not self.data:
            self.start = at
        known = self.have - at
        if 0 <= known < len(data):
            self.data += data[known : known + self.most - len(self.data)]

    def take(self, seen: int) -> tuple[int, bytes]:
        """A piece from `seen` on, or from the first byte there is, and its place; what is before it goes."""
        taken = min(max(0, seen - self.start), len(self.data))
        del self.data[:taken]
        self.start += taken
        return self.start, bytes(self.data[:MOST_BYTES])


@dataclass
class Session:
    """One person's terminal at one attempt."""

    id: str
    user: str
    row: int
    attempt: int
    node: str
    seen: int
    typed: Stream = field(default_factory=lambda: Stream(MOST_TYPED))
    printed: Stream = field(default_factory=lambda: Stream(MOST_PRINTED))
    size: tuple[int, int] = (0, 0)
    told_size: tuple[int, int] = (0, 0)
    has_agent: bool = False
    is_over: bool = False
    why: str = ""
    ended_s: float | None = None
    """When its attempt was first seen to be over, on record."""
    heard: dict[str, float] = field(default_factory=dict)
    """When the person, and the agent, said something."""


class Terminals:
    """Implements `rota.server.api.services.TerminalsService`."""

    def __init__(self, store: Store, records: JobRecords, notifier: Notifier) -> None:
        self._store, self._records, self._notifier = store, records, notifier
        self._sessions: dict[str, Session] = {}

    def asked_of(self, node: str) -> list[TerminalCall]:
        """The sessions that wait for the agent of `node`."""
        if not self._sessions:
            return []
        self._tidy()
        return [
            TerminalCall(
                session=one.id, row=one.row, attempt=one.attempt, seen=max(one.seen, one.printed.have)
            )
            for one in self._sessions.values()
            if one.node == node and not one.has_agent and not one.is_over
        ]

    def begins_anew(self, node: str) -> None:
        """The agent of `node` knows of no session."""
        for session in self._sessions.values():
            if session.node == node:
                session.has_agent, session.told_size = False, (0, 0)

    async def person(self, who: Caller, id: str, said: TerminalTalk) -> TerminalReply:
        """A person's end of a session of a job; asks for one if it names none, once the job runs.

        NotFound for a job or a session that is not there, Forbidden for one of others, Conflict for a job
        that has no terminal.
        """
        if not said.session:
            return await self._ask(who, id, said)
        session = self._sessions.get(said.session)
        if session is None or (session.user != who.user and not who.admin):
            raise NotFound("there is no such session any more; attach again")
        if said.rows and said.columns:
            session.size = said.rows, said.columns
        return await self._talk(session, "person", said, session.typed, session.printed)

    async def agent(self, node: str, said: TerminalTalk) -> TerminalReply:
        """The other end; NotFound for a session that is over."""
        session = self._sessions.get(said.session)
        if session is None or session.node != node:
            raise NotFound("there is no such session any more")
        session.has_agent = True
        return await self._talk(session, "agent", said, session.printed, session.typed)

    async def _talk(
        self, session: Session, end: str, said: TerminalTalk, ours: Stream, theirs: Stream
    ) -> TerminalReply:
        """Take the data of one end, and give it the other's data if it listens."""
        session.heard[end] = time.monotonic()
        if end == "person" and said.wait_s:
            await self._look(session)
        with self._notifier.listen(("terminal", session.id)) as listener:
            wait_s = said.wait_s if session.ended_s is None else min(said.wait_s, LAST_WORDS_S)
            data, until = unpacked(said.data), time.monotonic() + (wait_s or ROOM_S)
            if data or said.over or said.seen > theirs.start or session.size != session.told_size:
                self._wake(session)
            if said.over:
                self._end(session, WHY[end])
            while True:
                if said.wait_s:
                    at, piece = theirs.take(said.seen)
                    is_new = bool(piece) or (end == "agent" and session.size != session.told_size)
                else:
                    at, piece = 0, b""
                    ours.put(said.at, data)
                    is_new = ours.have >= said.at + len(data)
                left_s = until - time.monotonic()
                if is_new or session.is_over or left_s <= 0:
                    break
                await listener.wait(left_s)
        session.heard[end] = time.monotonic()
        rows, columns = session.size if end == "agent" and said.wait_s else (0, 0)
        if rows:
            session.told_size = rows, columns
        is_done = session.is_over and not piece
        return TerminalReply(
            session=session.id,
            have=ours.have,
            at=at,
            data=packed(piece),
            rows=rows,
            columns=columns,
            over=is_done,
            why=session.why if is_done else "",
        )

    async def _ask(self, who: Caller, id: str, said: TerminalTalk) -> TerminalReply:
        """A new session in place of the last one, as soon as the job runs."""
        row = await unhurried(self._store, lambda: self._own(who, id))
        until = time.monotonic() + said.wait_s
        with self._notifier.listen(("job", row.row)) as listener:
            while True:
                row, attempt = await unhurried(self._store, lambda: self._now(id))
                left_s = until - time.monotonic()
                if attempt is not None:
                    return TerminalReply(session=self._begin(who, row, attempt, said).id)
                if is_over(row.now.state) or left_s <= 0:
                    return TerminalReply(over=is_over(row.now.state))
                await listener.wait(left_s)

    def _own(self, who: Caller, id: str) -> JobRow:
        """The job if the caller owns it; terminals are private, also among the users of a tenant."""
        row = self._records.own(who, id)
        if row.user != who.user and not who.admin:
            raise Forbidden(f"job {id} belongs to {row.user!r}; only they and admins may use its terminal")
        spec = self._store.spec(row.row)
        if spec is None or not spec.terminal:
            raise Conflict(
                f"job {id} has no terminal; `rota shell` begins one that has, `rota attach` follows it"
            )
        return row

    def _now(self, id: str) -> tuple[JobRow, AttemptRow | None]:
        """The job as it is now, and the attempt that runs."""
        row = self._records.row(id)
        return row, self._running(row)

    def _running(self, row: JobRow) -> AttemptRow | None:
        """The attempt that runs, if one does."""
        if is_over(row.now.state):
            return None
        living = [a for a in self._store.attempts(row.row) if a.start_s is not None and a.end_s is None]
        return living[-1] if living else None

    def _begin(self, who: Caller, row: JobRow, attempt: AttemptRow, said: TerminalTalk) -> Session:
        self._tidy()
        if len(self._sessions) >= MOST_SESSIONS:
            raise Busy(f"{MOST_SESSIONS} terminals are attached already, the most this controller takes")
        for other in self._sessions.values():
            if other.row == row.row:
                self._end(other, "another terminal has attached to the job")
        node = str(attempt.parts["places"][0]["name"])
        session = Session(secrets.token_hex(8), who.user, row.row, attempt.number, node, said.seen)
        session.size = said.rows, said.columns
        session.heard = dict.fromkeys(("person", "agent"), time.monotonic())
        self._sessions[session.id] = session
        self._notifier.notify([("node", node)])
        return session

    async def _look(self, session: Session) -> None:
        """End the session of an attempt that is over, if its agent does not: their node may be lost."""
        now = time.monotonic()
        if session.is_over or now - session.heard["agent"] < QUIET_S:
            return
        with suppress(StoreError):  # looked at again
            attempts = await unhurried(self._store, lambda: self._store.attempts(session.row))
            if any(one.number == session.attempt and one.end_s is None for one in attempts):
                return
            session.ended_s = now if session.ended_s is None else session.ended_s
        if session.ended_s is not None and now - session.ended_s >= LAST_WORDS_S:
            self._end(session, WHY["agent"])

    def _end(self, session: Session, why: str) -> None:
        if not session.is_over:
            session.is_over, session.why = True, why
            self._wake(session)

    def _wake(self, session: Session) -> None:
        self._notifier.notify([("terminal", session.id)])

    def _tidy(self) -> None:
        """End sessions with an end that was silent for too long; forget them after as long again."""
        now = time.monotonic()
        for session in list(self._sessions.values()):
            silent_s = now - min(session.heard.values())
            if silent_s > SILENT_S:
                self._end(session, "the other end was silent for too long")
            if session.is_over and now - max(session.heard.values()) > SILENT_S:
                del self._sessions[session.id]
