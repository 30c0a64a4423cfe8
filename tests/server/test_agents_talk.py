"""What agents say, as the scheduler is told of it: who is back, who has left, and in which order."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from rota.server.agents import Agents
from rota.server.refusals import Forbidden
from rota.server.scheduler_view import SchedulerView
from rota.server.waiting import Notifier
from rota.wire.sync import Part, PartStatus, Report, SyncReply, SyncRequest, Wanted
from rota.worlds.live.directives import Directives
from rota.worlds.live.inbox import Inbox, ReportTold


class Talk:
    """The agent of n1 talks to a controller that takes n1 for `state`."""

    def __init__(self, state: str = "up") -> None:
        self.row = SimpleNamespace(state=state)
        self.stored = self.row
        self.inbox, self.directives, self.notifier = Inbox(), Directives("one"), Notifier()
        logs = SimpleNamespace(take=lambda node, pieces: None, asked_of=lambda node: [])
        clock = type("At5", (), {"epoch_unix_s": 0.0, "__call__": lambda self: 5.0})()
        parts: dict[str, Any] = {
            "store": SimpleNamespace(node=lambda name: self.stored), "roster": None, "tidier": None,
            "shown": SchedulerView(nodes={"n1": self.row}), "inbox": self.inbox, "logs": logs,
            "directives": self.directives, "notifier": self.notifier,
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


ENDED = Report(row=0, attempt=1, status=PartStatus.ENDED, since_s=1.0)
ORDER = Part(row=1, job="2", attempt=1, version=0, wanted=Wanted.RUN)
LATER = Part(row=2, job="3", attempt=1, version=0, wanted=Wanted.RUN)


@pytest.mark.parametrize("breaks_off", [False, True])
def test_the_message_that_waits_gets_the_orders_and_the_question_those_that_come_later(
    breaks_off: bool,
) -> None:
    """If nobody listens to the answer of the message any more, the question has it."""
    talk = Talk()
    talk.directives.on_change(lambda nodes: talk.notifier.notify([("node", node) for node in nodes]))

    def asking(*reports: Report) -> asyncio.Task[SyncReply]:
        said = SyncRequest(incarnation="a", seen=0, controller="one", wait_s=60.0, reports=list(reports))
        return asyncio.create_task(talk.agents.sync("n1", said))

    async def conversation() -> None:
        question, message = asking(), asking(ENDED)
        await asyncio.sleep(0)
        if breaks_off:
            message.cancel()
        talk.directives.stage("n1", ORDER)
        talk.directives.publish()
        if not breaks_off:
            assert [part.row for part in (await message).parts] == [1]
            assert not question.done()
            talk.directives.stage("n1", LATER)
            talk.directives.publish()
        assert {part.row for part in (await question).parts} == ({1} if breaks_off else {1, 2})

    asyncio.run(asyncio.wait_for(conversation(), 60))
