"""The two connections: whatever the controller answers, the agent stays in touch."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rota.client.http import Refused, Unreachable
from rota.engines.shared.board import Board
from rota.engines.shared.link import Link, Transport
from rota.engines.shared.orders import Orders
from rota.engines.shared.silence import Contact
from rota.testing.engine_controller import PATIENCE_S, StandInController, part
from rota.wire.sync import Fetch, PartStatus, Piece, Report


class Moody:
    """Fails so many times, each time as told, before the controller answers."""

    def __init__(self, controller: StandInController, *moods: Callable[[], Any]) -> None:
        self.controller, self.moods, self.calls = controller, list(moods), 0

    def call(self, *given: Any, **more: Any) -> Any:
        self.calls += 1
        return self.moods.pop(0)() if self.moods else self.controller.call(*given, **more)


def fail(error: Exception) -> Callable[[], Any]:
    def mood() -> Any:
        raise error

    return mood


class Ends:
    """One end of a link, and what came out of it."""

    def __init__(self, tmp_path: Path, transport: Transport, other: Transport | None = None) -> None:
        self.orders, self.board = Orders(), Board()
        self.contact = Contact(tmp_path / "contact")
        self.ordered, self.stopped = threading.Event(), threading.Event()
        self.denied = 0
        self._other = other
        self.link = Link(
            transport,
            "here",
            "me",
            orders=self.orders,
            board=self.board,
            contact=self.contact,
            read_log=self._read,
            on_orders=self.ordered.set,
            on_stop=self.stopped.set,
            on_denied=self._denied,
            most_s=0.1,
        )

    def _denied(self) -> Transport | None:
        self.denied += 1
        return self._other

    def _read(self, request: Fetch) -> Piece:
        return Piece(id=request.id, offset=0, text="text", size=4)


@contextmanager
def linked(ends: Ends) -> Iterator[Ends]:
    ends.link.start()
    try:
        yield ends
    finally:
        ends.link.close()


@pytest.fixture
def controller() -> StandInController:
    return StandInController()


@pytest.mark.parametrize(
    ("mood", "line"),
    [
        (fail(Unreachable("nobody there")), "the controller does not take part: nobody there"),
        (
            fail(Refused(503, "the store is away", 0.05)),
            "the controller does not take part: the store is away",
        ),
        (fail(Refused(404, "no such node")), "the controller does not take part: no such node"),
        (lambda: {"version": "x"}, "the controller's answer makes no sense"),
        (lambda: [], "the controller's answer makes no sense"),
        (fail(RuntimeError("a bug")), "this agent cannot talk to its controller"),
    ],
)
def test_whatever_happens_it_tries_again(
    tmp_path: Path,
    controller: StandInController,
    caplog: pytest.LogCaptureFixture,
    mood: Callable[[], Any],
    line: str,
) -> None:
    ends = Ends(tmp_path, Moody(controller, mood, mood, mood))
    ends.board.post([Report(row=0, attempt=1, status=PartStatus.RUNNING, since_s=0.0)])
    controller.order(part(1, run=["true"]))
    with linked(ends):
        assert ends.ordered.wait(PATIENCE_S)
        controller.status((0, 1), PartStatus.RUNNING)
    assert set(ends.orders.wanted()[0]) == {(1, 1)}
    assert controller.requests[0].complete
    assert [record.getMessage().startswith(line) for record in caplog.records] == [True], "said once"


def test_a_token_that_is_not_accepted_is_replaced(tmp_path: Path, controller: StandInController) -> None:
    denying = Moody(controller, *[fail(Refused(401, "who are you?"))] * 100)
    ends = Ends(tmp_path, denying, other=controller)
    controller.order(part(1, run=["true"]))
    with linked(ends):
        assert ends.ordered.wait(PATIENCE_S)
    assert (ends.denied, denying.calls) == (1, 1)


def test_news_does_not_wait_for_the_long_poll(tmp_path: Path, controller: StandInController) -> None:
    ends = Ends(tmp_path, controller)
    with linked(ends):
        controller.until(lambda: any(request.wait_s for request in controller.requests))
        told_s = time.monotonic()
        ends.board.post([Report(row=0, attempt=1, status=PartStatus.ENDED, since_s=0.0)])
        controller.status((0, 1), PartStatus.ENDED)
        assert time.monotonic() - told_s < ends.contact.wait_s
        assert controller.fetch(Fetch(id="a", row=0, attempt=1, rank=0, offset=0, limit=9)).text == "text"


def test_the_controller_says_stop(tmp_path: Path, controller: StandInController) -> None:
    controller.stop = True
    with linked(Ends(tmp_path, controller)) as ends:
        assert ends.stopped.wait(PATIENCE_S)


def test_who_ends_says_goodbye(tmp_path: Path, controller: StandInController) -> None:
    with linked(Ends(tmp_path, controller)) as ends:
        controller.until(lambda: any(not request.complete for request in controller.requests))
    *before, last = (request.leaving for request in controller.requests)
    assert (any(before), last) == (False, True)
    ends.link.close()
    assert sum(request.leaving for request in controller.requests) == 1, "once"


def test_a_goodbye_that_nobody_hears_keeps_nobody(
    tmp_path: Path, controller: StandInController, caplog: pytest.LogCaptureFixture
) -> None:
    transport = Parting(controller)
    with linked(Ends(tmp_path, transport)):
        controller.until(lambda: any(not request.complete for request in controller.requests))
    assert "the controller has not heard that this agent ends: nobody there" in caplog.text


class Parting:
    """A controller that is gone when somebody says goodbye."""

    def __init__(self, controller: StandInController) -> None:
        self.controller = controller

    def call(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        if body.leaving:
            raise Unreachable("nobody there")
        return self.controller.call(method, path, body, **more)
