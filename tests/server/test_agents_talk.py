"""What agents say, as the scheduler is told of it: who is back, who has left, and in which order."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from rota.server.agents import Agents
from rota.server.notifier import Notifier
from rota.server.refusals import Conflict, Forbidden
from rota.server.scheduler_view import SchedulerView
from rota.wire.sync import PartStatus, Report, SyncRequest
from rota.worlds.live.directives import Directives
from rota.worlds.live.inbox import Inbox, ReportTold


class Welcome(Exception):  # noqa: N818
    """The newcomer got so far that a token is made for it."""


def welcome(*_: object) -> None:
    raise Welcome


class Talk:
    """The agent of n1 talks to a controller that takes n1 for `state`."""

    def __init__(self, state: str = "up") -> None:
        self.row = SimpleNamespace(state=state)
        self.stored = self.row
        self.shown = SchedulerView(nodes={"n1": self.row})
        self.inbox, self.directives = Inbox(), Directives("one")
        logs = SimpleNamespace(take=lambda node, pieces: None, asked_of=lambda node: [])
        clock = type("At5", (), {"epoch_unix_s": 0.0, "__call__": lambda self: 5.0})()
        parts: dict[str, Any] = {
            "store": SimpleNamespace(may_be_silent=False, node=lambda name: self.stored, join=welcome),
            "roster": None, "tidier": None,
            "shown": self.shown, "inbox": self.inbox, "logs": logs,
            "directives": self.directives, "notifier": Notifier(),
            "terminals": SimpleNamespace(asked_of=lambda node: [], begins_anew=lambda node: None),
            "clock": clock, "heard": {}, "lost_after_s": 60.0,
        }  # fmt: skip
        self.agents = Agents(**parts)

    def say(self, incarnation: str = "a", **said: Any) -> list[SyncRequest]:
        """What the scheduler is told of it."""
        request = SyncRequest(incarnation=incarnation, seen=0, controller="one", wait_s=0.0, **said)
        asyncio.run(self.agents.sync("n1", request))
        return [event.request for event in self.inbox.take(0.0) if isinstance(event, ReportTold)]


NEWS = Report(row=0, attempt=1, status=PartStatus.RUNNING, since_s=1.0)


@pytest.mark.parametrize(("state", "told"), [("up", 0), ("drained", 0), ("lost", 1), ("away", 1)])
def test_an_agent_without_news_is_back_all_the_same(state: str, told: int) -> None:
    assert len(Talk(state).say()) == told


def test_a_goodbye_is_told_at_once_and_for_good() -> None:
    """What the same agent said before it left may arrive after; the next agent is another one."""
    talk = Talk()
    assert [said.leaving for said in talk.say(leaving=True)] == [True]
    talk.row.state = "away"
    assert talk.say() == []
    late = talk.say(reports=[NEWS])
    assert [(said.leaving, said.reports) for said in late] == [(True, [NEWS])], "an end is an end"
    assert [said.leaving for said in talk.say("b", complete=True)] == [False]


def test_a_goodbye_to_a_controller_that_has_just_begun() -> None:
    talk = Talk()
    talk.directives.begin_anew("two")
    assert [said.leaving for said in talk.say(leaving=True)] == [True]


def test_a_forgotten_node_is_refused_until_the_store_has_it_back() -> None:
    talk = Talk("forgotten")
    with pytest.raises(Forbidden, match="node 'n1' was forgotten by an admin; it may join again with a join"):
        talk.say(complete=True)
    assert talk.inbox.take(0.0) == []
    talk.stored = SimpleNamespace(state="lost")
    assert len(talk.say(complete=True)) == 1, "the scheduler is about to hear of it"


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        (
            "up",
            r"an agent takes part as node 'n1' already, .*: if its machine is gone, wait until the node "
            r"is lost \(within 1m\), or give this one another name with --node",
        ),
        (
            "away",
            r"the agent of node 'n1' was stopped, .*: start that one again, wait until .*\(within 1m\), or",
        ),
    ],
)
def test_a_name_that_is_taken(state: str, sentence: str) -> None:
    """Of an agent that has said goodbye it is not said that it takes part."""
    talk = Talk()
    talk.say(leaving=state == "away")
    talk.row.state = state
    with pytest.raises(Conflict, match=sentence):
        talk.agents.join(SimpleNamespace(node=""), SimpleNamespace(name="n1"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("on_record", "is_refused"),
    [("up", True), ("drained", True), ("away", True), ("lost", False), ("forgotten", False), ("", False)],
)
@pytest.mark.parametrize("is_built", [True, False])
def test_a_controller_that_has_just_begun_knows_whose_a_name_is(
    on_record: str, is_refused: bool, is_built: bool
) -> None:
    """Its agent may be dead and its jobs alive, under their shims: until the node is lost nobody follows."""
    talk = Talk(on_record)
    if not on_record:
        talk.stored = None
    if not is_built:  # the scheduler has not read the store yet
        talk.shown.nodes.clear()
    newcomer: Any = SimpleNamespace(node=""), SimpleNamespace(name="n1")
    with pytest.raises(Conflict if is_refused else Welcome):
        talk.agents.join(*newcomer)
