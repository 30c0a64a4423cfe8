"""Who waits is woken, from whatever thread, and nothing is left behind."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from rota.server.api.route_parts import Waiting
from rota.server.callers import Caller
from rota.server.commands import CommandOutcomes
from rota.server.jobs import Jobs
from rota.server.notifier import Notifier
from rota.server.refusals import Busy
from rota.server.store.new_jobs import asked
from rota.server.store.rows import JobRow, JobState
from rota.server.views import job_view
from rota.wire.job import JobSpec
from rota.wire.views import JobView


def test_a_notice_from_another_thread() -> None:
    notifier = Notifier()

    async def wait() -> bool:
        with notifier.listen("job") as listener:
            threading.Thread(target=notifier.notify, args=(["other", "job"],)).start()
            return await listener.wait(10.0)

    assert asyncio.run(wait())


def test_what_happens_between_two_waits_is_not_missed() -> None:
    notifier = Notifier()

    async def wait() -> list[bool]:
        with notifier.listen("job") as listener:
            notifier.notify(["job"])
            await asyncio.sleep(0)
            return [await listener.wait(0.1), await listener.wait(0.0)]

    assert asyncio.run(wait()) == [True, False]


def test_everybody_who_listens_hears_and_nobody_else() -> None:
    notifier = Notifier()

    async def wait() -> list[bool]:
        with notifier.listen("a") as one, notifier.listen("a") as two, notifier.listen("b") as other:
            notifier.notify(["a"])
            return list(await asyncio.gather(one.wait(1.0), two.wait(1.0), other.wait(0.01)))

    assert asyncio.run(wait()) == [True, True, False]


def test_nothing_is_left_of_those_who_have_gone() -> None:
    notifier = Notifier()

    async def wait() -> None:
        with notifier.listen("a"):
            pass

    asyncio.run(wait())
    assert not notifier._waiting
    notifier.notify(["a"])  # the loop is closed: nobody is there


def test_a_negative_time_is_none() -> None:
    notifier = Notifier()

    async def wait() -> bool:
        with notifier.listen("a") as listener:
            return await listener.wait(-1.0)

    assert asyncio.run(wait()) is False


def test_an_outcome_that_comes_while_somebody_waits() -> None:
    outcomes = CommandOutcomes()
    outcomes.expect(1)
    threading.Timer(0.01, outcomes.tell, (1, {"error": "no"})).start()
    assert outcomes.wait(1, 10.0) == {"error": "no"}


def test_an_outcome_that_came_before_somebody_waited() -> None:
    outcomes = CommandOutcomes()
    outcomes.expect(1)
    outcomes.tell(1, {})
    assert outcomes.wait(1, 0.0) == {}


def test_an_outcome_that_does_not_come_and_one_that_nobody_expects() -> None:
    outcomes = CommandOutcomes()
    outcomes.expect(1)
    outcomes.tell(2, {})
    assert outcomes.wait(1, 0.01) is None
    outcomes.tell(1, {})
    assert not outcomes._waiting


def test_a_call_that_the_end_of_all_ended_may_wait_again() -> None:
    """It was cancelled for that in its own task, which nothing is left of."""

    async def call() -> tuple[bool, int]:
        waiting, own = Waiting(), asyncio.current_task()
        asyncio.get_running_loop().call_soon(waiting.close)
        with pytest.raises(Busy):
            await waiting.until_closed(asyncio.Event().wait())
        assert own is not None
        with Notifier().listen("a") as listener:
            return await listener.wait(0.0), own.cancelling()

    assert asyncio.run(call()) == (False, 0)


def test_a_call_that_is_cancelled_is_not_told_of_the_end_of_all() -> None:
    async def call() -> None:
        task = asyncio.ensure_future(Waiting().until_closed(asyncio.Event().wait()))
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(call())


# -- who waits for the end of a job ------------------------------------------------------------------


class Desk:
    """A job on record that comes to its end while, or right after, it is read."""

    def __init__(self, notifier: Notifier, ends_at: int) -> None:
        self.reads, self._notifier, self._ends_at = 0, notifier, ends_at

    def row(self, id: str) -> JobRow:
        self.reads += 1
        was = JobRow(
            0, id, "ann", 0.0, None, None, 0, asked(JobSpec(command=["x"]), "ann", "", 0.0), JobState()
        )
        if self.reads == self._ends_at:
            self._notifier.notify([("ended", id)])
        over = replace(was.now, state="COMPLETED", finish_s=1.0)
        return was if self.reads <= self._ends_at else replace(was, now=over)

    def own(self, who: Caller, id: str) -> JobRow:
        return self.row(id)

    def views(self, rows: list[JobRow]) -> list[JobView]:
        return [job_view(row, None, 0.0, 1.0) for row in rows]


def jobs_at(desk: Desk, notifier: Notifier) -> Jobs:
    none: Any = None
    clock: Any = SimpleNamespace(epoch_unix_s=0.0)
    records: Any = desk
    store: Any = SimpleNamespace(may_be_silent=False)
    return Jobs(store, records, none, none, none, notifier, clock)


def test_an_end_just_after_the_first_look_is_not_missed() -> None:
    notifier = Notifier()
    desk = Desk(notifier, ends_at=1)
    view = asyncio.run(jobs_at(desk, notifier).wait(Caller("ann"), "1", 60.0))
    assert (view.state, desk.reads) == ("COMPLETED", 2)


def test_only_an_end_is_read() -> None:
    """A job that begins is no news to who waits for its end: to read the store would delay the start."""
    notifier = Notifier()
    desk = Desk(notifier, ends_at=99)

    async def wait() -> JobView:
        waiting = asyncio.ensure_future(jobs_at(desk, notifier).wait(Caller("ann"), "1", 0.3))
        await asyncio.sleep(0.05)
        notifier.notify([("job", 0)])
        await asyncio.sleep(0.05)
        assert desk.reads == 1
        return await waiting

    assert asyncio.run(wait()).state == "PENDING"
    assert desk.reads == 2, "once more when the time is over"
