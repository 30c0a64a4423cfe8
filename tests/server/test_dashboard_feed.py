"""What browsers hear: everything that changed, in few and small messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from rota.server.announcer import topics_of
from rota.server.api.route_parts import Waiting
from rota.server.dashboard import stream
from rota.server.dashboard.feed import MOST_NAMED, Changes, Feed
from rota.server.dashboard.stream import messages, text_of
from rota.server.turn import TurnChanges


def test_changes_gather_for_each_who_listens() -> None:
    feed = Feed()
    feed.tell(["jobs"], ["1"])  # nobody hears it
    assert feed.count == 1, "but a page that was made before is behind"
    first, second = feed.join(), feed.join()
    feed.tell(["jobs"], ["2", "3"])
    assert feed.take(first) == Changes({"jobs"}, {"2", "3"})
    feed.tell(["nodes"])
    assert feed.take(first) == Changes({"nodes"}, set())
    assert feed.take(second) == Changes({"jobs", "nodes"}, {"2", "3"})
    feed.leave(first)
    feed.tell([], ["4"])
    assert feed.take(second) == Changes()


def test_many_jobs_are_any() -> None:
    changes = Changes()
    for first in range(0, 10 * MOST_NAMED, 10):
        changes.add(Changes({"jobs"}, {str(job) for job in range(first, first + 10)}))
    assert changes.jobs is None
    assert text_of(changes) == 'event: changed\ndata: {"topics": ["jobs"], "jobs": null}\n\n'
    assert text_of(Changes()) == "event: beat\ndata: -\n\n", "a browser hears that there is nothing"
    assert changes.take().jobs is None
    assert changes.jobs == set(), "counted anew"


@pytest.mark.parametrize(
    ("turn", "topics"),
    [
        (TurnChanges(), []),
        (TurnChanges(jobs={0: None}), ["jobs"]),  # type: ignore[dict-item]
        (TurnChanges(nodes=["n1"], watched=["3"]), ["nodes", "usage"]),
        (TurnChanges(decided_s=0.1), ["decision"]),
        (TurnChanges(is_about_policy=True), ["policy"]),
    ],
)
def test_what_a_turn_tells(turn: TurnChanges, topics: list[str]) -> None:
    assert topics_of(turn) == topics


def test_a_stream_says_what_changed_and_ends_with_the_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "PAUSE_S", 0.0)
    feed, waiting = Feed(), Waiting()

    async def heard() -> list[str]:
        texts: AsyncIterator[str] = messages(feed, waiting, 0)
        said = [await anext(texts)]
        feed.tell(["jobs"], ["7"])
        said.append(await anext(texts))
        ended = asyncio.ensure_future(anext(texts, "the end"))
        await asyncio.sleep(0)
        waiting.close()
        return [*said, await ended]

    hello, changed, end = asyncio.run(heard())
    assert hello.endswith("event: hello\ndata: false\n\n")
    assert changed == 'event: changed\ndata: {"topics": ["jobs"], "jobs": ["7"]}\n\n'
    assert end == "the end"
    assert feed._gathered == {}, "nothing gathers for those who have gone"
