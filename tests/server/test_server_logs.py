"""Pieces of logs: asked of the node that has them, handed to whoever waits, and nobody else's."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rota.model.grants import Grant
from rota.scheduler.moments.packing import pack_grant
from rota.server import logs as subject
from rota.server.api.forms import LogRequest
from rota.server.logs import Logs
from rota.server.notifier import Notifier
from rota.server.refusals import Busy, NotFound
from rota.server.store.rows import AttemptRow, JobRow, NewJob, Step
from rota.server.store.store import Store
from rota.wire.job import JobSpec
from rota.wire.sync import Piece
from rota.worlds.live.directives import Directives


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Logs]:
    monkeypatch.setattr(subject, "FETCH_S", 0.3)
    store = Store.open(None, tmp_path)
    yield Logs(store, Directives("controller"), Notifier())
    store.close()


def job(logs: Logs) -> JobRow:
    return logs.store.add_jobs("u", "t", [NewJob(JobSpec(command=["work"]))], 0.0)[0]


def attempt(logs: Logs, row: JobRow, number: int, node: str, **fields: Any) -> None:
    """An attempt with ranks 0 and 1 on `node`."""
    place = {"name": node, "devices": [0, 1], "ranks": [{"rank": 0}, {"rank": 1}]}
    grant = pack_grant(Grant(row.row, (0, 1)))
    made = AttemptRow(row.row, number, "running", grant, {"places": [place]}, "run", 0.0, **fields)
    logs.store.commit(Step(attempts=[made]))


def request(**fields: Any) -> LogRequest:
    return LogRequest(**{"attempt": None, "rank": 0, "offset": 0, "limit": 100, "wait_s": 0.0, **fields})


async def answering(logs: Logs, node: str, text: str) -> None:
    """The agent of `node` answers whatever it is asked."""
    while True:
        fetches = logs.asked_of(node)
        logs.take(node, [Piece(id=one.id, offset=one.offset, text=text, size=9) for one in fetches])
        await asyncio.sleep(0.001)


def read(logs: Logs, row: JobRow, wanted: LogRequest, **nodes: str) -> Piece:
    """What comes back if these nodes answer with these texts."""

    async def both() -> Piece:
        agents = [asyncio.ensure_future(answering(logs, node, text)) for node, text in nodes.items()]
        try:
            return await logs.read(row, wanted)
        finally:
            for agent in agents:
                agent.cancel()

    return asyncio.run(both())


def test_the_newest_attempt_that_has_begun_is_asked_for(logs: Logs) -> None:
    row = job(logs)
    attempt(logs, row, 1, "n0", start_s=1.0, end_s=2.0)
    attempt(logs, row, 2, "n1", start_s=3.0)
    attempt(logs, row, 3, "n2")
    assert read(logs, row, request(), n0="old", n1="new", n2="none").text == "new"
    assert read(logs, row, request(attempt=1, rank=1), n0="old", n1="new").text == "old"


def test_what_is_not_there(logs: Logs) -> None:
    row = job(logs)
    assert read(logs, row, request()).size == 0, "it has not begun"
    attempt(logs, row, 1, "n0", start_s=1.0)
    with pytest.raises(NotFound, match="has no attempt 7; it has 1"):
        read(logs, row, request(attempt=7))
    with pytest.raises(NotFound, match="has no rank 5; it has 2, from 0"):
        read(logs, row, request(rank=5))


def test_a_node_that_is_silent(logs: Logs) -> None:
    """A sentence, and nothing is asked of it any more; what it sends afterwards is dropped."""
    row = job(logs)
    attempt(logs, row, 1, "n0", start_s=1.0)
    with pytest.raises(Busy, match="node n0, where the log is, does not answer"):
        read(logs, row, request(), n1="not asked")
    assert logs.asked_of("n0") == []
    logs.take("n0", [Piece(id="controller-1", offset=0, text="late", size=4)])
    assert logs._pieces == {}


def test_a_follower_waits_for_more(logs: Logs) -> None:
    """Nothing new yet: asked again until there is, or the time is over, or the attempt has ended."""
    row = job(logs)
    attempt(logs, row, 1, "n0", start_s=1.0)
    assert read(logs, row, request(wait_s=0.05), n0="").text == ""
    attempt(logs, row, 1, "n0", start_s=1.0, end_s=2.0)
    assert read(logs, row, request(wait_s=100.0), n0="").text == ""


def test_pieces_of_another_controller_are_nobodys(logs: Logs) -> None:
    row = job(logs)
    attempt(logs, row, 1, "n0", start_s=1.0)
    logs.take("n0", [Piece(id="1", offset=0, text="another job's", size=9)])
    assert read(logs, row, request(), n0="mine").text == "mine"
