"""Who waits for the end of a job lets a decision that is being made go first."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

from rota.server.jobs import Jobs
from rota.server.notifier import Notifier
from rota.worlds.live.inbox import Begun, Inbox


class Asked:
    """What stands for the records: remembers how often the scheduler had been asked when they were read."""

    def __init__(self, answers: list[bool]) -> None:
        self.answers, self.asked, self.read_after = answers, 0, -1

    def is_quiet(self) -> bool:
        self.asked += 1
        return self.answers.pop(0) if self.answers else False

    def own(self, who: object, id: str) -> Any:
        self.read_after = self.asked
        raise LookupError(id)


def wait(asked: Asked, wait_s: float) -> float:
    """Seconds until the record is read."""
    unused: Any = None
    clock: Any = type("Clock", (), {"epoch_unix_s": 0.0})()
    records: Any = asked
    store: Any = type("Store", (), {"may_be_silent": False})()
    jobs = Jobs(store, records, unused, unused, unused, Notifier(), clock, asked.is_quiet)
    began = time.monotonic()
    try:
        asyncio.run(jobs.wait(unused, "1", wait_s))
    except LookupError:
        return time.monotonic() - began
    raise AssertionError("the record was not read")


def test_the_record_is_read_once_nothing_is_being_decided() -> None:
    asked = Asked([False, False, True])
    wait(asked, 5.0)
    assert asked.read_after == 3


def test_a_scheduler_that_never_rests_holds_nobody_up() -> None:
    asked = Asked([])
    assert wait(asked, 50.0) < 40.0
    assert asked.read_after > 1


def test_who_does_not_want_to_wait_does_not() -> None:
    asked = Asked([])
    wait(asked, 0.0)
    assert asked.read_after <= 1


def test_quiet_is_who_waits_for_an_empty_inbox() -> None:
    inbox = Inbox()
    assert not inbox.is_quiet  # nobody has come for anything yet
    taken: list[object] = []
    taker = threading.Thread(target=lambda: taken.extend(inbox.take(60.0)))
    taker.start()
    while not inbox.is_quiet:
        time.sleep(0.001)
    inbox.put(Begun())
    taker.join(30.0)
    assert (len(taken), inbox.is_quiet) == (1, False)
