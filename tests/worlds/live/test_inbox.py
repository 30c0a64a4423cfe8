"""What is taken from the inbox, and when: a stream of arrivals that cannot start is taken a few at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from live_stage import Stage

from rota.model.grants import Role
from rota.worlds.live import inbox as module
from rota.worlds.live.inbox import Arrived, Begun, Event, Inbox

LONG_S = 60.0


def arrivals(count: int) -> list[Event]:
    return [Arrived([]) for _ in range(count)]


@contextmanager
def taking(inbox: Inbox, timeout_s: float = LONG_S) -> Iterator[list[list[Event]]]:
    """A thread that gathers; what it took is there after the block."""
    taken: list[list[Event]] = []
    taker = threading.Thread(target=lambda: taken.append(inbox.take(timeout_s, gathers=True)))
    taker.start()
    yield taken
    taker.join(LONG_S)
    assert not taker.is_alive()


def eventually_gathers(inbox: Inbox) -> None:
    end = time.monotonic() + LONG_S
    while not inbox._is_gathering:
        assert time.monotonic() < end
        time.sleep(0.001)


@pytest.fixture
def following(monkeypatch: pytest.MonkeyPatch) -> Inbox:
    """An arrival was taken a moment ago, and another has come; for company it would wait long."""
    monkeypatch.setattr(module, "COMPANY_S", LONG_S)
    inbox = Inbox()
    inbox.put(Arrived([]))
    inbox.take(0.0)
    inbox.put(Arrived([]))
    return inbox


@pytest.mark.parametrize("gathers", [False, True])
def test_the_first_ones_are_taken_at_once(gathers: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COMPANY_S", LONG_S)
    inbox = Inbox()
    inbox.put(Arrived([]))
    assert inbox.take(LONG_S, gathers=gathers) == arrivals(1)


def test_who_does_not_gather_takes_each_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COMPANY_S", LONG_S)
    inbox = Inbox()
    for _ in range(3):
        inbox.put(Arrived([]))
        assert inbox.take(LONG_S) == arrivals(1)


@pytest.mark.slow
def test_those_that_follow_wait_for_anything_else(following: Inbox) -> None:
    with taking(following) as taken:
        eventually_gathers(following)
        following.put(Arrived([]))
        assert not following.is_quiet  # they are about to be decided about
        following.put(Begun())
    assert taken == [[*arrivals(2), Begun()]]
    assert following.take(0.0, gathers=True) == []


@pytest.mark.slow
def test_they_do_not_wait_for_long() -> None:
    inbox = Inbox()
    for _ in range(2):
        inbox.put(Arrived([]))
        with taking(inbox) as taken:
            pass
        assert taken == [arrivals(1)]


@pytest.mark.parametrize("event", [Begun(), Arrived([])])
def test_nor_where_something_else_is_due(event: Event, following: Inbox) -> None:
    """There already, or at a moment that the timers tell."""
    following.put(event)
    assert len(following.take(0.0 if isinstance(event, Arrived) else LONG_S, gathers=True)) == 2


@pytest.mark.slow
def test_a_closed_inbox_waits_for_nothing(following: Inbox) -> None:
    with taking(following) as taken:
        eventually_gathers(following)
        following.close()
    assert taken == [arrivals(1)]


def may_wait(stage: Stage) -> bool:
    """Whether arrivals would wait for company now."""
    stage.turn(stage.now)
    return stage.inbox.gathered[-1]


def test_only_a_full_cluster_lets_them_wait() -> None:
    stage = Stage(n0=2)
    first, second = stage.submit(), stage.submit()
    stage.start(first, 0)
    assert not may_wait(stage)
    stage.start(second, 1)
    assert may_wait(stage)
    stage.grant(second, 1, share=0.5, role=Role.PACKED)
    assert not may_wait(stage), "half of a device is left"
    stage.grant(second, 1)
    assert may_wait(stage)
    stage.end(first)
    assert not may_wait(stage)
