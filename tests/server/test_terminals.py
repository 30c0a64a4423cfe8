"""Sessions in the controller: places, room, two ends that say everything twice, and one that goes."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pydantic import ValidationError

from rota.server.callers import Caller
from rota.server.notifier import Notifier
from rota.server.refusals import NotFound
from rota.server.terminals import LAST_WORDS_S, QUIET_S, SILENT_S, Session, Stream, Terminals
from rota.wire.terminal import TerminalReply, TerminalTalk, packed, unpacked

ANN = Caller("ann", "vision/ann")


def ready() -> tuple[Terminals, Session]:
    """One session of ann's at the first job, on n1."""
    nothing = cast(Any, None)
    terminals = Terminals(nothing, nothing, Notifier())
    session = Session("s", "ann", 0, 1, "n1", 0)
    session.heard = dict.fromkeys(("person", "agent"), time.monotonic())
    terminals._sessions["s"] = session
    return terminals, session


def person(terminals: Terminals, who: Caller = ANN, **said: Any) -> TerminalReply:
    said["data"] = packed(said.get("data", b""))
    return asyncio.run(terminals.person(who, "1", TerminalTalk(session="s", **said)))


def agent(terminals: Terminals, **said: Any) -> TerminalReply:
    said["data"] = packed(said.get("data", b""))
    return asyncio.run(terminals.agent("n1", TerminalTalk(session="s", **said)))


@pytest.mark.parametrize(
    ("said", "have", "holds"),
    [
        ([(0, b"abc"), (3, b"de")], 5, b"abcde"),
        ([(0, b"abc"), (0, b"abc")], 3, b"abc"),  # said twice
        ([(0, b"abc"), (1, b"bcd")], 4, b"abcd"),  # in part
        ([(0, b"abcdef"), (6, b"ghi")], 8, b"abcdefgh"),  # as much as there is room for
        ([(100, b"abc")], 103, b"abc"),  # what was before is nowhere any more
        ([(0, b"abc"), (9, b"xyz")], 3, b"abc"),  # not before the other end has what is there
    ],
)
def test_a_stream_is_known_by_places(said: list[tuple[int, bytes]], have: int, holds: bytes) -> None:
    stream = Stream(8)
    for at, data in said:
        stream.put(at, data)
    assert (stream.have, bytes(stream.data)) == (have, holds)


def test_what_was_taken_goes_once_it_is_said_so() -> None:
    """A piece whose answer got lost comes again; a place beyond the end takes nothing away."""
    stream = Stream(8)
    stream.put(0, b"abcdef")
    assert stream.take(0) == (0, b"abcdef")
    assert stream.take(0) == (0, b"abcdef")
    assert stream.take(4) == (4, b"ef")
    assert stream.take(99) == (6, b"")
    stream.put(6, b"gh")
    assert stream.take(6) == (6, b"gh")


def test_both_ends_talk() -> None:
    terminals, _ = ready()
    assert person(terminals, data=b"ls\n", rows=40, columns=100).have == 3
    heard = agent(terminals, wait_s=1.0)
    assert (unpacked(heard.data), heard.rows, heard.columns) == (b"ls\n", 40, 100)
    assert agent(terminals, at=50, data=b"a b\r\n").have == 55
    shown = person(terminals, seen=50, wait_s=1.0)
    assert (shown.at, unpacked(shown.data), shown.over) == (50, b"a b\r\n", False)


def test_the_last_words_are_shown_before_it_is_over() -> None:
    terminals, _ = ready()
    agent(terminals, data=b"bye")
    agent(terminals, over=True)
    assert not person(terminals, wait_s=1.0).over
    last = person(terminals, seen=3, wait_s=1.0)
    assert (last.over, last.why) == (True, "the terminal was closed")


def test_an_agent_that_starts_anew_is_called_again() -> None:
    """From behind what the controller has."""
    terminals, _ = ready()
    assert [call.seen for call in terminals.asked_of("n1")] == [0]
    agent(terminals, data=b"abc")
    assert terminals.asked_of("n1") == []
    terminals.begins_anew("n1")
    assert [call.seen for call in terminals.asked_of("n1")] == [3]
    assert terminals.asked_of("n2") == []


def test_an_end_that_is_silent_is_gone() -> None:
    """Its session is over for the other one, and then forgotten."""
    terminals, session = ready()
    agent(terminals, data=b"")
    session.heard["person"] -= SILENT_S + 1
    session.heard["agent"] -= 1
    terminals.asked_of("n1")
    assert agent(terminals, wait_s=1.0).over
    session.heard = dict.fromkeys(session.heard, session.heard["person"])
    terminals.asked_of("n1")
    with pytest.raises(NotFound):
        agent(terminals)


@pytest.mark.parametrize("end_s", [None, 7.0])
def test_the_terminal_of_an_attempt_that_is_over_closes_without_its_agent(end_s: float | None) -> None:
    """Its node is lost, say: its agent has a moment for the last words, and nobody sits there for ever."""
    terminals, session = ready()
    terminals._store = cast(
        Any, SimpleNamespace(may_be_silent=False, attempts=lambda _: [SimpleNamespace(number=1, end_s=end_s)])
    )
    agent(terminals, data=b"last")
    session.heard["agent"] -= QUIET_S + 1
    reply = person(terminals, wait_s=0.05)
    assert (unpacked(reply.data), reply.over) == (b"last", False)
    if session.ended_s is not None:
        session.ended_s -= LAST_WORDS_S
    reply = person(terminals, wait_s=0.05, seen=4)
    assert (reply.over, reply.why) == ((True, "the terminal was closed") if end_s else (False, ""))


def test_a_session_is_its_persons_own() -> None:
    """Whoever knows its name, and whatever node asks."""
    terminals, _ = ready()
    with pytest.raises(NotFound):
        person(terminals, Caller("bob", "vision/bob"))
    with pytest.raises(NotFound):
        asyncio.run(terminals.agent("n2", TerminalTalk(session="s")))
    assert person(terminals, Caller("root", admin=True), data=b"x").have == 1


@pytest.mark.parametrize("data", ["a", "YQ", "YQ=\n", "é"])
def test_what_is_no_base64_is_refused(data: str) -> None:
    with pytest.raises(ValidationError):
        TerminalTalk(data=data)
